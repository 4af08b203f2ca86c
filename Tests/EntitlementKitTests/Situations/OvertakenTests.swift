import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: answers that overtake each other")
struct OvertakenTests {
    private func answer(_ position: Int64, millisecond: Int) throws -> ServerAnswer {
        let at = "2026-01-02T00:00:00.0\(millisecond)Z"
        let json =
            #"{"customer_id":"apple:A","environment":"production","position":\#(position),"at":"\#(at)","#
            + #""proof":"app_transaction","ledger_id":"l"}"#
        let wire = try WireJSON.decode(WireValue.self, from: Array(json.utf8))
        return try #require(ServerAnswer(wire))
    }

    private func posting(_ ledger: DeviceLedger, number: Int) -> SyncPosting {
        let batch = SyncQueue.Batch(number: number, customerID: "apple:A", transactionIDs: [], asks: true)
        return ledger.posting(batch, at: .earliest)
    }

    private static let nothing = PostingResults(.object([:]), transactions: 0, renewals: 0)

    @Test("an answer to a request that was under way already is no answer of another log")
    func overtaken() throws {
        var ledger = DeviceLedger(EntitlementConfiguration(bundleID: Statements.bundleID))
        let (first, second) = (posting(ledger, number: 1), posting(ledger, number: 2))
        #expect(!ledger.take(try answer(105, millisecond: 10), Self.nothing, to: second, lastRequest: 2))
        // It was read at an earlier position, by another instance whose clock is a little ahead.
        #expect(!ledger.take(try answer(104, millisecond: 12), Self.nothing, to: first, lastRequest: 2))
        #expect(ledger.memories.last?.answer.position == 105)
    }

    @Test("one to a request that was made since is, where the log has become shorter")
    func shorter() throws {
        var ledger = DeviceLedger(EntitlementConfiguration(bundleID: Statements.bundleID))
        #expect(!ledger.take(try answer(105, millisecond: 10), Self.nothing, to: posting(ledger, number: 1)))
        #expect(ledger.take(try answer(104, millisecond: 12), Self.nothing, to: posting(ledger, number: 2)))
        #expect(ledger.memories.last?.answer.position == 104)
    }

    @Test("of two answers that two processes had within a minute, neither is of another log")
    func onDisk() throws {
        let transaction = try DeviceTransaction(Statements.transaction("1"))
        var other = ServerMemory(try answer(105, millisecond: 10))
        other.noteAnswered(transaction, isConflict: false, at: other.answer.at)
        var memory = ServerMemory(try answer(104, millisecond: 12))
        memory.join(other)
        #expect(memory.hasAnswered(transaction))
    }
}
