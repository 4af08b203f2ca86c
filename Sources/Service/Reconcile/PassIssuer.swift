import EntitlementAPI

/// What signs passes, and for how long they live.
package struct PassIssuer: Sendable {
    /// Without a key no passes are made.
    let keys: PassKeyRing
    /// How long a pass may live at most.
    let ttl: Duration

    package init(keys: PassKeyRing = .empty, ttl: Duration = PassDocument.defaultTTL) {
        self.keys = keys
        self.ttl = ttl
    }
}
