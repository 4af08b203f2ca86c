import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// Takes what devices post, and answers where their customers stand.
struct ReconcileHandler: Sendable {
    let context: ServiceContext
    let writer: LedgerWriter
    let postings: PostingVerifier
    let admission: Admission
    let tokens: CustomerTokens
    let passes: PassIssuer
    /// The ledger's own id, by which devices notice that they speak to another one.
    let ledgerID: String?
    /// Where reconciliations that can be answered again are left for the event loop.
    let launches = Mailbox<RememberedLaunch>(limit: 1024)

    /// `POST /v1/customers/{id}/reconcile`: a device's signed statements against the truth.
    ///
    /// What says something new is recorded first, then whose it is; the answer is read when there is nothing left to
    /// record, so what it lists to finish is durable.
    func reconcile(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(ReconcileRequest.self)
        try admission.payForSignatures(request.signedTransactions.count + request.signedRenewalInfos.count, call)
        let posting = try await postings.verify(request, call)
        // A customer token was made for whom it names, and a publishable key proves it by what it posts.
        if call.isSentWithSecretKey, posting.appCustomer != customer {
            try await context.reader.checkMayName(customer, call.scope, param: nil)
        }
        let question = ReconcileDecision.question(posting, of: customer, credential: call.credential)
        var first: ReconcileDecision?
        var repeating: Set<String> = []
        for attempt in 1...Self.reconcileAttempts {
            var decision = ReconcileDecision(
                posting, of: customer, credential: call.credential, question,
                snapshot: try await context.reader.snapshot(question), repeating: repeating)
            // Before anything is decided about whose the rest is. Where somebody else came first, that is seen next time.
            if let login = try await login(&decision, call) {
                _ = try await append([login])
                continue
            }
            let spent = repetitionsBeyondBudget(decision, call)
            if !spent.isEmpty {
                repeating.formUnion(spent)
                continue
            }
            if first == nil {
                first = decision
                count(posting, decision)
            }
            let statements = decision.statementDrafts()
            if !statements.isEmpty {
                _ = try await append(statements)
                continue
            }
            let abandoned = try await abandoned(decision)
            let ownership = decision.ownershipDrafts(reported: try await reported(decision), abandoned: abandoned)
            // A conflict that others leave no room for is counted, and reported when the device comes again.
            let mayWait =
                attempt == Self.reconcileAttempts && decision.reconciliation.claims.isEmpty && abandoned.isEmpty
            if ownership.isEmpty || mayWait {
                return try await answer(
                    decision, first: first ?? decision, request, call, isNews: attempt > 1 || !ownership.isEmpty)
            }
            // Whoever came first is seen the next time round.
            _ = try await append(ownership)
        }
        throw Problem.unavailable("Others are changing whose these purchases are at this moment; send it again.")
    }

    /// Repetitions, statements, ownership, answer, and as often again as somebody else may come first.
    private static let reconcileAttempts = 8

    /// The event that ties the app transaction to the customer; `nil` where there is none to make.
    ///
    /// A token that is bound to one app must not move on what the Apple account owns of another app: whoever holds a key of the
    /// one app could name any customer as its owner. That nobody keeps it from its login by giving it something, a key of one
    /// app names no Apple account that its app does not know (`checkMayName`).
    private func login(_ decision: inout ReconcileDecision, _ call: Call) async throws -> EventDraft? {
        guard decision.login != nil, let app = decision.posting.appCustomer,
            case .customerToken(let token) = call.credential, let only = token.bundleID.map({ AppScope($0) })
        else { return decision.loginDraft() }
        let snapshot = try await context.reader.snapshot(
            LedgerQuestion(of: app, decision.posting.environment, customers: [app.value]))
        let (facts, number) = (snapshot.facts, snapshot.number(of: app, unknownAs: 1))
        if facts.ownership.owns(number, outside: only, among: facts.originals.values) {
            decision = decision.withoutLogin()
            return nil
        }
        // It was read later than what was decided on; what changes between the two is seen next time.
        return decision.loginDraft(restingOn: try await context.reader.knownNames(of: snapshot.connected))
    }

    /// The original transactions of which devices have repeated more than is recorded a day; the others pay for what they
    /// repeat now.
    ///
    /// A device can have the store sign what it knows already as often as it likes. What else it brings is recorded all
    /// the same, and a repetition that is left out tells nothing that is not known: only when it was said again.
    private func repetitionsBeyondBudget(_ decision: ReconcileDecision, _ call: Call) -> [String] {
        let now = call.request.receivedAt
        let repeated = decision.repeatedBytes.map { original, bytes in
            let key = OriginalKey(environment: decision.posting.environment, originalTransactionID: original)
            return (payer: RateLimiter.Subject.repetitions(key), original: original, bytes: bytes)
        }
        let most = context.limits.rates.repetitions.burst
        let spent = repeated.filter {
            admission.rateLimiter.standing(of: $0.payer, at: now).tokens < min($0.bytes, most)
        }
        if spent.isEmpty { for item in repeated { admission.rateLimiter.charge(item.payer, item.bytes, at: now) } }
        for item in spent { context.metrics.count(.rateLimited, [item.payer.kind]) }
        return spent.map(\.original)
    }

