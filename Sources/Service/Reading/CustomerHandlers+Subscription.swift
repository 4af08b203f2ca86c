package import EntitlementAPI
package import EntitlementCore
import HTTPServer
package import Ledger

extension CustomerHandlers {
    /// `GET /v1/subscriptions/{original_transaction_id}`.
    func subscription(_ call: Call) async throws -> HTTPResponse {
        let originalID = try call.storeIdentifier(.original)
        let environment = try call.environment()
        let asked = try call.instant(.at)
        let knownAt = try call.knownAt()
        let (found, position) = try await context.reader.subscription(
            originalID, environment: environment, knownAt: knownAt, app: call.scope.app)
        guard let found else {
            throw Problem(
                .notFound,
                "No event about this original transaction is known in \(environment.rawValue)."
                    + (try await context.reader.elsewhere(originalID, than: environment, knownAt, call.scope)),
                param: "original_transaction_id")
        }
        // A transfer that was answered has taken place, though the clock may not have come to its date.
        return try .document(
            found.document(at: asked ?? context.now(), ownedAt: asked ?? .endless, knownAt: position),
            position: position)
    }
}

extension LedgerReader {
    /// In which other environment an original transaction is known, of what whoever asks may hear; empty where in none.
    func elsewhere(
        _ originalID: String, than environment: StoreEnvironment, _ knownAt: KnownAt, _ scope: LogScope
    ) async throws -> String {
        for other in StoreEnvironment.allCases where other != environment && scope.holds(other) {
            let found = try await subscription(originalID, environment: other, knownAt: knownAt, app: scope.app)
            if found.subscription != nil { return " It is known in \(other.rawValue): name that environment." }
        }
        return ""
    }
}

extension SubscriptionFacts {
    /// How it reads at an instant.
    ///
    /// - Parameters:
    ///   - ownedAt: whose it is then; by default now, every transfer included.
    ///   - position: up to which the log is believed.
    package func document(
        at: Timestamp, ownedAt: Timestamp = .endless, knownAt position: Int64
    ) -> SubscriptionDocument {
        let periods = state.chains(catalog).flatMap(\.periods).sorted { $0.start < $1.start }
        let paid = Set(periods.flatMap { $0.transactionIDs + [$0.fact.transactionID] })
        let others = state.purchases(catalog).filter { !paid.contains($0.transactionID) }
        func customerID(of fact: TransactionFact) -> String? {
            ownership.owner(of: fact, at: ownedAt).flatMap { customerIDs[$0] }
        }
        return SubscriptionDocument(
            originalTransactionID: key.originalTransactionID, environment: key.environment, at: at, knownAt: position,
            standing: standing(at: at), isClaimed: isClaimed(at: ownedAt),
            periods: periods.map { SubscriptionDocument.Period($0, customerID: customerID(of: $0.fact)) },
            withoutPeriod: others.sorted { $0.isBought(before: $1) }.map {
                SubscriptionDocument.Purchase($0, customerID: customerID(of: $0))
            })
    }

    /// The app it is of, by the oldest of its transactions; `nil` where nothing was signed about it.
    package var bundleID: String? { state.transactions.first?.fact.bundleID }

    /// Whether the latest purchase is somebody's at an instant, by the transfers until then, be it of a product that gives
    /// nothing and so has no period; of what was bought on the web also where nothing is paid yet.
    func isClaimed(at instant: Timestamp) -> Bool {
        if let web = state.web { return ownership.owner(of: web, at: instant) != nil }
        let latest = state.winningStatements().map(\.fact).max { $0.isBought(before: $1) }
        return latest.flatMap { ownership.owner(of: $0, at: instant) } != nil
    }

    /// How the original transaction reads at an instant; `nil` before it begins.
    fileprivate func standing(at instant: Timestamp) -> SubscriptionDocument.Standing? {
        guard let best = state.reading(catalog, at: instant) else { return nil }
        let product = best.period.fact.productID
        var standing = SubscriptionDocument.Standing(
            state: best.segment.state, productID: product,
            willRenew: willRenew(best.segment.state, best.period, at: instant))
        if standing.willRenew == true, state.web == nil {
            standing.renewsAs = state.renewsAs(at: instant).flatMap { $0 == product ? nil : $0 }
            standing.awaitsConsent = state.awaitsConsent(at: instant, since: best.period.start)
        }
        if best.segment.state != .expired, best.segment.state != .revoked {
            standing.isPaused = state.web?.charging(of: best.period.web, at: instant)?.renewal == .paused
        }
        return standing
    }

    /// What the newest statement about the renewal by then says; nothing renews once it is over.
    private func willRenew(_ reading: EntitlementState, _ period: Period, at instant: Timestamp) -> Bool? {
        guard period.isSubscription else { return nil }
        switch reading {
        case .expired, .revoked:
            return false
        case .active, .inGracePeriod, .inBillingRetry:
            return state.willRenew(at: instant)
        }
    }
}
