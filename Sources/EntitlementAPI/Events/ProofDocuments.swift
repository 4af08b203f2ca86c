/// What proves that an event is in the log: the answer of `GET /v1/events/{position}/proof`.
package struct InclusionProofDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "inclusion_proof"
    package private(set) var object = Self.objectName
    package let position: Int64
    /// How many events the tree covers whose root the proof leads to.
    package let size: Int64
    /// In hexadecimal digits, as all hashes here.
    package let leafHash: String
    /// From the leaf upwards.
    package let hashes: [String]

    package init(position: Int64, size: Int64, leafHash: String, hashes: [String]) {
        self.position = position
        self.size = size
        self.leafHash = leafHash
        self.hashes = hashes
    }

    private enum CodingKeys: String, CodingKey {
        case object, position, size, hashes
        case leafHash = "leaf_hash"
    }
}

/// What proves that the log at one size begins with the log at another: the answer of `GET /v1/ledger/consistency`.
package struct ConsistencyProofDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "consistency_proof"
    package private(set) var object = Self.objectName
    package let from: Int64
    package let to: Int64
    /// In hexadecimal digits.
    package let hashes: [String]

    package init(from: Int64, to: Int64, hashes: [String]) {
        self.from = from
        self.to = to
        self.hashes = hashes
    }
}
