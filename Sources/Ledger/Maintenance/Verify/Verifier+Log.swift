import EntitlementCore
import PostgresClient

extension Verifier {
    /// Walks the log from its first event; returns how many rows of `event_name` its events account for.
    func verifyLog(upTo head: LogEnd, into summary: inout VerificationSummary) async throws -> Int64 {
        var walk = LogWalk()
        var tree = TreeCheck(since: since)
        try tree.checkCheckpoint()
        while walk.position < head.position {
            let (after, last, nextIdentity) = (walk.position, walk.last, walk.nextIdentity)
            let upTo = min(after + Int64(limits.events), head.position)
            let found = try await page {
                try LogPage(after: after, upTo: upTo, last: last, nextIdentity: nextIdentity, on: $0)
            }
            try walk.add(found, upTo: upTo)
            if let derive {
                let signatures = try await prove(found.signed, by: derive)
                summary.uncheckedSignatures += signatures[.ofUnknownSecret] ?? 0
                summary.unsignedEvidence += signatures[EvidenceSignature.none] ?? 0
            }
            for hash in found.hashes { try tree.add(hash) }
            if tree.isDue || upTo == head.position {
                let complete = tree.takeComplete()
                try await page { try TreeCheck.compare(complete, on: $0) }
            }
            progress(VerificationProgress(stage: .log, done: upTo, total: head.position))
        }
        try head.check(
            lastHash: walk.last.hash, lastRecordedAt: walk.last.recordedAt, lastCatalog: walk.lastCatalog,
            nextIdentity: walk.nextIdentity)
        try await settle(&walk, after: head.position)
        try await checkPeople()
        summary.root = tree.root
        summary.evidence = walk.evidence
        summary.isProven = derive != nil
        summary.erasedEvidence = walk.erasedEvidence
        return walk.names
    }

    /// Looks for what was erased while the log was walked: the events that say so came after the walk's end.
    private func settle(_ walk: inout LogWalk, after head: Int64) async throws {
        var after = head
        while !walk.isSettled {
            let limit = limits.events
            let (forgettings, last) = try await page { [after] connection in
                let rows = try connection.query(
                    """
                    SELECT position, type, CASE WHEN type = $4 THEN facts END FROM event
                    WHERE ledger_id = $1 AND position > $2 ORDER BY position LIMIT $3
                    """,
                    [.int(ledgerID), .int(after), .int(Int64(limit)), .text("forgotten")]
                ).rows
                let facts = try rows.compactMap { row in
                    try row.optionalBytes(2).flatMap { try? FactCodec.decode($0).forgetting }
                }
                return (facts, try rows.last?.int(0))
            }
            for fact in forgettings { walk.forget(fact) }
            guard let last else { break }
            after = last
        }
        try await checkErasures(walk.erased.sorted())
        if let position = walk.missingEvidence.min() {
            throw VerificationDifference(
                "evidence", "position \(position)", "is missing, and no event says that it was erased")
        }
        if let (identity, position) = walk.missingIdentities.min(by: { $0.key < $1.key }) {
            throw VerificationDifference(
                "identity", "identity \(identity)",
                "is missing, though event \(position) names it and none forgets it")
        }
    }
}

extension Verifier {
    /// An event that says that evidence was erased is one that any role may append which appends at all: who may erase has
    /// to say so in a table of the owner's.
    private func checkErasures(_ positions: [Int64]) async throws {
        var rest = positions[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(limits.events))
            rest = rest.dropFirst(part.count)
            let unsaid = try await page { connection in
                try connection.query(
                    """
                    SELECT claimed.position FROM unnest($2::bigint[]) AS claimed (position)
                    WHERE NOT EXISTS (
                        SELECT FROM erasure WHERE ledger_id = $1 AND erasure.position = claimed.position)
                    ORDER BY 1 LIMIT 1
                    """, [.int(ledgerID), .intArray(part)]
                ).first?.int(0)
            }
            if let unsaid {
                throw VerificationDifference(
                    "evidence", "position \(unsaid)",
                    "is missing, and though an event says that it was erased, the owner's table of erasures does not")
            }
        }
    }

    /// Nobody may be two numbers: answers are looked up by one of them.
    ///
    /// Page by page in the order of the ids, because one statement over all of them could outlast its time limit.
    private func checkPeople() async throws {
        var from = ""
        while true {
            let part = try await page { [from, limit = Int64(Self.peoplePage)] connection in
                try connection.query(
                    """
                    WITH part AS (
                        SELECT value, identity, lag(value) OVER (ORDER BY value, identity) = value AS is_again,
                            lag(identity) OVER (ORDER BY value, identity) AS before
                        FROM (
                            SELECT value, identity FROM identity WHERE ledger_id = $1 AND value >= $2
                            ORDER BY value LIMIT $3
                        ) AS page
                    )
                    SELECT count(*), max(value), min(identity) FILTER (WHERE is_again), min(before) FILTER (WHERE is_again)
                    FROM part
                    """, [.int(ledgerID), .text(from), .int(limit)]
                ).first.map { (try $0.int(0), try $0.optionalText(1), try $0.optionalInt(2), try $0.optionalInt(3)) }
            }
            guard let (count, last, second, first) = part else { return }
            if let second, let first {
                throw VerificationDifference(
                    "identity", "identity \(second)", "stands for the same person as identity \(first)")
            }
            // The last one is the first of the next page, so that a pair is never parted.
            guard count == Self.peoplePage, let last, last != from else { return }
            from = last
        }
    }

    /// Ids compared by one statement.
    private static let peoplePage = 50_000
}

