/// A webhook endpoint was made, changed or removed.
///
/// Neither its address nor its secret is in the log: the address may contain a secret of the receiver's, and nothing
/// can be removed from the log. With their hashes it can be checked that the address and secret in use are the recorded
/// ones.
package struct EndpointFact: Hashable, Sendable {
    package enum Change: Hashable, Sendable {
        case made(EndpointTerms)
        /// Some of its terms change from here on.
        case changed(EndpointChanges)
        /// Messages are signed with a new secret from here on, and for a while with the earlier ones as well.
        ///
        /// - keepOldSeconds: how long the earlier ones are used; `nil`: for a day.
        case secretRotated(secretHash: Digest, keepOldSeconds: Int64? = nil)
        /// Nothing is sent to it until it is resumed.
        case paused(Pause)
        case resumed
        /// Nothing is sent to it any more, for good.
        case removed
    }

    package enum Pause: UInt8, Hashable, Sendable {
        /// Somebody ordered it.
        case ordered = 1
        /// It accepted no message for as long as attempts are made.
        case unreachable = 2
        /// It answered that it is gone for good (410).
        case gone = 3
    }

    package var endpointID: String
    package var change: Change

    package init(endpointID: String, change: Change) {
        self.endpointID = endpointID
        self.change = change
    }
}

/// What an endpoint is told, and how.
package struct EndpointTerms: Hashable, Sendable {
    /// SHA-256 of the address, and of the secret.
    package var urlHash: Digest
    package var secretHash: Digest
    /// Scheme, host and port of the address.
    package var origin: String
    /// The types of messages, in ascending order; empty: all.
    package var types: [String]
    /// `nil`: both.
    package var environment: StoreEnvironment?
    /// The only app it is told of; `nil`: all.
    package var bundleID: String?
    /// How messages are written.
    package var format: String
    package var description: String?
    /// SHA-256 of a salt and the `Authorization` header that is sent along; `nil`: none is.
    ///
    /// The salt protects a value that a person chose, which could be guessed from a plain hash.
    package var authorizationHash: Digest?

    package init(
        urlHash: Digest, secretHash: Digest, origin: String, types: [String], environment: StoreEnvironment?,
        bundleID: String?, format: String, description: String?, authorizationHash: Digest? = nil
    ) {
        self.urlHash = urlHash
        self.secretHash = secretHash
        self.origin = origin
        self.types = types
        self.environment = environment
        self.bundleID = bundleID
        self.format = format
        self.description = description
        self.authorizationHash = authorizationHash
    }
}

/// The new values of an endpoint's terms; `nil` leaves a term as it is.
///
/// The format and the app cannot change: under another one, messages would not continue what was told before.
package struct EndpointChanges: Hashable, Sendable {
    /// Where it is.
    package struct Address: Hashable, Sendable {
        /// SHA-256 of the address.
        package var urlHash: Digest
        /// Scheme, host and port of the address.
        package var origin: String

        package init(urlHash: Digest, origin: String) { (self.urlHash, self.origin) = (urlHash, origin) }
    }

    package var address: Address?
    /// In ascending order; empty: all.
    package var types: [String]?
    /// `.some(nil)`: both from here on.
    package var environment: StoreEnvironment??
    /// `.some(nil)`: none from here on.
    package var description: String??
    /// As in ``EndpointTerms``; `.some(nil)`: none is sent along from here on.
    package var authorizationHash: Digest??

    package init(
        address: Address? = nil, types: [String]? = nil, environment: StoreEnvironment?? = nil,
        description: String?? = nil, authorizationHash: Digest?? = nil
    ) {
        self.address = address
        self.types = types
        self.environment = environment
        self.description = description
        self.authorizationHash = authorizationHash
    }
}

extension EndpointTerms {
    package mutating func apply(_ changes: EndpointChanges) {
        if let address = changes.address { (urlHash, origin) = (address.urlHash, address.origin) }
        if let types = changes.types { self.types = types }
        if let environment = changes.environment { self.environment = environment }
        if let description = changes.description { self.description = description }
        if let hash = changes.authorizationHash { authorizationHash = hash }
    }
}

extension EndpointFact {
    /// Every `eventType` there is.
    package static let eventTypes: Set<String> = [
        "webhook_endpoint_created", "webhook_endpoint_changed", "webhook_secret_rotated", "webhook_endpoint_paused",
        "webhook_endpoint_resumed", "webhook_endpoint_deleted",
    ]

