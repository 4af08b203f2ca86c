import EntitlementCore

@testable import AppStoreServer

/// What a device can post, and a notification, which it cannot.
enum StatementKind: String, CaseIterable, Sendable {
    case transaction, renewal, appTransaction, notification

    /// The ones a device can post.
    static let places: [StatementKind] = [.transaction, .renewal, .appTransaction]

    /// A good payload of this kind, in production, as a test may spoil it.
    func payload() throws -> Members {
        let members: Members? =
            switch self {
            case .transaction: NotificationDraft().transaction
            case .renewal: NotificationDraft().renewal
            case .appTransaction: NotificationDraft.consent.appTransaction
            case .notification: try NotificationDraft().payload(signedBy: TestStore())
            }
        return members ?? [:]
    }

    /// The fields without which a payload is not of this kind.
    var mandatory: [String] {
        switch self {
        case .transaction:
            ["transactionId", "originalTransactionId", "productId", "bundleId", "purchaseDate", "environment"]
        case .renewal: ["originalTransactionId", "environment"]
        case .appTransaction: ["bundleId", "receiptType"]
        case .notification: ["notificationType", "notificationUUID", "data"]
        }
    }

    var environmentField: String { self == .appTransaction ? "receiptType" : "environment" }
    var dateField: String { self == .appTransaction ? "receiptCreationDate" : "signedDate" }
}

/// A store, and who verifies the statements that it signs.
struct StatementRig {
    let store: TestStore
    let verifier: StatementVerifier

    init(apps: [AppBinding] = [exampleApp], store: TestStore? = nil) throws {
        let store = try store ?? TestStore()
        self.store = store
        verifier = StatementVerifier(jws: try store.verifier(), apps: apps)
    }

    /// Why a payload is refused in a place, once signed; `nil` when it is not.
    func refusal(of payload: Members, as place: StatementKind) throws -> NotificationRefusal? {
        refusal(of: try store.sign(text(payload)), as: place)
    }

    func refusal(of compact: String, as place: StatementKind, now: Timestamp = present) -> NotificationRefusal? {
        do throws(NotificationRefusal) {
            switch place {
            case .transaction: _ = try verifier.transaction(compact, now: now)
            case .renewal: _ = try verifier.renewal(compact, now: now)
            case .appTransaction: _ = try verifier.appTransaction(compact, now: now)
            case .notification: break
            }
            return nil
        } catch {
            return error
        }
    }
}

/// Verifying whatever that costs.
extension StatementVerifier {
    func transaction(_ compact: String, now: Timestamp) throws(NotificationRefusal) -> VerifiedTransaction {
        var work = SignatureWork()
        return try transaction(compact, now: now, work: &work)
    }

    func renewal(_ compact: String, now: Timestamp) throws(NotificationRefusal) -> VerifiedRenewal {
        var work = SignatureWork()
        return try renewal(compact, now: now, work: &work)
    }

    func appTransaction(_ compact: String, now: Timestamp) throws(NotificationRefusal) -> VerifiedAppTransaction {
        var work = SignatureWork()
        return try appTransaction(compact, now: now, work: &work)
    }
}
