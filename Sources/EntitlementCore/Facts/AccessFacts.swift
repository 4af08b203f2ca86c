/// A change of API keys, webhook endpoints or the keys that sign passes; it holds hashes and public keys, no secrets.
package enum AccessFact: Hashable, Sendable {
    case keyCreated(KeyCreationFact)
    case keyRevoked(KeyRevocationFact)
    /// All public keys of passes that are in use from here on, in the order of their ids.
    case passKeys([PassKeyFact])
    case endpoint(EndpointFact)
}

extension AccessFact {
    /// Every `eventType` there is.
    package static let eventTypes = EndpointFact.eventTypes.union([keyCreatedType, keyRevokedType, passKeysType])

    package static let keyCreatedType = "api_key_created"
    package static let keyRevokedType = "api_key_revoked"
    package static let passKeysType = "pass_keys_changed"

    /// What an event of this fact is called.
    package var eventType: String {
        switch self {
        case .keyCreated: Self.keyCreatedType
        case .keyRevoked: Self.keyRevokedType
        case .passKeys: Self.passKeysType
        case .endpoint(let fact): fact.eventType
        }
    }
}

/// An API key was made: until it is revoked, whoever has its secret may do what this fact allows.
package struct KeyCreationFact: Hashable, Sendable {
    package var keyID: String
    /// SHA-256 of the secret, which is too long to be guessed.
    package var secretHash: Digest
    package var name: String
    /// Ships in an app; may only reconcile, read products and begin a checkout.
    package var isPublishable: Bool
    /// What a secret key may do, as the names of scopes in ascending order.
    package var scopes: [String]
    /// The only environment it is good for; `nil`: both.
    package var environment: StoreEnvironment?
    /// The only app it is good for; `nil`: all.
    package var bundleID: String?

    package init(
        keyID: String, secretHash: Digest, name: String, isPublishable: Bool, scopes: [String],
        environment: StoreEnvironment?, bundleID: String?
    ) {
        self.keyID = keyID
        self.secretHash = secretHash
        self.name = name
        self.isPublishable = isPublishable
        self.scopes = scopes
        self.environment = environment
        self.bundleID = bundleID
    }
}

/// An API key was revoked.
package struct KeyRevocationFact: Hashable, Sendable {
    package var keyID: String
    /// As in the key's creation, so that one look-up by this hash finds both facts.
    package var secretHash: Digest

    package init(keyID: String, secretHash: Digest) {
        self.keyID = keyID
        self.secretHash = secretHash
    }
}

/// The public half of a key that signs passes: a point on P-256.
package struct PassKeyFact: Hashable, Sendable {
    package var keyID: String
    /// The instant from which on it may sign; `nil`: always.
    package var notBefore: Timestamp?
    /// The coordinates as they are published (RFC 7518, section 6.2.1).
    package var x: String
    package var y: String

    package init(keyID: String, notBefore: Timestamp?, x: String, y: String) {
        self.keyID = keyID
        self.notBefore = notBefore
        self.x = x
        self.y = y
    }
}

extension CanonicalWriter {
    mutating func keyCreation(_ fact: KeyCreationFact) {
        text(fact.keyID)
        digest(fact.secretHash)
        text(fact.name)
        flag(fact.isPublishable)
        count(fact.scopes.count)
        for scope in fact.scopes { text(scope) }
        optional(fact.environment) { $0.text($1.rawValue) }
        optional(fact.bundleID) { $0.text($1) }
    }

    mutating func passKeys(_ keys: [PassKeyFact]) {
        count(keys.count)
        for key in keys {
            text(key.keyID)
            optional(key.notBefore) { $0.timestamp($1) }
            text(key.x)
            text(key.y)
        }
    }
}

extension CanonicalReader {
    mutating func keyCreation() throws(Failure) -> KeyCreationFact {
        KeyCreationFact(
            keyID: try text(), secretHash: try digest(), name: try text(), isPublishable: try flag(),
            scopes: try list { reader throws(Failure) in try reader.text() },
            environment: try optional { reader throws(Failure) in try reader.environment() },
            bundleID: try optional { reader throws(Failure) in try reader.text() })
    }

    mutating func passKeys() throws(Failure) -> [PassKeyFact] {
        try list { reader throws(Failure) in
            PassKeyFact(
                keyID: try reader.text(),
                notBefore: try reader.optional { reader throws(Failure) in try reader.timestamp() },
                x: try reader.text(), y: try reader.text())
        }
    }

    mutating func environment() throws(Failure) -> StoreEnvironment {
        let name = try text()
        guard let environment = StoreEnvironment(rawValue: name) else { throw .invalid("an environment \(name)") }
        return environment
    }
}
