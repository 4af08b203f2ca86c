/// One notification of the simulated store, before anything is signed.
///
/// The inner statements are kept beside the outer payload; signing puts them into it as `signedTransactionInfo`,
/// `signedRenewalInfo` or `signedAppTransactionInfo`.
package struct StoreNotification: Sendable, Equatable {
    /// The environment it was sent from.
    package var environment: SimulatedStoreEnvironment
    /// The original transaction it is about; nil for tests, summaries and tokens.
    package var originalTransactionID: String?
    /// The instant it was signed, in milliseconds.
    package var signedDate: Int64
    /// The outer payload: type, subtype, UUID, version, signed date, and `data`, `summary` or another object.
    package var payload: [String: PayloadValue]
    /// The transaction information, if it carries one.
    package var transaction: [String: PayloadValue]?
    /// The renewal information, if it carries one.
    package var renewal: [String: PayloadValue]?
    /// The app transaction, which only notices about the app itself carry.
    package var appTransaction: [String: PayloadValue]?
    /// Which payment its transaction is about and whose that is, as the storyteller knows it; never sent.
    package var testimony: Testimony?

    /// The notification's own id.
    package var uuid: String { text("notificationUUID") ?? "" }
    /// The notification type, as a label.
    package var type: String { text("notificationType") ?? "" }
    /// The subtype, as a label.
    package var subtype: String? { text("subtype") }

    private func text(_ key: String) -> String? {
        if case .string(let value) = payload[key] { value } else { nil }
    }
}
