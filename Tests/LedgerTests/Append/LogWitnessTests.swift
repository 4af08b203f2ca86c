import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Witnesses of the log's end", .timeLimit(.minutes(1)))
struct LogWitnessTests {
    /// The events of two logs that part after position 4.
    private static func mark(_ position: Int64, isOther: Bool = false) -> EventMark {
        if position == 0 { return .none }
        let byte = UInt8(position) | (isOther && position > 4 ? 0x80 : 0)
        return EventMark(position: position, hash: Digest([UInt8](repeating: byte, count: 32)) ?? .zero)
    }

    @Test(
        "a batch shows that the log has lost its end, whatever the order in which batches are noted",
        arguments: [
            // What was noted as base and end, negative in the other log; what is furthest then, and what was lost.
            ([(0, 2), (2, 5)], 5, nil), ([(2, 5), (0, 2)], 5, nil), ([(0, 2), (4, 6)], 6, nil),
            ([(4, 6), (6, 6), (5, 5)], 6, nil),
            ([(0, 6), (4, -5)], 6, nil), ([(0, 6), (4, -5), (-5, -7)], -7, 6), ([(0, 6), (-6, -8)], -8, 6),
            ([(0, 6), (4, -6)], -6, 6), ([(0, 6), (4, -8), (-8, -9)], -9, 6),
        ] as [([(Int64, Int64)], Int64, Int64?)])
    func batches(noted: [(Int64, Int64)], furthest: Int64, lost: Int64?) {
        func mark(_ number: Int64) -> EventMark { Self.mark(abs(number), isOther: number < 0) }
        var witnessed = WitnessedEnd()
        for (base, end) in noted { witnessed.note(base: mark(base), end: mark(end)) }
        #expect(witnessed.furthest == mark(furthest))
        let head = mark(furthest)
        let told = witnessed.settle(witnessed.marks, held: Set(witnessed.marks), head: head)
        #expect(told == lost.map { LostEnd(known: mark($0), head: head) })
        #expect(witnessed.settle([head], held: [head], head: head) == nil)
    }

    @Test("what others have appended past is looked for, too", arguments: [false, true])
    func passedByOthers(isLost: Bool) {
        var witnessed = WitnessedEnd()
        witnessed.note(base: .none, end: Self.mark(6))
        witnessed.note(base: Self.mark(8, isOther: isLost), end: Self.mark(9, isOther: isLost))
        witnessed.note(base: Self.mark(9, isOther: isLost), end: Self.mark(10, isOther: isLost))
        #expect(witnessed.marks == [Self.mark(6), Self.mark(10, isOther: isLost)])
        let head = Self.mark(12, isOther: isLost)
        let held = Set(witnessed.marks.dropFirst(isLost ? 1 : 0))
        let told = witnessed.settle(witnessed.marks, held: held, head: head)
        #expect(told == (isLost ? LostEnd(known: Self.mark(6), head: head) : nil))
        #expect(witnessed.marks == [head])
    }

    @Test("no more is remembered than the limit")
    func limit() {
        var witnessed = WitnessedEnd()
        for number in Int64(1)...5000 {
            let ends = [2 * number, 2 * number + 1].map { EventMark(position: $0, hash: .zero) }
            witnessed.note(base: ends[0], end: ends[1])
        }
        #expect(witnessed.marks.count == WitnessedEnd.limit + 1)
    }

    @Test("what is noted while the log is asked is looked for the next time")
    func meanwhile() {
        var witnessed = WitnessedEnd()
        witnessed.note(base: .none, end: Self.mark(6))
        let asked = witnessed.marks
        witnessed.note(base: Self.mark(6), end: Self.mark(7))
        #expect(witnessed.settle(asked, held: Set(asked), head: Self.mark(6)) == nil)
        #expect(witnessed.furthest == Self.mark(7))
    }

    @Test("a log that lost what was committed, or seen at a look, is noticed once, also where it is as long again")
    func lost() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let witness = LogWitness()
        let writer = LedgerWriter(
            pool: ledger.database.pool(), now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) },
            report: { witness.note($0) })
        func look() async throws -> [Int64] {
            guard let lost = try await witness.look(through: ledger.pool) else { return [] }
            return [lost.known.position, lost.head.position]
        }
        #expect(try await look() == [])
        _ = try await writer.append(.grant("kept", of: "pro", to: "ann"))
        let end = try await LogEnd.now(of: owner)
        for number in 0..<3 { _ = try await writer.append(.grant("lost \(number)", of: "pro", to: "ann")) }
        #expect(try await look() == [])
        try await end.restore(by: owner)
        #expect(try await look() == [4, 1])
        #expect(try await look() == [])
        // Another instance's, seen at a look.
        for number in 0..<2 { _ = try await ledger.writer.append(.grant("other \(number)", of: "pro", to: "ann")) }
        #expect(try await look() == [])
        try await end.restore(by: owner)
        for number in 0..<4 { _ = try await ledger.writer.append(.grant("again \(number)", of: "pro", to: "ann")) }
        #expect(try await look() == [3, 5])
        // This instance's own go on behind the loss before anybody looks.
        for number in 0..<2 { _ = try await writer.append(.grant("more \(number)", of: "pro", to: "ann")) }
        try await end.restore(by: owner)
        for number in 0..<9 { _ = try await writer.append(.grant("anew \(number)", of: "pro", to: "ann")) }
        #expect(try await look() == [7, 10])
        #expect(try await look() == [])
        // Others go on behind the loss, and this instance after them, before anybody looks.
        _ = try await writer.append(.grant("gone", of: "pro", to: "ann"))
        try await end.restore(by: owner)
        let others = LedgerWriter(
            pool: ledger.database.pool(), now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) })
        for number in 0..<12 { _ = try await others.append(.grant("by others \(number)", of: "pro", to: "ann")) }
        _ = try await writer.append(.grant("after them", of: "pro", to: "ann"))
        #expect(try await look() == [11, 14])
        #expect(try await look() == [])
    }
}
