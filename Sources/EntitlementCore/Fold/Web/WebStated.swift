/// A statement of a web checkout that the fold keeps, with the event it was first seen in.
package struct WebStated<Value: Hashable & Sendable>: Hashable, Sendable {
    package let value: Value
    /// The event's `created`, or when it was read.
    package let statedAt: Timestamp
    package let hash: Digest
    package let position: Int64

    /// The same, said by a later event, too.
    func saidAgain(at position: Int64) -> WebStated {
        WebStated(value: value, statedAt: statedAt, hash: hash, position: max(self.position, position))
    }

    func with<Other>(_ other: Other) -> WebStated<Other> {
        WebStated<Other>(value: other, statedAt: statedAt, hash: hash, position: position)
    }

    /// Same event, same content.
    func isSame(as other: WebStated) -> Bool { statedAt == other.statedAt && hash == other.hash }

    func precedes(_ other: WebStated) -> Bool {
        statedAt != other.statedAt ? statedAt < other.statedAt : hash < other.hash
    }
}

/// A line of a paid invoice, with what is to be known of the invoice.
package struct WebPaidLine: Hashable, Sendable {
    package let line: WebLine
    package let invoiceID: String
    package let paidAt: Timestamp?
    package let amountPaid: Int64?
    package let currency: String?
}
