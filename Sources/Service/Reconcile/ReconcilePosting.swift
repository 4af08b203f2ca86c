import AppStorePayloads
import AppStoreServer
import EntitlementAPI
import EntitlementCore

/// What a device posted, each item verified by itself and held against the app and environment of the request.
struct ReconcilePosting: Sendable {
    /// Why an item leaves no fact.
    struct Refusal: Error, Sendable {
        let code: String
        let detail: String
        /// What the item calls itself, which nobody has to believe.
        let id: String?
    }

    let app: String
    let environment: StoreEnvironment
    let transactions: [Result<VerifiedTransaction, Refusal>]
    let renewals: [Result<VerifiedRenewal, Refusal>]
    let appTransaction: Result<VerifiedAppTransaction, Refusal>?
    /// What the app says of its devices.
    let trust: DeviceTrust

    var accepted: [VerifiedTransaction] { transactions.compactMap { try? $0.get() } }
    var acceptedRenewals: [VerifiedRenewal] { renewals.compactMap { try? $0.get() } }

    /// The default customer of the app transaction, where there is one to believe.
    var appCustomer: CustomerID? {
        (try? appTransaction?.get())?.payload.appTransactionID.flatMap { CustomerID.ofAppTransaction($0) }
    }

    /// Verifies everything; it keeps a core busy for a fraction of a millisecond an item.
    ///
    /// - Parameters:
    ///   - work: bounds and tells what was done in vain; when it was cut short, the posting is not to be used.
    ///   - environment: `nil` takes that of the first item that can be believed, the app transaction before the
    ///     transactions, and production where there is none.
    ///   - trust: what apps say of their devices.
    init(
        _ request: ReconcileRequest, app: String, environment: StoreEnvironment?,
        with verifier: StatementVerifier, trust: DeviceTrustTable, now: Timestamp, work: inout SignatureWork
    ) {
        let appTransaction = request.appTransaction.map { text in
            Self.item(text, "appTransactionId") { compact throws(NotificationRefusal) in
                try verifier.appTransaction(compact, now: now, work: &work)
            }.bound(toApp: app) { $0.bundleID }
        }
        let transactions = request.signedTransactions.map { text in
            Self.item(text, "transactionId") { compact throws(NotificationRefusal) in
                try verifier.transaction(compact, now: now, work: &work)
            }.bound(toApp: app) { $0.bundleID }
        }
        let stated =
            (try? appTransaction?.get())?.environment
            ?? transactions.lazy.compactMap { try? $0.get() }.first?.environment
        let environment = environment ?? stated ?? .production
        let bound = transactions.map { $0.bound(to: environment) }
        let originals = Set(bound.compactMap { try? $0.get().payload.originalTransactionID })
        self.app = app
        self.environment = environment
        self.transactions = bound
        let appTrust = trust[app, environment]
        self.trust = appTrust
        self.appTransaction = appTransaction?.bound(to: environment)
            .young(at: now, maxAge: appTrust.appTransactionMaxAge)
        renewals = request.signedRenewalInfos.map { text in
            Self.item(text, "originalTransactionId") { compact throws(NotificationRefusal) in
                try verifier.renewal(compact, now: now, work: &work)
            }.bound(to: environment).flatMap { renewal in
                let original = renewal.payload.originalTransactionID
                // It names no app, so by itself it could be anybody's.
                guard originals.contains(original) else {
                    return .failure(
                        Refusal(
                            code: ProblemCode.inconsistentPayload.rawValue,
                            detail: "renewal information counts only beside a transaction of the same original "
                                + "transaction, in the same request", id: original))
                }
                return .success(renewal)
            }
        }
    }

    /// The instant at which the app transaction becomes too old to be believed; `nil`: never.
    var appTransactionEnd: Timestamp? {
        guard let maxAge = trust.appTransactionMaxAge, let signed = (try? appTransaction?.get())?.signedDate else {
            return nil
        }
        return signed.adding(milliseconds: maxAge).adding(milliseconds: 1)
    }

    private static func item<Statement>(
        _ text: String, _ idField: String, _ verify: (String) throws(NotificationRefusal) -> Statement
    ) -> Result<Statement, Refusal> {
        do throws(NotificationRefusal) {
            return .success(try verify(text))
        } catch {
            let payload = (try? UnverifiedJWS(Array(text.utf8)))?.payload
            let id = payload.flatMap { try? JSONObject(parsing: $0) }?[idField]?.identifier
            return .failure(Refusal(code: error.code.rawValue, detail: error.detail, id: id))
        }
    }
}

/// A payload that has an id of its own.
private protocol PostedPayload: Hashable, Sendable {
    var postedID: String? { get }
}

extension TransactionPayload: PostedPayload {
    fileprivate var postedID: String? { transactionID }
}

extension RenewalPayload: PostedPayload {
    fileprivate var postedID: String? { originalTransactionID }
}

extension AppTransactionPayload: PostedPayload {
    fileprivate var postedID: String? { appTransactionID }
}

extension Result where Failure == ReconcilePosting.Refusal, Success == VerifiedAppTransaction {
    /// Refuses an app transaction that is older than its app takes, and then one without a date.
    fileprivate func young(at now: Timestamp, maxAge: Int64?) -> Self {
        guard let maxAge else { return self }
        return flatMap { statement in
            if let signed = statement.signedDate, now <= signed.adding(milliseconds: maxAge) {
                return .success(statement)
            }
            return .failure(
                Failure(
                    code: ProblemCode.forbidden.rawValue,
                    detail: "it is older than this app takes: refresh it, or send a customer token",
                    id: statement.payload.appTransactionID))
        }
    }
}

extension Result where Failure == ReconcilePosting.Refusal {
    fileprivate func bound<Payload: PostedPayload>(
        toApp app: String, _ bundleID: (VerifiedStatement<Payload>) -> String
    ) -> Self where Success == VerifiedStatement<Payload> {
        // Byte for byte, as the configuration names it.
        refusing(.unknownApp, "it is of another app than this request") { !bundleID($0).utf8.elementsEqual(app.utf8) }
    }

    fileprivate func bound<Payload: PostedPayload>(
        to environment: StoreEnvironment
    ) -> Self where Success == VerifiedStatement<Payload> {
        refusing(.wrongEnvironment, "it is of another environment than this request, \(environment.rawValue)") {
            $0.environment != environment
        }
    }

    private func refusing<Payload: PostedPayload>(
        _ code: ProblemCode, _ detail: String, where isWrong: (VerifiedStatement<Payload>) -> Bool
    ) -> Self where Success == VerifiedStatement<Payload> {
        flatMap { statement in
            guard isWrong(statement) else { return .success(statement) }
            return .failure(Failure(code: code.rawValue, detail: detail, id: statement.payload.postedID))
        }
    }
}
