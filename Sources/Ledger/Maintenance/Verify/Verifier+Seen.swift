import EntitlementCore
import PostgresClient

extension Verifier {
    /// Counts again what the log speaks of.
    func verifySeen() async throws {
        guard let (counted, stored) = try await page({ try SeenProjector.stored(on: $0) }) else { return }
        var counts: [SeenProjector.Subject: SeenProjector.Count] = [:]
        var start: Int64 = 0
        while start < counted {
            let stretch = start..<min(start + Int64(limits.seenEvents), counted)
            let found = try await page {
                try SeenProjector.counts(from: stretch.lowerBound, to: stretch.upperBound, on: $0)
            }
            for (subject, count) in found {
                counts[subject, default: SeenProjector.Count(first: count.first, last: count.last)].add(
                    count.events, first: count.first, last: count.last)
            }
            start = stretch.upperBound
            progress(VerificationProgress(stage: .seen, done: start, total: counted))
        }
        let differing = Set(stored.keys).union(counts.keys).filter { stored[$0] != counts[$0] }
        guard let first = differing.min(by: { ($0.kind.rawValue, $0.name) < ($1.kind.rawValue, $1.name) }) else {
            return
        }
        throw VerificationDifference(
            "seen", "\(first.kind.rawValue) \(first.name)",
            "\(stored[first] == nil ? "is missing" : "is not what the events up to \(counted) give"); "
                + "run `rightful rebuild --only seen`")
    }
}

extension SeenProjector {
    /// Up to where is counted, and what: in one statement, so at one instant; `nil` where this program has counted nothing.
    fileprivate static func stored(
        on connection: isolated PostgresConnection
    ) throws -> (counted: Int64, counts: [Subject: Count])? {
        let rows = try connection.query(
            """
            SELECT projection.checkpoint, kind, seen.name, events, first_position, last_position
            FROM projection LEFT JOIN seen ON seen.ledger_id = $1
            WHERE projection.ledger_id = $1 AND projection.name = $2 AND projection.version = $3
            """, [.int(ledgerID), .text(row.name), .int4(Int32(row.version))]
        ).rows
        guard let first = rows.first else { return nil }
        var counts: [Subject: Count] = [:]
        for row in rows {
            guard let text = try row.optionalText(1) else { continue }
            guard let kind = Kind(rawValue: text) else {
                throw VerificationDifference("seen", text, "is nothing that is counted")
            }
            counts[Subject(kind: kind, name: try row.text(2))] = Count(
                events: try row.int(3), first: try row.int(4), last: try row.int(5))
        }
        return (try first.int(0), counts)
    }
}
