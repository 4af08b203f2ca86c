import EntitlementCore

/// An answer in its wire form, and where in it stands what changes from one request to the next.
package struct EncodedEntitlementsDocument: Sendable {
    /// The bytes that `WireJSON` writes.
    package fileprivate(set) var bytes: [UInt8] = []
    /// The instant it is about, without its quotes.
    package fileprivate(set) var at = 0..<0
    /// The list of entitlements, with its brackets.
    package fileprivate(set) var entitlements = 0..<0
    /// The position it rests on.
    package fileprivate(set) var knownAt = 0..<0
}

extension EntitlementsDocument {
    /// Writes the document as `WireJSON` does, byte for byte, in about a tenth of the time.
    ///
    /// Every read that is not answered from memory is encoded, and JSONEncoder took as long as all the rest of a read of
    /// the past. Whatever has to be escaped is left to it.
    package func encoded() throws -> EncodedEntitlementsDocument {
        var encoded = EncodedEntitlementsDocument()
        var text = WireText()
        text.raw("{")
        if let alsoIn {
            text.raw("\"also_in\":")
            try text.list(alsoIn) { try $0.string($1.rawValue) }
            text.raw(",")
        }
        text.raw("\"at\":\"")
        encoded.at = text.range { $0.raw(at.description) }
        text.raw("\",\"customer_id\":")
        try text.string(customerID)
        text.raw(",\"entitlements\":")
        encoded.entitlements = try text.range { try $0.list(entitlements) { try $1.write(to: &$0) } }
        text.raw(",\"environment\":")
        try text.string(environment.rawValue)
        text.raw(",\"fold_version\":")
        text.raw(String(foldVersion))
        text.raw(",\"known_at\":")
        encoded.knownAt = text.range { $0.raw(String(knownAt)) }
        text.raw(",\"object\":")
        try text.string(object)
        text.raw("}")
        encoded.bytes = text.bytes
        return encoded
    }
}

extension EntitlementDocument {
    fileprivate func write(to text: inout WireText) throws {
        text.raw(givesAccess ? "{\"gives_access\":true,\"id\":" : "{\"gives_access\":false,\"id\":")
        try text.string(id)
        text.raw(",\"offer\":")
        if let offer {
            text.raw("{\"discount\":")
            try text.string(offer.discount)
            text.raw(",\"type\":")
            try text.string(offer.type)
            text.raw("}")
        } else {
            text.raw("null")
        }
        text.raw(",\"original_transaction_id\":")
        try text.string(originalTransactionID)
        text.raw(",\"ownership\":")
        try text.string(ownership?.rawValue)
        text.raw(",\"product_id\":")
        try text.string(productID)
        text.raw(",\"reason\":{\"code\":")
        try text.string(reason.code.rawValue)
        text.raw(",\"positions\":")
        text.list(reason.positions) { $0.raw(String($1)) }
        text.raw("},\"since\":")
        try text.string(since.description)
        text.raw(",\"source\":")
        try text.string(source.rawValue)
        text.raw(",\"state\":")
        try text.string(state.rawValue)
        text.raw(",\"until\":")
        try text.string(until?.description)
        text.raw(",\"will_renew\":")
        text.raw(willRenew.map { $0 ? "true}" : "false}" } ?? "null}")
    }
}

/// JSON that is being written.
private struct WireText {
    private(set) var bytes: [UInt8] = []

    init() { bytes.reserveCapacity(1024) }

    /// Writes what is JSON already.
    mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Writes a text, or `null`.
    mutating func string(_ text: String?) throws {
        guard let text else { return raw("null") }
        let isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        guard isPlain else {
            bytes += try WireJSON.encode(text)
            return
        }
        bytes.append(UInt8(ascii: "\""))
        raw(text)
        bytes.append(UInt8(ascii: "\""))
    }

    mutating func list<Element, Failure>(
        _ elements: [Element], _ write: (inout WireText, Element) throws(Failure) -> Void
    ) throws(Failure) {
        bytes.append(UInt8(ascii: "["))
        for (index, element) in elements.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            try write(&self, element)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// Where stands what is written meanwhile.
    mutating func range<Failure>(_ write: (inout WireText) throws(Failure) -> Void) throws(Failure) -> Range<Int> {
        let start = bytes.count
        try write(&self)
        return start..<bytes.count
    }
}