/// What the walk has seen so far.
private struct LogWalk {
    var position: Int64 = 0
    var last: (hash: Digest, recordedAt: Timestamp) = (.zero, .earliest)
    /// Where the last catalog was written; 0 before any.
    var lastCatalog: Int64 = 0
    var names: Int64 = 0
    var keys = KeyWalk()
    /// The number that the next new identity gets.
    var nextIdentity: Int64 = 1
    var evidence: Int64 = 0
    /// The events whose evidence was erased, as later ones say.
    var erased: Set<Int64> = []
    var erasedEvidence: Int64 { Int64(erased.count) }
    /// Evidence that is not there, until an event says that it was erased.
    var missingEvidence: Set<Int64> = []
    /// Identities that are not there, with the first event that names them, until an event forgets them.
    var missingIdentities: [Int64: Int64] = [:]

    var isSettled: Bool { missingEvidence.isEmpty && missingIdentities.isEmpty }

    mutating func add(_ page: LogPage, upTo: Int64) throws {
        for (position, fact) in page.keyEvents { try keys.add(fact, at: position) }
        position = upTo
        last = page.last
        lastCatalog = page.lastCatalog ?? lastCatalog
        names += page.names
        nextIdentity = page.nextIdentity
        evidence += page.evidence
        missingEvidence.formUnion(page.missingEvidence)
        missingIdentities.merge(page.missingIdentities) { first, _ in first }
        for fact in page.forgettings { forget(fact) }
    }

    mutating func forget(_ fact: ForgettingFact) {
        for position in fact.evidencePositions where missingEvidence.remove(position) != nil { erased.insert(position) }
        for identity in fact.identities { missingIdentities[identity.number] = nil }
    }
}

/// The API keys and endpoints made so far: each id is one key's, so that revoking it leaves none, and one endpoint's.
private struct KeyWalk {
    private var made: [String: Digest] = [:]
    private var endpoints: EndpointBook = EndpointBook()

    mutating func add(_ fact: AccessFact, at position: Int64) throws {
        switch fact {
        case .keyCreated(let key):
            guard made.updateValue(key.secretHash, forKey: key.keyID) == nil else {
                throw VerificationDifference(event: position, "makes an API key under the id of another, \(key.keyID)")
            }
        case .keyRevoked(let key):
            guard made[key.keyID] == key.secretHash else {
                throw VerificationDifference(
                    event: position, "revokes an API key that was not made before it, \(key.keyID)")
            }
        case .passKeys:
            break
        case .endpoint(let fact):
            guard endpoints.apply(fact, position: position, at: .earliest) else {
                throw VerificationDifference(
                    event: position,
                    "says of the endpoint \(fact.endpointID) what does not follow from the events before it")
            }
        }
    }
}

/// A stretch of the log, found in order; what only later events can explain is listed.
private struct LogPage: Sendable {
    private(set) var last: (hash: Digest, recordedAt: Timestamp)
    /// Of the events, in their order.
    private(set) var hashes: [Digest] = []
    private(set) var lastCatalog: Int64?
    private(set) var names: Int64 = 0
    private(set) var nextIdentity: Int64 = 1
    private(set) var evidence: Int64 = 0
    private(set) var missingEvidence: [Int64] = []
    private(set) var missingIdentities: [Int64: Int64] = [:]
    private(set) var forgettings: [ForgettingFact] = []
    private(set) var keyEvents: [(position: Int64, fact: AccessFact)] = []
    /// The events whose evidence is there.
    private(set) var signed: [SignedEvent] = []

