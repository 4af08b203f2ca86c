/// What came of restoring: what the customer holds now, and what could not be asked.
///
/// Whatever failed, the rest was done: ``entitlements`` is the best there is.
public struct RestoreOutcome: Sendable {
    /// What the customer holds now.
    public let entitlements: Entitlements
    /// What failed; empty where store and server have both answered.
    public let failures: [RestoreFailure]

    /// Puts one together from its parts.
    public init(entitlements: Entitlements, failures: [RestoreFailure]) {
        self.entitlements = entitlements
        self.failures = failures
    }
}

/// What failed while purchases were restored.
///
/// A later major version may add cases; write `default:` where you switch over it.
public enum RestoreFailure: Error, Sendable, CustomStringConvertible {
    /// The person did not sign in to the store.
    case userCancelled
    /// The store could not bring its purchases here; what it threw.
    case store(any Error)
    /// The store did not answer in time; what comes later counts when it comes.
    case storeTookTooLong
    /// The server did not answer, or cannot tell whose device it is.
    case server(Entitlements.OfflineReason)

    /// A sentence for people who read logs.
    public var description: String {
        switch self {
        case .userCancelled: "the person did not sign in to the store"
        case .store(let error): "the store failed: \(error)"
        case .storeTookTooLong: "the store did not answer in time"
        case .server(let reason): "the server has not answered about this customer: \(reason.rawValue)"
        }
    }
}