    /// The purchases whose only owner was forgotten, and which name nobody themselves: like unclaimed ones they are the
    /// first one's who proves to hold them.
    private func abandoned(_ decision: ReconcileDecision) async throws -> Set<String> {
        let candidates = decision.nameless
        guard !candidates.isEmpty else { return [] }
        let known = try await context.reader.customerIDs(of: candidates.map(\.owner))
        return Set(candidates.filter { known[$0.owner] == nil }.map(\.originalTransactionID))
    }

    private func reported(_ decision: ReconcileDecision) async throws -> [String: [IdentityRef]] {
        let conflicts = decision.reconciliation.conflicts.map(\.originalTransactionID)
        return conflicts.isEmpty ? [:] : try await context.reader.conflicts(on: conflicts, decision.posting.environment)
    }

    /// Appends drafts at once; those in conflict with what somebody else appended first are left out.
    private func append(_ drafts: [EventDraft]) async throws -> [AppendOutcome] {
        try await withThrowingTaskGroup(of: AppendOutcome?.self) { group in
            for draft in drafts {
                group.addTask {
                    do {
                        return try await writer.append(draft)
                    } catch AppendRefusal.conflict {
                        return nil
                    }
                }
            }
            return try await group.reduce(into: []) { outcomes, outcome in
                if let outcome { outcomes.append(outcome) }
            }
        }
    }

    private func count(_ posting: ReconcilePosting, _ decision: ReconcileDecision) {
        for verdict in decision.reconciliation.verdicts {
            context.metrics.count(.statements, [verdict.isNews ? "recorded" : "known"])
        }
        for case .failure(let refusal) in posting.transactions { context.metrics.count(.statements, [refusal.code]) }
        for case .failure(let refusal) in posting.renewals { context.metrics.count(.statements, [refusal.code]) }
        for _ in decision.reconciliation.conflicts { context.metrics.count(.conflicts, []) }
    }

    /// - Parameter isNews: whether something was, or is still to be, recorded.
    private func answer(
        _ decision: ReconcileDecision, first: ReconcileDecision, _ request: ReconcileRequest, _ call: Call, isNews: Bool
    ) async throws -> HTTPResponse {
        let decision = try await decision.withOwnFacts(from: context.reader)
        let at = context.now()
        let facts = decision.facts
        let (answers, answersUntil) = facts.answersHolding(at: at)
        let claims = decision.compared(request.claims)
        let (drift, driftUntil) = facts.drift(from: claims, at: at)
        try await record(drift, of: claims, decision, at: at)
        let position = decision.snapshot.position
        let isProven = decision.proof != .none
        let pass =
            isProven
            ? try passes.keys.pass(
                customer: decision.customer, audience: decision.posting.app,
                environment: decision.posting.environment, answers: answers, position: position, now: at,
                ttl: passes.ttl) : nil
        func document(at: Timestamp, position: Int64, pass: String?) -> ReconciliationDocument {
            ReconciliationDocument(
                customerID: decision.customer.value, environment: decision.posting.environment, position: position,
                at: at, entitlements: answers.map { EntitlementDocument($0) },
                timeline: facts.timelines().map { TimelineDocument.Entitlement($0, policy: facts.catalog.policy) },
                catalog: CatalogCopy(facts.catalog, writtenAt: decision.snapshot.catalogPosition),
                finish: decision.finish, results: decision.results(first),
                renewalResults: decision.renewalResults(first), appTransaction: decision.appTransactionResult,
                proof: decision.proof, drift: drift.map { DriftDocument($0) }, pass: pass,
                facts: request.wantsFacts && isProven ? decision.factsCopy : nil, ledgerID: ledgerID)
        }
        let headers = [("Cache-Control", ReconciliationTemplate.cacheControl.description)]
        // What says nothing new is likely to be posted again as it is, at the next launch.
        guard !isNews, drift.isEmpty, let dependencies = decision.dependencies, let key = launchKey(call),
            let template = try ReconciliationTemplate.make({ document(at: $0, position: $1, pass: $2) })
        else {
            return try .document(document(at: at, position: position, pass: pass), position: position, headers: headers)
        }
        var until = min(answersUntil, driftUntil)
        var oldestTokenKey: Int64?
        if case .customerToken(let token) = call.credential {
            until = min(until, token.expiresAt)
            // 0 is no key's: where that is not known, the answer is not given again.
            oldestTokenKey = tokens.oldestKey(at: at) ?? 0
        }
        if let end = decision.posting.appTransactionEnd { until = min(until, end) }
        let launch = RepeatableLaunch(
            template, holds: at..<max(at, until), oldestTokenKey: oldestTokenKey,
            knownTransactions: decision.transactions.count,
            customer: decision.customer, app: decision.posting.app, environment: decision.posting.environment,
            answers: answers)
        launches.put(
            RememberedLaunch(
                key: key, launch: launch, environment: decision.posting.environment, mark: decision.snapshot.mark,
                dependencies: dependencies))
        let values = ReconciliationTemplate.values(
            at: at.description, position: String(position), pass: RepeatableLaunch.json(pass))
        return .json(headers: HTTPResponse.ledgerPosition(position) + headers, template.filled(values))
    }

    /// The name of a request as the event loop sees it; `nil` where it would not look for it.
    private func launchKey(_ call: Call) -> LaunchKey? {
        guard call.request.body.count <= LaunchKey.bodyLimit, let authorization = call.request.header("Authorization")
        else { return nil }
        return LaunchKey(
            authorization: authorization.utf8, target: call.request.target.utf8, body: call.request.body,
            sha256: context.sha256)
    }
}
