/// What outgoing webhooks tell of.
package enum MessageType: String, CaseIterable, Hashable, Sendable {
    case entitlementsChanged = "entitlements.changed"
    case eventRecorded = "event.recorded"
    case ownershipConflict = "ownership.conflict"
    case driftFound = "drift.found"
    case streamSilent = "stream.silent"
    case streamRecovered = "stream.recovered"
    /// Sent only when somebody orders it, whatever types the endpoint chose.
    case test
    // What became of a purchase, by the names that RevenueCat's receivers know.
    case initialPurchase = "INITIAL_PURCHASE"
    case renewal = "RENEWAL"
    case productChange = "PRODUCT_CHANGE"
    case cancellation = "CANCELLATION"
    case uncancellation = "UNCANCELLATION"
    case billingIssue = "BILLING_ISSUE"
    case expiration = "EXPIRATION"
    case nonRenewingPurchase = "NON_RENEWING_PURCHASE"
    case subscriptionExtended = "SUBSCRIPTION_EXTENDED"
    case refundReversed = "REFUND_REVERSED"
    case transfer = "TRANSFER"
}

/// A secret of an endpoint.
package struct EndpointSecret: Hashable, Sendable {
    package let hash: Digest
    /// The date of the event that brought it into use.
    package let at: Timestamp
    /// When it came into use: earlier than that date where a clock was ahead once, and so the log is.
    private(set) var since: Timestamp
    /// For how long messages are signed with the earlier secrets as well, in milliseconds; `nil`: for the usual time.
    package let keepsOld: Int64?

    fileprivate init(hash: Digest, at: Timestamp, keepsOld: Int64?) {
        (self.hash, self.at, since, self.keepsOld) = (hash, at, at, keepsOld)
    }

    fileprivate mutating func noteMade(at instant: Timestamp) { since = min(at, instant) }
}

/// An endpoint of outgoing webhooks, as the log has it.
package struct Endpoint: Hashable, Sendable {
    package let id: String
    package fileprivate(set) var terms: EndpointTerms
    /// Where it was made: it is told of what comes after.
    package let position: Int64
    /// The last event about it.
    package fileprivate(set) var lastPosition: Int64
    /// Its secrets, the newest first.
    package fileprivate(set) var secrets: [EndpointSecret]
    package var createdAt: Timestamp { secrets.last?.at ?? .earliest }
    /// Why nothing is sent to it; `nil` where something is.
    package fileprivate(set) var pause: EndpointFact.Pause?
    /// Where it was last resumed, or given another address; `nil` where it never was.
    package fileprivate(set) var resumedPosition: Int64?

    /// The hashes of the secrets that sign, the newest first.
    ///
    /// - Parameter overlap: how long a secret signs along after another took its place, in milliseconds.
    package func signing(at instant: Timestamp, overlap: Int64) -> [Digest] {
        var signing: [Digest] = []
        for secret in secrets {
            signing.append(secret.hash)
            // A secret that ends the one before it ends all earlier ones, too. With `kept` 0 it does so at once, even
            // where its event is dated a moment ahead.
            let kept = secret.keepsOld ?? overlap
            guard kept > 0, instant < secret.since.adding(milliseconds: kept) else { break }
        }
        return signing
    }

    /// Whether it wants to hear of messages of a type, in an environment.
    ///
    /// - Parameter environment: `nil` for what concerns none.
    package func wants(_ type: MessageType, in environment: StoreEnvironment?) -> Bool {
        if let own = terms.environment, let environment, own != environment { return false }
        return type == .test || terms.types.isEmpty || terms.types.contains(type.rawValue)
    }
}

/// The endpoints that there are, by the events about them in their order.
package struct EndpointBook: Hashable, Sendable {
    package private(set) var endpoints: [String: Endpoint] = [:]
    private var removed: Set<String> = []
    /// The longest time that earlier secrets are kept, in seconds; a longer one counts as this.
    private static let longestKept: Int64 = 31_536_000

    package init() {}

    /// Applies an event, where it follows from those before it; else changes nothing.
    ///
    /// - Returns: whether it does.
    @discardableResult
    package mutating func apply(_ fact: EndpointFact, position: Int64, at recordedAt: Timestamp) -> Bool {
        if case .made(let terms) = fact.change {
            guard endpoints[fact.endpointID] == nil, !removed.contains(fact.endpointID) else { return false }
            endpoints[fact.endpointID] = Endpoint(
                id: fact.endpointID, terms: terms, position: position, lastPosition: position,
                secrets: [EndpointSecret(hash: terms.secretHash, at: recordedAt, keepsOld: nil)],
                pause: nil)
            return true
        }
        guard var endpoint = endpoints[fact.endpointID] else { return false }
        endpoint.lastPosition = position
        switch fact.change {
        case .made: return false
        case .changed(let changes):
            endpoint.terms.apply(changes)
            // What came of the old address says nothing of the new one.
            if changes.address != nil { endpoint.resumedPosition = position }
        case .secretRotated(let hash, let keepOldSeconds):
            endpoint.secrets.insert(
                EndpointSecret(
                    hash: hash, at: recordedAt,
                    keepsOld: keepOldSeconds.map { max(0, min($0, Self.longestKept)) * 1000 }),
                at: 0)
        case .paused(let pause): endpoint.pause = pause
        case .resumed: (endpoint.pause, endpoint.resumedPosition) = (nil, position)
        case .removed:
            endpoints[fact.endpointID] = nil
            removed.insert(fact.endpointID)
            return true
        }
        endpoints[fact.endpointID] = endpoint
        return true
    }

    /// Takes note of when a secret was made by the clock, whatever its event is dated.
    package mutating func note(_ secret: Digest, of endpointID: String, madeAt instant: Timestamp) {
        guard let index = endpoints[endpointID]?.secrets.firstIndex(where: { $0.hash == secret }) else { return }
        endpoints[endpointID]?.secrets[index].noteMade(at: instant)
    }
}