    init(
        after: Int64, upTo: Int64, last: (hash: Digest, recordedAt: Timestamp), nextIdentity: Int64,
        on connection: isolated PostgresConnection
    ) throws {
        self.last = last
        let result = try connection.query(
            """
            SELECT \(EventColumns.list),
                recorded_at = date_trunc('milliseconds', recorded_at)
                    AND coalesce(occurred_at = date_trunc('milliseconds', occurred_at), true),
                dedup_key, evidence.parts
            FROM event LEFT JOIN evidence USING (ledger_id, position)
            WHERE ledger_id = $1 AND position > $2 AND position <= $3 ORDER BY position
            """, [.int(ledgerID), .int(after), .int(upTo)])
        var checked: [RecordCheck] = []
        var evidence: [(position: Int64, hash: Digest, parts: [UInt8])] = []
        for (row, expected) in zip(result.rows, (after + 1)...upTo) {
            guard try row.int(0) == expected else { throw Self.missing(expected) }
            let check = try RecordCheck(row, at: expected)
            try check.check(after: self.last)
            self.last = (check.record.hash, check.record.recordedAt)
            checked.append(check)
            hashes.append(check.record.hash)
            if case .catalog = check.fact { lastCatalog = expected }
            if case .access(let fact) = check.fact { keyEvents.append((expected, fact)) }
            switch (check.record.evidenceHash, try row.optionalBytes(18)) {
            case (let hash?, let parts?):
                guard !check.record.source.isStripe || parts.first != EvidenceParts.Step.compressed else {
                    throw VerificationDifference(
                        "evidence", "position \(expected)",
                        "is of Stripe, and compressed, so that forgetting somebody would not find them in it")
                }
                evidence.append((expected, hash, parts))
            case (.some, nil): missingEvidence.append(expected)
            case (nil, .some):
                throw VerificationDifference("evidence", "position \(expected)", "its event was recorded without any")
            case (nil, nil): break
            }
        }
        guard result.rowCount == Int(upTo - after) else { throw Self.missing(after + Int64(result.rowCount) + 1) }
        let received = try EvidenceCheck.run(evidence, on: connection)
        self.evidence = Int64(evidence.count)
        signed = zip(evidence, received).map { item, bytes in
            let event = checked[Int(item.position - after - 1)]
            return SignedEvent(record: event.record, fact: event.fact, evidence: bytes)
        }
        forgettings = checked.compactMap(\.fact.forgetting)
        names = try NameCheck(checked, on: connection).rows
        try checkIdentities(checked, from: nextIdentity, on: connection)
        try checkForgotten(checked, on: connection)
    }

    private static func missing(_ position: Int64) -> VerificationDifference {
        VerificationDifference(event: position, "is missing from the log")
    }

    /// Every number must stand for the identity that its first event commits to.
    private mutating func checkIdentities(
        _ events: [RecordCheck], from first: Int64, on connection: isolated PostgresConnection
    ) throws {
        nextIdentity = first
        var committed: [Int64: (commitment: Digest, position: Int64)] = [:]
        for event in events {
            for commitment in event.record.identityCommitments {
                committed[nextIdentity] = (commitment, event.record.position)
                nextIdentity += 1
            }
            if let unknown = event.fact.identities.map(\.number).first(where: { $0 < 1 || $0 >= nextIdentity }) {
                throw VerificationDifference(
                    event: event.record.position, "names identity \(unknown), which no event commits to")
            }
        }
        let stored = try connection.query(
            "SELECT identity, salt, value FROM identity WHERE ledger_id = $1 AND identity >= $2 AND identity < $3",
            [.int(ledgerID), .int(first), .int(nextIdentity)])
        for row in stored.rows {
            let number = try row.int(0)
            guard let first = committed.removeValue(forKey: number),
                IdentityCommitment.of(try row.text(2), salt: try row.bytes(1)) == first.commitment
            else {
                throw VerificationDifference(
                    "identity", "identity \(number)", "is not the one that its first event commits to")
            }
        }
        missingIdentities = committed.mapValues(\.position)
    }

    /// What was forgotten must be gone: an old row put back would name the person again.
    private func checkForgotten(_ events: [RecordCheck], on connection: isolated PostgresConnection) throws {
        for event in events {
            guard let fact = event.fact.forgetting else { continue }
            let results = try connection.pipeline([
                PostgresStatement(
                    """
                    SELECT identity.identity FROM unnest($2::bigint[]) AS erased (identity)
                    JOIN identity ON identity.ledger_id = $1 AND identity.identity = erased.identity LIMIT 1
                    """, [.int(ledgerID), .intArray(fact.identities.map(\.number))]),
                PostgresStatement(
                    """
                    SELECT evidence.position FROM unnest($2::bigint[]) AS erased (position)
                    JOIN evidence ON evidence.ledger_id = $1 AND evidence.position = erased.position LIMIT 1
                    """, [.int(ledgerID), .intArray(fact.evidencePositions)]),
            ])
            let erased = "is there, though event \(event.record.position) erased it"
            if let identity = try results[0].first?.int(0) {
                throw VerificationDifference("identity", "identity \(identity)", erased)
            }
            if let position = try results[1].first?.int(0) {
                throw VerificationDifference("evidence", "position \(position)", erased)
            }
        }
    }
}
