import AppStorePayloads
import EntitlementCore
import Foundation

@testable import AppStoreServer

typealias Members = [String: Any]

/// A notification in the making, consistent until a test spoils it.
struct NotificationDraft {
    var notification: Members = [
        "notificationType": "DID_RENEW", "notificationUUID": "3838DF56-31AB-4E2D-9F44-9B2B3B6B9A11",
        "version": "2.0", "signedDate": Instant.signed,
    ]
    var containerName = "data"
    var container: Members = [
        "environment": "Production", "appAppleId": 1_234_567_890, "bundleId": "com.example.app",
    ]
    var transaction: Members? = [
        "transactionId": "200", "originalTransactionId": "100", "webOrderLineItemId": "300",
        "bundleId": "com.example.app", "productId": "com.example.pro.yearly", "purchaseDate": Instant.signed - 1_000,
        "expiresDate": Instant.signed + 30 * Instant.day, "signedDate": Instant.signed - 1,
        "type": "Auto-Renewable Subscription", "environment": "Production",
        "appAccountToken": "7E3FB20B-4CDB-47CC-936D-99D65F608138", "appTransactionId": "704000001",
    ]
    var renewal: Members? = [
        "originalTransactionId": "100", "autoRenewProductId": "com.example.pro.yearly", "autoRenewStatus": 1,
        "signedDate": Instant.signed - 2, "environment": "Production",
    ]
    var appTransaction: Members?

    /// Who signs the inner parts, where it is not who signs the whole.
    var transactionSigner: TestStore?
    var renewalSigner: TestStore?
    var appTransactionSigner: TestStore?

    /// The news of a withdrawn consent, which carries an app transaction.
    static var consent: NotificationDraft {
        var draft = NotificationDraft()
        draft.notification["notificationType"] = "RESCIND_CONSENT"
        draft.containerName = "appData"
        draft.transaction = nil
        draft.renewal = nil
        draft.appTransaction = [
            "receiptType": "Production", "appAppleId": 1_234_567_890, "bundleId": "com.example.app",
            "receiptCreationDate": Instant.signed - 3, "appTransactionId": "704000001",
        ]
        return draft
    }

    /// The same in the sandbox, where no app has a number.
    static var sandbox: NotificationDraft {
        var draft = NotificationDraft()
        draft.setEnvironment("Sandbox")
        draft.container["appAppleId"] = nil
        return draft
    }

    mutating func setEnvironment(_ word: String?) {
        container["environment"] = word
        transaction?["environment"] = word
        renewal?["environment"] = word
    }

    func payload(signedBy store: TestStore) throws -> Members {
        var container = container
        if let transaction {
            container["signedTransactionInfo"] = try (transactionSigner ?? store).sign(text(transaction))
        }
        if let renewal { container["signedRenewalInfo"] = try (renewalSigner ?? store).sign(text(renewal)) }
        if let appTransaction {
            container["signedAppTransactionInfo"] = try (appTransactionSigner ?? store).sign(text(appTransaction))
        }
        var notification = notification
        notification[containerName] = container
        return notification
    }

    func signed(by store: TestStore) throws -> String { try store.sign(text(payload(signedBy: store))) }
}

func text(_ members: Members) throws -> String {
    String(
        decoding: try JSONSerialization.data(withJSONObject: members, options: [.sortedKeys, .withoutEscapingSlashes]),
        as: UTF8.self)
}

let exampleApp = AppBinding(
    bundleID: "com.example.app", appAppleID: 1_234_567_890, environments: [.production, .sandbox])

/// Shortly after everything was signed.
let present = Timestamp(milliseconds: Instant.signed + 5_000)

/// Apple's certificates as one test store stands in for them, and who verifies what it signs.
struct NotificationRig {
    let store: TestStore
    let verifier: NotificationVerifier

    init(apps: [AppBinding] = [exampleApp], store: TestStore? = nil) throws {
        let store = try store ?? TestStore()
        self.store = store
        verifier = NotificationVerifier(jws: try store.verifier(), apps: apps)
    }

    func verify(_ draft: NotificationDraft, now: Timestamp = present) throws -> VerifiedNotification {
        try verifier.verify(signedPayload: draft.signed(by: store), now: now)
    }

    /// Why a draft is refused; `nil` when it is not.
    func refusal(of draft: NotificationDraft) throws -> NotificationRefusal? {
        refusal(of: try draft.signed(by: store))
    }

    func refusal(of signedPayload: String, now: Timestamp = present) -> NotificationRefusal? {
        do throws(NotificationRefusal) {
            _ = try verifier.verify(signedPayload: signedPayload, now: now)
            return nil
        } catch {
            return error
        }
    }
}
