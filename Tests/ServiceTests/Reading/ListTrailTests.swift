import Testing

@testable import Service

@Suite("Lists that lead in a circle")
struct ListTrailTests {
    /// How many pages are read of a list that leads from one place to another; `nil` where no circle is found.
    private static func pages(from start: String? = nil, most: Int, next: (Int) -> Int) -> Int? {
        var trail = ListTrail(from: start)
        var place = -1
        for count in 1...most {
            place = next(place)
            if !trail.follow("\(place)") { return count }
        }
        return nil
    }

    @Test("a circle is found wherever it begins and however long it is, and not much later", arguments: 1...40, 0...20)
    func circles(length: Int, before: Int) throws {
        let most = 3 * (length + before) + 1
        let count = Self.pages(most: most) { $0 + 1 < length + before ? $0 + 1 : before }
        #expect(try #require(count) > length)
    }

    @Test("a list that goes on is none")
    func straight() { #expect(Self.pages(most: 10_000) { $0 + 1 } == nil) }

    @Test("a circle is found also where reading was taken up within it", arguments: 0..<5)
    func resumed(start: Int) {
        #expect(Self.pages(from: "\(start)", most: 16) { $0 < 0 ? (start + 1) % 5 : ($0 + 1) % 5 } != nil)
    }

    @Test("what leads to where reading was taken up is found at once")
    func atOnce() { #expect(Self.pages(from: "0", most: 1) { _ in 0 } == 1) }
}
