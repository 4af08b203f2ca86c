import Testing

@testable import EntitlementKit

@Suite("Kit: lives of people who buy on the web and in the store", .timeLimit(.minutes(3)))
struct WebLivesTests {
    @Test("nobody is asked to pay twice, what was paid appears by itself, and to nobody else", arguments: 0..<16)
    func lives(_ seed: Int) async {
        let life = WebLife(seed: UInt64(seed))
        await life.live(40)
        for fault in await life.faults { Issue.record("\(fault)") }
    }
}
