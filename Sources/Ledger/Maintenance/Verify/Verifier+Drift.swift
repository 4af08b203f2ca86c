import EntitlementCore
import PostgresClient

extension Verifier {
    /// Tells differences apart again, and compares that with what is stored.
    func verifyDrift() async throws {
        let found = try await page(in: .repeatableReadReadOnly) { try StoredDifferences(on: $0) }
        guard let stored = found else { return }
        var memory = DriftMemory()
        var reached: Int64 = 0
        while reached < stored.counted {
            (memory, reached) = try await page { [memory, reached, limits] connection in
                let start =
                    memory.isQuiet ? try DriftProjector.quietUntil(reached, stored.counted, on: connection) : reached
                let end = min(start + Int64(limits.driftEvents), stored.counted)
                guard start < end else { return (memory, end) }
                var page = try DriftPage(from: start, to: end, after: memory, on: connection)
                try page.goThrough(on: connection)
                var memory = memory
                memory.take(page)
                return (memory, end)
            }
            progress(VerificationProgress(stage: .drift, done: reached, total: stored.counted))
        }
        try stored.check(against: memory)
    }
}

/// What is stored of differences, at one instant.
private struct StoredDifferences: Sendable {
    /// Up to where they are told apart.
    let counted: Int64
    private var hashes: [Int64: Int] = [:]
    private var streams: [StoreStream: Timestamp] = [:]

    /// Rows that are read at a time.
    private static let limit = 2000

    /// - Returns: `nil` where this program has told nothing apart.
    init?(on connection: isolated PostgresConnection) throws {
        let row = try connection.query(
            "SELECT checkpoint FROM projection WHERE ledger_id = $1 AND name = $2 AND version = $3",
            [.int(ledgerID), .text(DriftProjector.row.name), .int4(Int32(DriftProjector.row.version))]
        ).first
        guard let row else { return nil }
        counted = try row.int(0)
        var counts: [DriftPage.CountKey: [Int64]] = [:]
        var after: Int64 = .min
        while true {
            let rows = try connection.query(
                """
                SELECT \(DriftRow.columns), class FROM drift WHERE ledger_id = $1 AND position > $2
                ORDER BY position LIMIT $3
                """, [.int(ledgerID), .int(after), .int(Int64(Self.limit))]
            ).rows
            let drifts = try rows.map { try DriftRow($0) }
            let keys = try DriftKey.stored(of: drifts.map(\.position), on: connection)
            for (drift, row) in zip(drifts, rows) {
                guard try row.int(12) == Int64(drift.cause.driftClass.number) else {
                    throw Self.difference("position \(drift.position)", "its class is not that of its cause")
                }
                hashes[drift.position] = DriftMemory.hash(drift, keys[drift.position] ?? [])
                let isOpen: Int64 = drift.isOpen ? 1 : 0
                let isLarge: Int64 = drift.isOpen && drift.cause == .tooMuchKnown ? 1 : 0
                counts[DriftPage.CountKey(drift), default: [0, 0, 0]] =
                    zip(counts[DriftPage.CountKey(drift)] ?? [0, 0, 0], [isOpen, 1, isLarge]).map { $0 + $1 }
            }
            guard rows.count == Self.limit, let last = drifts.last else { break }
            after = last.position
        }
        streams = try StreamBeginnings(on: connection).known
        try Self.check(counts, on: connection)
    }

    private static func check(
        _ counts: [DriftPage.CountKey: [Int64]], on connection: isolated PostgresConnection
    ) throws {
        var stored: [DriftPage.CountKey: [Int64]] = [:]
        for row in try connection.query(
            "SELECT environment, class, app, open, found, not_compared FROM drift_count WHERE ledger_id = $1",
            [.int(ledgerID)]
        ).rows {
            let numbers = [try row.int(3), try row.int(4), try row.int(5)]
            guard numbers != [0, 0, 0] else { continue }
            stored[try DriftPage.CountKey(row)] = numbers
        }
        guard stored != counts else { return }
        throw difference("drift_count", "is not the number of its rows")
    }

    func check(against memory: DriftMemory) throws {
        let positions = Set(hashes.keys).union(memory.hashes.keys).filter { hashes[$0] != memory.hashes[$0] }
        if let first = positions.min() {
            let problem = hashes[first] == nil ? "is missing" : "is not what the events up to \(counted) give"
            throw Self.difference("position \(first)", problem)
        }
        guard streams == memory.streams.known else {
            throw Self.difference("drift_stream", "is not when the log first heard of its streams")
        }
    }

    private static func difference(_ key: String, _ problem: String) -> VerificationDifference {
        VerificationDifference("drift", key, "\(problem); run `rightful rebuild --only drift`")
    }
}
