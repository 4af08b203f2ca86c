package import EntitlementCore
import Foundation

/// Everything known about one customer: the file that `rightful export` writes.
package struct CustomerExportDocument: Codable, Hashable, Sendable, NamedDocument {
    /// Of the file; a later version may only add members.
    package static let formatVersion = 2

    /// What binds the file to the log: a checkpoint, signed together with the file's content.
    package struct Binding: Codable, Hashable, Sendable {
        /// A C2SP signed note, whose checkpoint is followed by a line `export`, a space, and the content's SHA-256.
        package let note: String
        /// What checks its signature, as `GET /.well-known/rightful-log-key` gives it.
        package let logKey: String

        package init(note: String, logKey: String) {
            self.note = note
            self.logKey = logKey
        }

        private enum CodingKeys: String, CodingKey {
            case note
            case logKey = "log_key"
        }
    }

    /// The end of the log when it was read.
    package struct LedgerEnd: Codable, Hashable, Sendable {
        package let position: Int64
        package let recordedAt: Timestamp
        package let hash: String

        package init(position: Int64, recordedAt: Timestamp, hash: String) {
            self.position = position
            self.recordedAt = recordedAt
            self.hash = hash
        }

        private enum CodingKeys: String, CodingKey {
            case position, hash
            case recordedAt = "recorded_at"
        }
    }

    /// What stands behind one of the numbers that facts name people by.
    package struct Identity: Codable, Hashable, Sendable {
        package let number: Int64
        package let value: String

        package init(number: Int64, value: String) {
            self.number = number
            self.value = value
        }
    }

    /// One event, with all that its hash covers.
    package struct Event: Codable, Hashable, Sendable {
        package let position: Int64
        package let id: String
        package let type: String
        @Nullable package var environment: StoreEnvironment?
        package let source: String
        @Nullable package var originalTransactionID: String?
        @Nullable package var transactionID: String?
        @Nullable package var productID: String?
        @Nullable package var identity: Int64?
        @Nullable package var otherIdentity: Int64?
        @Nullable package var occurredAt: Timestamp?
        package let recordedAt: Timestamp
        /// The same for people.
        package let facts: WireValue
        /// The canonical bytes that are hashed and folded, in base64.
        package let canonicalFacts: String
        @Nullable package var evidenceSHA256: String?
        /// What binds the identities that this event is the first to name to their numbers; hexadecimal SHA-256.
        package var identityCommitments: [String] = []
        /// The signed bytes: a compact JWS.
        @Nullable package var evidence: String?
        /// The signed bytes name somebody else, and are left out.
        package let evidenceWithheld: Bool
        package let previousHash: String
        package let hash: String

        package init(
            position: Int64, id: String, type: String, source: String, recordedAt: Timestamp, fact: LedgerFact,
            canonicalFacts bytes: [UInt8], evidenceIsWithheld: Bool, previousHash: String, hash: String
        ) {
            self.position = position
            self.id = id
            self.type = type
            self.source = source
            self.recordedAt = recordedAt
            facts = WireValue(fact)
            canonicalFacts = Data(bytes).base64EncodedString()
            evidenceWithheld = evidenceIsWithheld
            self.previousHash = previousHash
            self.hash = hash
        }

        /// The canonical bytes; `nil` where they are no base64.
        package var canonicalBytes: [UInt8]? { Data(base64Encoded: canonicalFacts).map { Array($0) } }

        private enum CodingKeys: String, CodingKey {
            case position, id, type, environment, source, identity, facts, evidence, hash
            case originalTransactionID = "original_transaction_id"
            case transactionID = "transaction_id"
            case productID = "product_id"
            case otherIdentity = "other_identity"
            case occurredAt = "occurred_at"
            case recordedAt = "recorded_at"
            case canonicalFacts = "canonical_facts"
            case evidenceSHA256 = "evidence_sha256"
            case identityCommitments = "identity_commitments"
            case evidenceWithheld = "evidence_withheld"
            case previousHash = "previous_hash"
        }
    }

    package static let objectName = "customer_export"
    package private(set) var object = Self.objectName
    package let formatVersion: Int
    package let foldVersion: Int
    package let customerID: String
    /// The number that stands for the customer.
    package let identity: Int64
    package let identities: [Identity]
    package let environments: [StoreEnvironment]
    package let ledger: LedgerEnd
    /// In the order of their positions; every catalog among them.
    package private(set) var events: [Event]
    /// `nil` where it was exported without the log's key.
    @Nullable package var checkpoint: Binding?

    package init(
        customerID: String, identity: Int64, identities: [Identity], environments: [StoreEnvironment],
        ledger: LedgerEnd, events: [Event]
    ) {
        formatVersion = Self.formatVersion
        foldVersion = OriginalState.foldVersion
        self.customerID = customerID
        self.identity = identity
        self.identities = identities
        self.environments = environments
        self.ledger = ledger
        self.events = events
    }

    private enum CodingKeys: String, CodingKey {
        case object, identity, identities, environments, ledger, events, checkpoint
        case formatVersion = "format_version"
        case foldVersion = "fold_version"
        case customerID = "customer_id"
    }
}

extension CustomerExportDocument {
    /// The file: the document as ``WireJSON`` encodes it, and a line's end.
    ///
    /// Its events are encoded one by one, for a whole history takes many times its own bytes while it is encoded.
    ///
    /// - Parameter check: throws where the file is not wanted any more.
    package func encoded(check: () throws -> Void = {}) throws -> [UInt8] {
        var frame = self
        frame.events = []
        var bytes = try WireJSON.encode(frame)
        // In a text of the document each of these quotes would have a backslash before it.
        guard let place = bytes.firstRange(of: Array(#""events":[]"#.utf8)) else {
            return try WireJSON.encode(self) + [UInt8(ascii: "\n")]
        }
        let end = Array(bytes[(place.upperBound - 1)...])
        bytes.removeLast(end.count)
        for (index, event) in events.enumerated() {
            try check()
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += try WireJSON.encode(event)
        }
        bytes += end
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }
}