    /// What an event of this fact is called.
    package var eventType: String {
        switch change {
        case .made: "webhook_endpoint_created"
        case .changed: "webhook_endpoint_changed"
        case .secretRotated: "webhook_secret_rotated"
        case .paused: "webhook_endpoint_paused"
        case .resumed: "webhook_endpoint_resumed"
        case .removed: "webhook_endpoint_deleted"
        }
    }
}

extension CanonicalWriter {
    mutating func endpoint(_ fact: EndpointFact) {
        text(fact.endpointID)
        switch fact.change {
        case .made(let terms):
            byte(terms.authorizationHash == nil ? 1 : 6)
            digest(terms.urlHash)
            digest(terms.secretHash)
            text(terms.origin)
            count(terms.types.count)
            for type in terms.types { text(type) }
            optional(terms.environment) { $0.text($1.rawValue) }
            optional(terms.bundleID) { $0.text($1) }
            text(terms.format)
            optional(terms.description) { $0.text($1) }
            if let hash = terms.authorizationHash { digest(hash) }
        case .changed(let changes):
            byte(8)
            endpointChanges(changes)
        case .secretRotated(let hash, let keepOldSeconds):
            byte(keepOldSeconds == nil ? 2 : 7)
            digest(hash)
            if let keepOldSeconds { integer(keepOldSeconds) }
        case .paused(let pause):
            byte(3)
            byte(pause.rawValue)
        case .resumed: byte(4)
        case .removed: byte(5)
        }
    }

    private mutating func endpointChanges(_ changes: EndpointChanges) {
        optional(changes.address) {
            $0.digest($1.urlHash)
            $0.text($1.origin)
        }
        optional(changes.types) { writer, types in
            writer.count(types.count)
            for type in types { writer.text(type) }
        }
        optional(changes.environment) { $0.optional($1) { $0.text($1.rawValue) } }
        optional(changes.description) { $0.optional($1) { $0.text($1) } }
        optional(changes.authorizationHash) { $0.optional($1) { $0.digest($1) } }
    }
}

extension CanonicalReader {
    mutating func endpoint() throws(Failure) -> EndpointFact {
        let id = try text()
        let change: EndpointFact.Change
        switch try byte() {
        case 1: change = .made(try endpointTerms())
        case 6:
            var terms = try endpointTerms()
            terms.authorizationHash = try digest()
            change = .made(terms)
        case 2: change = .secretRotated(secretHash: try digest())
        case 7: change = .secretRotated(secretHash: try digest(), keepOldSeconds: try integer())
        case 8: change = .changed(try endpointChanges())
        case 3:
            let byte = try byte()
            guard let pause = EndpointFact.Pause(rawValue: byte) else { throw .invalid("a pause of \(byte)") }
            change = .paused(pause)
        case 4: change = .resumed
        case 5: change = .removed
        case let kind: throw .invalid("a change of kind \(kind)")
        }
        return EndpointFact(endpointID: id, change: change)
    }

    private mutating func endpointTerms() throws(Failure) -> EndpointTerms {
        EndpointTerms(
            urlHash: try digest(), secretHash: try digest(), origin: try text(),
            types: try list { reader throws(Failure) in try reader.text() },
            environment: try optional { reader throws(Failure) in try reader.environment() },
            bundleID: try optional { reader throws(Failure) in try reader.text() }, format: try text(),
            description: try optional { reader throws(Failure) in try reader.text() })
    }

    private mutating func endpointChanges() throws(Failure) -> EndpointChanges {
        EndpointChanges(
            address: try optional { reader throws(Failure) in
                EndpointChanges.Address(urlHash: try reader.digest(), origin: try reader.text())
            },
            types: try optional { reader throws(Failure) in
                try reader.list { reader throws(Failure) in try reader.text() }
            },
            environment: try optional { reader throws(Failure) in
                try reader.optional { reader throws(Failure) in try reader.environment() }
            },
            description: try optional { reader throws(Failure) in
                try reader.optional { reader throws(Failure) in try reader.text() }
            },
            authorizationHash: try optional { reader throws(Failure) in
                try reader.optional { reader throws(Failure) in try reader.digest() }
            })
    }
}
