import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Telling of silent streams", .timeLimit(.minutes(1)))
struct StreamNoticesTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))

    private static func stream(_ app: String, isSilent: Bool) -> NoticedStream {
        NoticedStream(
            app: app, environment: .production, source: "app_store", isSilent: isSilent,
            body: Array(#"{"app":"\#(app)","silent":\#(isSilent)}"#.utf8))
    }

    /// A ledger with an endpoint for every app and one for `com.example`.
    private static func ledger() async throws -> TestLedger {
        let ledger = try await TestLedger()
        for app in [nil, "com.example"] {
            _ = try await ledger.writer.append(.endpoint("we_\(app ?? "all")", app: app))
        }
        let projector = WebhookProjector(ledger)
        while try await projector.step(now: { now }).isUnfinished {}
        return ledger
    }

    /// What was given to the endpoints: type and endpoint.
    private static func told(_ ledger: TestLedger) async throws -> [String] {
        try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT message.type, delivery.endpoint FROM webhook_delivery AS delivery
                JOIN webhook_message AS message USING (ledger_id, number) WHERE message.type IN (5, 6)
                ORDER BY number, endpoint
                """
            ).rows.map { "\(try MessageType(stored: $0.int(0)).rawValue) \(try $0.text(1))" }
        }
    }

    @Test("a stream's silence and its end are told once each, to whom the app concerns, however many processes look")
    func once() async throws {
        let ledger = try await Self.ledger()
        let notices = (0..<3).map { _ in StreamNotices(pool: ledger.database.pool(connections: 1), patience: .zero) }
        func look(isSilent: Bool) async throws {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for one in notices {
                    group.addTask {
                        try await one.note(
                            [
                                Self.stream("com.example", isSilent: isSilent),
                                Self.stream("com.other", isSilent: false),
                            ],
                            at: Self.now)
                    }
                }
                try await group.waitForAll()
            }
        }
        try await look(isSilent: false)
        #expect(try await Self.told(ledger).isEmpty)
        let silence = ["stream.silent we_all", "stream.silent we_com.example"]
        for _ in 0..<2 {
            try await look(isSilent: true)
            #expect(try await Self.told(ledger) == silence)
        }
        let recovery = ["stream.recovered we_all", "stream.recovered we_com.example"]
        for _ in 0..<2 {
            try await look(isSilent: false)
            #expect(try await Self.told(ledger) == silence + recovery)
        }
        try await look(isSilent: true)
        #expect(try await Self.told(ledger) == silence + recovery + silence)
    }

    @Test("a short silence is told to nobody, nor is its end")
    func short() async throws {
        let ledger = try await Self.ledger()
        let notices = StreamNotices(pool: ledger.pool)
        for isSilent in [true, true, false] {
            try await notices.note([Self.stream("com.other", isSilent: isSilent)], at: Self.now)
        }
        #expect(try await Self.told(ledger).isEmpty)
        #expect(try await notices.isWanted())
    }
}
