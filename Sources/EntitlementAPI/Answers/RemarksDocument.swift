/// What the log speaks of that is for a person to look at: the answer of `GET /v1/remarks`.
package struct RemarksDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Seen: Codable, Hashable, Sendable {
        package let name: String
        /// How many events speak of it.
        package let events: Int64
        package let firstPosition: Int64
        package let lastPosition: Int64

        package init(name: String, events: Int64, firstPosition: Int64, lastPosition: Int64) {
            self.name = name
            self.events = events
            self.firstPosition = firstPosition
            self.lastPosition = lastPosition
        }

        private enum CodingKeys: String, CodingKey {
            case name, events
            case firstPosition = "first_position"
            case lastPosition = "last_position"
        }
    }

    package static let objectName = "remarks"
    package private(set) var object = Self.objectName
    /// Up to which position it is counted.
    package let countedTo: Int64
    /// By kind, such as `unknown_field`; the most frequent first.
    package let remarks: [Seen]
    /// Products that were sold and of which the catalog in force knows nothing; the most frequent first.
    package let unmappedProducts: [Seen]

    package init(countedTo: Int64, remarks: [Seen], unmappedProducts: [Seen]) {
        self.countedTo = countedTo
        self.remarks = remarks
        self.unmappedProducts = unmappedProducts
    }

    private enum CodingKeys: String, CodingKey {
        case object, remarks
        case countedTo = "counted_to"
        case unmappedProducts = "unmapped_products"
    }
}
