import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("The positions that a reading rests on")
struct PositionsUnionTests {
    @Test("are in ascending order and each named once, in whatever order more of them come", arguments: [1, 2])
    func union(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        func some() -> [Int64] {
            (0..<Int.random(in: 0...6, using: &random)).map { _ in Int64.random(in: 1...9, using: &random) }
        }
        for _ in 0..<500 {
            let (known, more) = (Set(some()).sorted(), some())
            #expect(known.union(more) == Set(known + more).sorted(), "seed \(seed): \(known) and \(more)")
        }
    }
}
