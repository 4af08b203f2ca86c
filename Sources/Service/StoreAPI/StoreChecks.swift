import AppStoreServer
import EntitlementAPI
package import EntitlementCore
package import Ledger
import StripePayloads

/// What asks the store, for each app that may ask it.
package struct StoreChecks: Sendable {
    /// Why nobody was asked.
    package enum Refusal: Error, Sendable, Equatable, CustomStringConvertible {
        /// Several apps may ask, and nothing says which is meant.
        case ambiguous
        /// The app is not configured, or has no `app_store_api`.
        case unconfigured(String?)
        /// Neither side knows it.
        case unknown
        /// It was bought on the web, and no account of Stripe's is configured for that environment.
        case withoutStripe(StoreEnvironment)

        package var description: String {
            switch self {
            case .ambiguous:
                "nothing is known of this transaction, and several apps could ask the store: name the app by its bundle id"
            case .unconfigured(let app):
                app.map { "the app \($0) has no app_store_api in the configuration, so the store cannot be asked" }
                    ?? "no app has app_store_api in the configuration, so the store cannot be asked"
            case .unknown: "neither the ledger nor the store knows this transaction"
            case .withoutStripe(let environment):
                "it was bought on the web, and no account of Stripe's is configured for \(environment.rawValue)"
            }
        }
    }

    private let checks: [String: StoreCheck]
    private let stripe: StripeCheck?

    /// - Parameter stripe: what asks Stripe; `nil`: nobody does here.
    package init(_ checks: [StoreCheck], stripe: StripeCheck? = nil) {
        self.checks = Dictionary(checks.map { ($0.app, $0) }) { first, _ in first }
        self.stripe = stripe
    }

    /// Whether somebody may have bought something by this id on the web: the App Store's ids are numbers.
    package static func isOfWeb(_ id: String) -> Bool { StripeLookup(id: id) != nil }

    /// Asks the store about one original transaction now; returns once what it found is recorded.
    ///
    /// - Parameters:
    ///   - id: the original transaction, or any other of the same.
    ///   - app: whose store is asked where the ledger does not know the transaction.
    ///   - scope: what of the log whoever asks may hear of.
    ///   - earlier: what the store said already of the same Apple account; it is asked where that does not speak of this one.
    ///   - limit: how long the store may take.
    /// - Throws: `Refusal`, `StoreAPIError` of the App Store, `StripeAPIError`, or what reading and appending throw.
    package func check(
        _ id: String, in environment: StoreEnvironment, app: String? = nil, only scope: AppScope? = nil,
        after earlier: [StoreCheck.Finding] = [], reader: LedgerReader, within limit: Duration,
        now: @Sendable () -> Timestamp
    ) async throws -> (outcome: CheckOutcome, finding: StoreCheck.Finding) {
        let known = try await reader.subscription(id, environment: environment, app: scope)
        if known.subscription?.state.web != nil || known.subscription == nil && Self.isOfWeb(id) {
            return try await checkWeb(id, in: environment, only: scope, known, reader: reader, within: limit, now: now)
        }
        let check = try check(of: known.subscription?.bundleID ?? scope?.bundleID ?? app)
        let finding: StoreCheck.Finding
        let original: String
        if let spoken = earlier.first(where: { $0.latest(of: id) != nil }) {
            (finding, original) = (spoken, id)
        } else {
            finding = try await check.run(id, in: environment, within: limit)
            guard let named = finding.originalTransactionID ?? known.subscription.map({ _ in id }) else {
                throw Refusal.unknown
            }
            original = named
        }
        let word = finding.latest(of: original).map { latest in
            StoreCheckDocument.StoreWord(
                status: finding.statuses[original], latest: latest, renewal: finding.renewals[original],
                transactions: finding.transactions.values.count { $0.originalTransactionID == original })
        }
        let head = try await reader.status().position
        return (
            CheckOutcome(
                originalTransactionID: original, app: check.app, environment: environment, checkedAt: now(),
                store: word, positions: known.position...max(known.position, head),
                recorded: finding.recorded.map {
                    .init(position: $0.position, originalTransactionID: $0.originalTransactionID)
                }, refused: finding.refused), finding
        )
    }

    /// The same of what was bought on the web.
    private func checkWeb(
        _ id: String, in environment: StoreEnvironment, only scope: AppScope?,
        _ known: (subscription: SubscriptionFacts?, position: Int64), reader: LedgerReader, within limit: Duration,
        now: @Sendable () -> Timestamp
    ) async throws -> (outcome: CheckOutcome, finding: StoreCheck.Finding) {
        guard let stripe, stripe.asks(about: environment) else { throw Refusal.withoutStripe(environment) }
        let found = try await stripe.run(
            id, in: environment, known: known.subscription?.state.web, within: limit)
        guard let original = found.originalTransactionID ?? known.subscription.map({ _ in id }) else {
            throw Refusal.unknown
        }
        let checkedAt = now()
        let word =
            found.originalTransactionID == nil
            ? nil
            : StoreCheckDocument.StoreWord(
                found.facts, of: original, try await reader.catalog().catalog, at: checkedAt)
        let head = try await reader.status().position
        var finding = StoreCheck.Finding()
        finding.originalTransactionID = found.originalTransactionID
        (finding.recorded, finding.refused, finding.refusal) = (found.recorded, found.refused, found.refusal)
        return (
            CheckOutcome(
                originalTransactionID: original, app: nil, environment: environment, checkedAt: checkedAt,
                store: word, positions: known.position...max(known.position, head),
                recorded: found.recorded.map {
                    .init(position: $0.position, originalTransactionID: $0.originalTransactionID)
                }, refused: found.refused), finding
        )
    }

    /// Every one there is.
    var all: [StoreCheck] { checks.values.sorted { $0.app < $1.app } }

    /// What asks about an app; where none is named the only one there is.
    package func check(of app: String?) throws(Refusal) -> StoreCheck {
        if let app {
            guard let check = checks[app] else { throw .unconfigured(app) }
            return check
        }
        guard let only = checks.values.first else { throw .unconfigured(nil) }
        guard checks.count == 1 else { throw .ambiguous }
        return only
    }
}
