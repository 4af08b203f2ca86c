import AppStorePayloads
import EntitlementCore

/// What a notification carries, verified and decoded.
struct NotificationPayloads {
    let notification: NotificationPayload
    let transaction: TransactionPayload?
    let renewal: RenewalPayload?
    let appTransaction: AppTransactionPayload?

    /// Checks that all parts are about one app, one environment and one subscription.
    ///
    /// Each signature proves that the store signed that part, of some app at some time; only this proves that they belong
    /// together.
    ///
    /// - Throws: `inconsistent_payload`.
    func checkBinding(to bundleID: String, _ environment: StoreEnvironment) throws(NotificationRefusal) {
        try require(transaction.map { $0.bundleID == bundleID }, "the transaction's app is not the notification's")
        try require(
            transaction.map { $0.environment == environment.apple },
            "the transaction's environment is not the notification's")
        try require(
            renewal.map { $0.environment == environment.apple },
            "the renewal information's environment is not the notification's")
        if let transaction, let renewal {
            try require(
                renewal.originalTransactionID == transaction.originalTransactionID,
                "the renewal information is about another original transaction than the transaction")
        }
        try require(
            appTransaction.map { $0.bundleID == bundleID }, "the app transaction's app is not the notification's")
        try require(
            appTransaction.map { $0.environment == environment.apple },
            "the app transaction's environment is not the notification's")
        if environment == .production {
            try require(
                appTransaction.map { $0.appAppleID == notification.container.app.appAppleID },
                "the app transaction's appAppleId is not the notification's")
        }
    }

    /// What it all states.
    func fact(
        bundleID: String, parts: NotificationParts, isFuture: Bool, identities: inout IdentityList
    ) -> NotificationFact {
        var transactionFact: TransactionFact?
        if let transaction, let hash = parts.transaction?.verified.payloadHash {
            transactionFact = transaction.fact(
                payloadHash: hash, fallbackSignedDate: notification.signedDate, identities: &identities)
        }
        var renewalFact: RenewalFact?
        if let renewal, let hash = parts.renewal?.verified.payloadHash {
            renewalFact = renewal.fact(
                payloadHash: hash, fallbackSignedDate: notification.signedDate,
                isGraceNotification: notification.isGraceNotification)
        }
        var remarks = notification.remarks
        for other in [transaction?.remarks, renewal?.remarks, appTransaction?.remarks] {
            if let other { remarks.formUnion(other) }
        }
        if notification.isGraceNotification, renewal?.gracePeriodExpiresDate == nil { remarks.insert(.graceWithoutEnd) }
        if notification.isRevocationNotification, transaction?.revocation == nil {
            remarks.insert(.revocationWithoutDate)
        }
        if isFuture { remarks.insert(.futureSignedDate) }
        return NotificationFact(
            type: notification.type, subtype: notification.subtype, uuid: notification.uuid,
            signedDate: notification.signedDate, payloadHash: parts.outer.verified.payloadHash, bundleID: bundleID,
            transaction: transactionFact, renewal: renewalFact,
            appTransaction: appTransaction?.appTransactionID.map { identities.reference(appTransactionID: $0) },
            remarks: remarks.texts)
    }

    /// An absent part has nothing to be inconsistent with.
    private func require(_ holds: Bool?, _ otherwise: String) throws(NotificationRefusal) {
        guard holds ?? true else { throw NotificationRefusal(.inconsistentPayload, otherwise) }
    }
}

extension NotificationPayload {
    /// Which app it says it is about.
    var statedApp: StatedApp {
        let app = container.app
        return StatedApp(
            statement: "the notification", bundleID: app.bundleID, environment: app.environment,
            number: .borne(app.appAppleID))
    }
}
