/// Where something is to be bought.
public enum PurchaseChannel: Sendable, Hashable {
    /// In the device's own store.
    case storeKit
    /// On the web, or not at all.
    case web
    /// On the web where that can be, else in the device's own store.
    case webFirst
}

/// What became of a purchase, and where it was made.
public struct PurchaseReport: Sendable, Hashable {
    /// What became of it.
    public let outcome: PurchaseOutcome
    /// ``PurchaseChannel/web`` or ``PurchaseChannel/storeKit``: where it was made, or was to be made in the end.
    public let channel: PurchaseChannel
    /// Why it was not made on the web, where that was asked for; `nil` where it was, and where nothing was to be bought
    /// anywhere, as of what is owned already.
    public let webUnavailability: WebUnavailability?
    /// What the server said about that, for people who read logs; empty where it said nothing.
    public let webDetail: String

    /// Puts one together from its parts.
    public init(
        outcome: PurchaseOutcome, channel: PurchaseChannel, webUnavailability: WebUnavailability? = nil,
        webDetail: String = ""
    ) {
        self.outcome = outcome
        self.channel = channel
        self.webUnavailability = webUnavailability
        self.webDetail = webDetail
    }
}
