package import EntitlementCore
package import PostgresClient

/// Erases who somebody is, and the evidence that says so; the events, and with them every hash, stay.
///
/// A person is a customer with every alias that links lead from. Erased are:
///
/// - their ids and account tokens, and the app transaction ids that no other customer's statements bear;
///   an alias that stands for somebody else as well stays, and its link to this person is undone;
/// - the evidence of every event that names one of these ids, or holds one in its signed bytes, also where no event names
///   it;
/// - the evidence of events that name nobody and are about one of their original transactions;
/// - what a web checkout stated of a payment of theirs without naming anybody, or beside their mail address of
///   something that
///   is not known to be anybody else's.
///
/// The forgetting itself is an event in the same commit. Later appends do not find these ids, so a later statement of
/// the same person begins anew.
///
/// It needs a role that may delete evidence: the owner's.
package struct Forgetter: Sendable {
    private let pool: PostgresPool
    private let now: @Sendable () -> Timestamp

    /// `pool` logs in as the owner of the tables.
    package init(pool: PostgresPool, now: @escaping @Sendable () -> Timestamp) {
        self.pool = pool
        self.now = now
    }

    /// What forgetting this customer would erase now.
    ///
    /// - Parameter progress: hears how many positions were looked through, of how many.
    package func preview(
        _ customer: CustomerID, progress: (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> ForgettingPreview {
        let found = try await run { connection in
            try connection.transaction(.readCommittedReadOnly) { connection in
                try connection.goByIndex()
                return (try ForgettingScope(of: customer, on: connection), try EventMark.end(on: connection))
            }
        }
        let (scope, end) = found
        var preview = try await advance(
            ForgettingPreview(scope: scope, search: EvidenceSearch(for: scope), end: end), to: end, progress)
        preview.members = try await run { [scope = preview.scope] connection in try scope.members(on: connection) }
        return preview
    }

    /// Forgets a customer for good; `nil` for one the ledger does not know: then only idempotency keys are erased.
    ///
    /// - Parameter known: what was looked through before, so that it need not be again, unless the log has lost its end
    ///   since.
    /// - Parameter isAgreed: whether somebody was shown what is known, and agreed to that: nothing else is erased then.
    /// - Parameter keyed: the idempotency key under which the answer is kept; `nil` is returned also where one is there already.
    /// - Throws: `invalid` where something else would have to be erased; `AppendRefusal.idempotencyConflict`.
    package func forget(
        _ customer: CustomerID, known: ForgettingPreview? = nil, isAgreed: Bool = false,
        once keyed: KeyedForgetting? = nil
    ) async throws -> ForgettingOutcome? {
        let agreed = isAgreed ? known : nil
        var known = known
        for _ in 0..<Self.attempts {
            let before: ForgettingPreview
            if let known { before = known } else { before = try await preview(customer) }
            known = nil
            guard let end = try await run({ try Self.end(after: before.end, on: $0) }) else { continue }
            let current = try await advance(before, to: end)
            switch try await erase(customer, current, agreed, keyed) {
            case .done(let outcome): return outcome
            case .isSomebodyElse: continue
            case .isMore:
                throw LedgerError(
                    .invalid,
                    "nothing was erased: who this customer is has changed since it was shown, and more would go; look again"
                )
            }
        }
        throw LedgerError(.unavailable, "others keep changing who this customer is; try again")
    }

    /// Tries while links change meanwhile, or the log loses its end.
    private static let attempts = 5

    private enum Attempt: Sendable {
        case done(ForgettingOutcome?)
        /// Ids were linked since they were looked for, or links undone, or others' events may stand where this person's were
        /// found.
        case isSomebodyElse
        /// Something would go that nobody agreed to.
        case isMore
    }

    /// The log's end; `nil` where the log has lost the one that was known, as after a failover.
    private static func end(
        after known: EventMark, on connection: isolated PostgresConnection
    ) throws -> EventMark? {
        let end = try EventMark.end(on: connection)
        return try known.isHeld(on: connection) ? end : nil
    }

    /// Looks through the evidence up to the log's end, page by page; once more as long as what it finds leads further.
    ///
    /// - Throws: `unavailable` where the log loses that end meanwhile.
    private func advance(
        _ preview: ForgettingPreview, to end: EventMark, _ progress: (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> ForgettingPreview {
        var preview = preview
        while true {
            var goesOn = true
            while goesOn {
                try Task.checkCancellation()
                (preview.search, goesOn) = try await run { [search = preview.search] connection in
                    try Self.expect(end, on: connection)
                    var search = search
                    let goesOn = try search.advance(to: end.position, on: connection)
                    return (search, goesOn)
                }
                progress(preview.search.searchedTo, end.position)
            }
            preview.scope = try await run { [scope = preview.scope, search = preview.search] connection in
                try Self.expect(end, on: connection)
                var scope = scope
                try scope.add(search, on: connection)
                return scope
            }
            preview.end = end
            if preview.search.isFor(preview.scope) { return preview }
            preview.search = EvidenceSearch(for: preview.scope)
        }
    }

    /// Refuses to look where the log has not got the end up to which it is looked through.
    ///
    /// Asked each time, for each may be on another server: one that took over for a while had other events there.
    private static func expect(_ end: EventMark, on connection: isolated PostgresConnection) throws {
        guard try end.isHeld(on: connection) else {
            throw LedgerError(
                .unavailable, "the log lost its end, as in a failover, while a customer was looked for; try again")
        }
    }

    private func erase(
        _ customer: CustomerID, _ known: ForgettingPreview, _ agreed: ForgettingPreview?, _ keyed: KeyedForgetting?
    ) async throws -> Attempt {
        try await run { connection in
            do {
                try connection.execute(script: "BEGIN ISOLATION LEVEL READ COMMITTED")
                try connection.goByIndex()
                return try erase(customer, known, agreed, keyed, on: connection)
            } catch {
                // If even this fails the connection is broken, and the server rolls back by itself.
                if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
                throw error
            }
        }
    }

    private func erase(
        _ customer: CustomerID, _ known: ForgettingPreview, _ agreed: ForgettingPreview?, _ keyed: KeyedForgetting?,
        on connection: isolated PostgresConnection
    ) throws -> Attempt {
        let lock = AppendRead.lockHead
        guard let row = try connection.query(lock.sql, lock.parameters).first else { throw Statements.missingHead }
        let head = try LedgerHead(row)
        // Nobody's, so that whoever has the lease is outlasted, this process too.
        let lease = ReadLease()
        // Others' events may stand by now at what was found, which is positions: their evidence would be gone for good.
        guard try known.end.isHeld(on: connection) else {
            try connection.execute(script: "COMMIT")
            return .isSomebodyElse
        }
        // Once more under the lock: nobody can append anything of this customer between looking and erasing.
        var scope = try ForgettingScope(of: customer, on: connection)
        var search = known.search
        guard search.isFor(scope.identities) else {
            try connection.execute(script: "COMMIT")
            return .isSomebodyElse
        }
        while try search.advance(to: head.position, on: connection) {}
        try scope.add(search, on: connection)
        guard search.isFor(scope) else {
            try connection.execute(script: "COMMIT")
            return .isSomebodyElse
        }
        if let agreed, try !agreed.holds(scope, on: connection) {
            try connection.execute(script: "COMMIT")
            return .isMore
        }
        let commands = Self.forgetCommands(about: customer, scope)
        guard !scope.isEmpty else {
            try connection.query(commands.sql, commands.parameters)
            try connection.execute(script: "COMMIT")
            return .done(nil)
        }
        switch try keyed?.command.take(on: connection) {
        case .nothing, nil: break
        case .something:
            try connection.execute(script: "ROLLBACK")
            return .done(nil)
        case .other: throw AppendRefusal.idempotencyConflict
        }
        let named = scope.identities.map(\.ref) + scope.keptAliases.map(\.ref)
        let context = AppendContext(
            head: head, identities: Dictionary(uniqueKeysWithValues: named.map { (ExactText($0.name), $0) }))
        let forgetting = scope.drafts
        let people = scope.identities.map(\.ref)
        try Outbox.lockThoseTold(of: people, on: connection)
        lease.outlast(try row.optionalInt(5), on: connection)
        // Once all that is waited for is there: else the events would be dated back, before what others appended meanwhile.
        let plan = AppendPlan((forgetting + scope.unlinking).map { PreparedEvent($0) }, context: context, now: now())
        let outcome = ForgettingOutcome(
            positions: plan.events.prefix(forgetting.count).map(\.position), identities: scope.identities.count,
            evidence: scope.evidencePositions.count, sharedAppTransactions: scope.sharedAppTransactions.count,
            keptAliases: scope.keptCustomers, sharedMailAddresses: scope.sharedMailAddresses,
            unreadableEvidence: search.unreadable(besides: scope))
        if let keyed { try keyed.command.keep(try keyed.answer(outcome), on: connection) }
        try AppendWrite.run(
            plan,
            and: [
                Outbox.forgottenNotices(
                    to: people, at: plan.events.first?.position ?? head.position, plan.head.recordedAt),
                PostgresStatement(
                    "DELETE FROM identity WHERE ledger_id = $1 AND identity = ANY($2)",
                    [.int(ledgerID), .intArray(scope.identities.map(\.ref.number))]),
                PostgresStatement(
                    "INSERT INTO erasure (ledger_id, position) SELECT $1, unnest($2::bigint[]) ON CONFLICT DO NOTHING",
                    [.int4(Int32(ledgerID)), .intArray(scope.evidencePositions)]),
                PostgresStatement(
                    """
                    DELETE FROM evidence USING unnest($2::bigint[]) AS erased (position)
                    WHERE evidence.ledger_id = $1 AND evidence.position = erased.position
                    """,
                    [.int(ledgerID), .intArray(scope.evidencePositions)]),
                commands,
            ] + Outbox.forgetting(people), lease: lease, on: connection)
        return .done(outcome)
    }

    /// Deletes the idempotency keys of commands about this customer: of those that became events, and of the others, such as
    /// requests for a token.
    ///
    /// What is kept under a key, and the hash of the customer's id beside it, may tell whom it was about.
    private static func forgetCommands(about customer: CustomerID, _ scope: ForgettingScope) -> PostgresStatement {
        let ids = (scope.identities.map(\.value) + [customer.value]).compactMap { CustomerID($0) }
        return PostgresStatement(
            "DELETE FROM command_key WHERE ledger_id = $1 AND (position = ANY ($2) OR customer_sha256 = ANY ($3))",
            [.int(ledgerID), .intArray(scope.positions), .bytesArray(ids.map(CommandKeys.hash(of:)))])
    }

    private func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        do {
            return try await pool.withConnection(body)
        } catch let error as PostgresError where error.kind == .insufficientPrivilege {
            throw LedgerError(
                .invalid, "this role may not erase identities and evidence: forgetting takes the role that owns them")
        } catch let refusal as AppendRefusal {
            throw refusal
        } catch {
            throw LedgerError(error, doing: "forgetting a customer")
        }
    }
}

/// What forgetting a customer would erase, and how far it was looked for.
package struct ForgettingPreview: Sendable {
    package fileprivate(set) var scope: ForgettingScope
    /// The ids that go, the one asked for first, and then those that stay; as of when it was looked for.
    package fileprivate(set) var members: [ForgettingMember] = []
    fileprivate var search: EvidenceSearch
    /// The log's end up to which all of it was found: its positions mean this only in a log that holds that event.
    fileprivate var end: EventMark

    /// Whether the ledger knows nobody of that id.
    package var isEmpty: Bool { scope.isEmpty }

    /// Evidence that is not erased and does not read, by position, so that nobody can say whether it names the customer.
    package var unreadableEvidence: [Int64] { search.unreadable(besides: scope) }

    /// Whether all that would go now was found then, but for what has been said of the same ids since.
    fileprivate func holds(_ now: ForgettingScope, on connection: isolated PostgresConnection) throws -> Bool {
        guard try end.isHeld(on: connection) else { return false }
        return Set(scope.identities.map(\.ref)).isSuperset(of: now.identities.map(\.ref))
            && Set(scope.evidencePositions).isSuperset(of: now.evidencePositions.prefix { $0 <= end.position })
    }
}

/// What was forgotten.
package struct ForgettingOutcome: Sendable, Hashable {
    /// The events that say so: nearly always one, and one of each purchase on the web.
    package let positions: [Int64]
    /// Ids that were erased.
    package let identities: Int
    /// Pieces of evidence that were erased.
    package let evidence: Int
    /// App transaction ids that stay, because statements of other customers bear them too.
    package let sharedAppTransactions: Int
    /// Other aliases that stay, because they stand for somebody else, too.
    package let keptAliases: Int
    /// Mail addresses by which nothing was erased, because they stand in what is other customers', too.
    package let sharedMailAddresses: Int
    /// Evidence that stays and does not read, by position, so that nobody can say whether it names the customer.
    package let unreadableEvidence: [Int64]
}
