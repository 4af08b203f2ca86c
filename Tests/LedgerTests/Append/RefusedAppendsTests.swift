import PostgresClient
import Testing

@testable import Ledger

@Suite("Whether the database refuses every append")
struct RefusedAppendsTests {
    private static let start = ContinuousClock.now
    private static let full = PostgresError(kind: .outOfService, sqlState: "53100", message: "no space")
    private static let refusal = DatabaseRefusal(full)

    private static func at(_ seconds: Double) -> ContinuousClock.Instant { start + .seconds(seconds) }

    @Test("it is said once appends and trials have failed for so long, and not after something was recorded")
    func patience() {
        var refused = RefusedAppends(patience: .seconds(3))
        var begins = refused.beginTrial(at: Self.at(0))
        #expect(!begins, "nothing was refused")
        refused.note(at: Self.at(0))
        begins = refused.beginTrial(at: Self.at(0.5))
        #expect(begins)
        begins = refused.beginTrial(at: Self.at(0.6))
        #expect(!begins, "one is enough for a while")
        refused.end(trial: Self.refusal)
        refused.note(at: Self.at(2.9))
        #expect(refused.refusal(at: Self.at(2.9)) == nil)
        #expect(refused.refusal(at: Self.at(3)) == Self.refusal)
        #expect(refused.refusal(at: Self.at(3000)) == Self.refusal)
        begins = refused.beginTrial(at: Self.at(3))
        #expect(begins, "as nobody may append any more")
        refused.end(trial: nil)
        #expect(refused.refusal(at: Self.at(3001)) == nil)
        refused.note(at: Self.at(3002))
        #expect(refused.refusal(at: Self.at(3002)) == nil, "it begins anew")
    }

    @Test("what was refused without a trial says nothing, nor does a trial that began before something was recorded")
    func unsure() {
        var refused = RefusedAppends(patience: .seconds(3))
        refused.note(at: Self.at(0))
        #expect(refused.refusal(at: Self.at(60)) == nil)
        let begins = refused.beginTrial(at: Self.at(60))
        #expect(begins)
        refused.clear()
        refused.end(trial: Self.refusal)
        #expect(refused.refusal(at: Self.at(100)) == nil)
        refused.note(at: Self.at(100))
        #expect(refused.refusal(at: Self.at(104)) == nil)
    }

    @Test(
        "the database's own reasons are told from those of whoever asked, and of a database that is away or busy",
        arguments: [
            (.outOfService, true), (.statementTimeout, true), (.uniqueViolation, true), (.insufficientPrivilege, true),
            (.invalidValue, true), (.other, true), (.connection, false), (.unavailable, false), (.serialization, false),
            (.deadlock, false), (.lockTimeout, false), (.stalePlan, false),
        ] as [(PostgresError.Kind, Bool)])
    func reasons(kind: PostgresError.Kind, isRefusal: Bool) {
        let error = PostgresError(kind: kind, message: "it fails")
        #expect((DatabaseRefusal(error) != nil) == isRefusal)
        #expect(DatabaseRefusal(error)?.reason.contains("it fails") ?? !isRefusal)
        #expect(DatabaseRefusal(CancellationError()) == nil)
        #expect(DatabaseRefusal(LedgerError(.unavailable, "too many wait")) == nil)
        #expect(DatabaseRefusal(LedgerError(.corrupt, "the head has no row")) != nil)
    }

    @Test("a full disk is said in plain words, with what to do, and who asks for what is told so, too")
    func words() throws {
        let obstacle = AppendObstacle.refused(try #require(Self.refusal))
        #expect(obstacle.description.hasPrefix("The disk of the database is full, so nothing can be recorded: "))
        #expect(obstacle.description.contains("SQLSTATE 53100"))
        let error = LedgerError(Self.full, doing: "appending to the log")
        #expect(error.code == .unavailable && error.notice == "The disk of the database is full")
    }
}
