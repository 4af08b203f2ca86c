import EntitlementCore
import Foundation
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// A ledger with something of everything in it, whose owner can do damage and undo it.
struct VerifyRig {
    static let tables = [
        "ledger_head", "event", "evidence", "jws_header", "event_name", "identity", "original_view", "projection",
        "chart_part",
    ]

    /// Small, so that a short log has stretches of several levels.
    static let charts = ChartLayout(positions: 5, width: 3)

    let ledger: TestLedger
    let owner: PostgresConnection
    let seed: UInt64

    init(seed: UInt64, drafts: Int = 60) async throws {
        self.seed = seed
        ledger = try await TestLedger()
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        for draft in Self.drafts(seed: seed, count: drafts) { _ = try await ledger.writer.append(draft) }
        try await ViewProjector(pool: ledger.pool, policy: .early).catchUp()
        try await ChartProjector(pool: ledger.pool, layout: Self.charts).catchUp(isHurried: true)
        owner = try await ledger.database.owner()
    }

    /// Random lives with signed evidence, app transactions, claims, links and grants.
    static func drafts(seed: UInt64, count: Int, originals: Int = 6) -> [EventDraft] {
        var random = SplitMix64(seed: seed &+ 99)
        let source = RandomDrafts(seed: seed, originals: originals)
        return source.drafts(count).enumerated().map { index, draft in
            var draft = draft
            guard case .notification(var fact) = draft.fact, var transaction = fact.transaction else { return draft }
            let original = transaction.originalTransactionID
            let app = "7000\(original.suffix(2))"
            switch Int.random(in: 0..<10, using: &random) {
            case 0:
                // A renewal without its transaction names nobody, but its signed bytes do.
                fact.transaction = nil
            case 1:
                return EventDraft(
                    environment: nil, source: .api, type: "grant_given", occurredAt: nil,
                    fact: .grant(
                        GrantFact(
                            grantID: "grant-\(index)", customer: IdentityRef(0), entitlementID: "pro", until: nil,
                            reason: "a test")),
                    identities: [source.customer(of: original)], deduplication: .unique)
            case 2...6:
                transaction.appTransaction = IdentityRef(1)
                draft.identities.append("apple:\(app)")
                fact.transaction = transaction
            default:
                break
            }
            draft.fact = .notification(fact)
            if fact.transaction == nil { draft.identities = [] }
            draft.evidence = .received(
                signed(
                    "{\"appAccountToken\":\"\(source.customer(of: original))\",\"appTransactionId\":\"\(app)\",\"n\":\(index)}"
                ))
            return draft
        }
    }

    /// Looks like a JWS with a chain in its header, one of two.
    static func signed(_ payload: String) -> [UInt8] {
        func encoded(_ text: String) -> String {
            Data(text.utf8).base64EncodedString().replacingOccurrences(of: "+", with: "-")
                .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
        }
        let header = String(repeating: payload.utf8.count.isMultiple(of: 2) ? "eyJh" : "eyJi", count: 100)
        return Array("\(header).\(encoded(payload)).\(encoded("signature of \(payload)"))".utf8)
    }

    var verifier: Verifier {
        var limits = Verifier.Limits()
        // Small, so that every walk has many pages and many borders.
        limits.events = 7
        limits.originals = 2
        limits.headers = 1
        limits.policy = .early
        limits.charts = Self.charts
        return Verifier(pool: ledger.pool, limits: limits, derive: nil)
    }

    /// What verification finds; `nil` when all is well.
    func difference() async throws -> VerificationDifference? {
        do {
            _ = try await verifier.run()
            return nil
        } catch let difference as VerificationDifference {
            return difference
        }
    }

    /// Keeps a copy of everything, and takes the guards away.
    func prepare() async throws {
        let copies = Self.tables.map { "CREATE TABLE saved.\($0) AS TABLE public.\($0);" }.joined()
        try await owner.execute(
            script: """
                CREATE SCHEMA saved; \(copies)
                ALTER TABLE event DISABLE TRIGGER event_append_only;
                ALTER TABLE event_name DISABLE TRIGGER event_name_append_only;
                """)
    }

    func restore() async throws {
        try await owner.execute(
            script: Self.tables.map { "DELETE FROM \($0); INSERT INTO \($0) SELECT * FROM saved.\($0);" }.joined())
    }

    /// A digest of every row of every table.
    func fingerprint() async throws -> [String] {
        try await owner.run { connection in
            try Self.tables.map { table in
                try connection.query("SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM \(table) AS t")
                    .first?.optionalText(0) ?? ""
            }
        }
    }
}
