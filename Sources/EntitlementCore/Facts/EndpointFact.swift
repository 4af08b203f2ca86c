/// An endpoint of outgoing webhooks was made, or something became of it.
///
/// Neither its address nor its secret is in the log: an address may name a secret of its receiver's, and what is in the log
/// cannot be taken back. Their hashes tell whether what is used is what was said.
package struct EndpointFact: Hashable, Sendable {
    package enum Change: Hashable, Sendable {
        case made(EndpointTerms)
        /// It signs with another secret from here on; the one before signs along for a while.
        case secretRotated(secretHash: Digest)
        /// Nothing is sent to it until it is resumed.
        case paused(Pause)
        case resumed
        /// It is told nothing any more.
        case removed
    }

    package enum Pause: UInt8, Hashable, Sendable {
        /// Somebody ordered it.
        case ordered = 1
        /// It took nothing for as long as is tried.
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
    /// SHA-256 of the `Authorization` that is sent along, behind a salt: somebody may have made it up; `nil`: none is.
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

extension EndpointFact {
    /// Every `eventType` there is.
    package static let eventTypes: Set<String> = [
        "webhook_endpoint_created", "webhook_secret_rotated", "webhook_endpoint_paused", "webhook_endpoint_resumed",
        "webhook_endpoint_deleted",
    ]

    /// What an event of this fact is called.
    package var eventType: String {
        switch change {
        case .made: "webhook_endpoint_created"
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
        case .secretRotated(let hash):
            byte(2)
            digest(hash)
        case .paused(let pause):
            byte(3)
            byte(pause.rawValue)
        case .resumed: byte(4)
        case .removed: byte(5)
        }
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
}
