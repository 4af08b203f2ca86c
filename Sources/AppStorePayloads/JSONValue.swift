package import EntitlementCore

/// A JSON text that was found valid: its bytes, and the places of its values.
final class JSONDocument: Sendable {
    let bytes: [UInt8]
    let nodes: [JSONNode]

    /// `nil` where the bytes are no JSON text in UTF-8.
    init?(_ bytes: [UInt8]) {
        guard let nodes = JSONReader.nodes(of: bytes) else { return nil }
        self.bytes = bytes
        self.nodes = nodes
    }

    /// Runs the body with the bytes of a node of text, as they stand between the quotes.
    func withBytes<Result>(of node: JSONNode, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[Int(node.start)..<Int(node.end)])) }
    }

    /// The text of a node, its escapes taken away; `nil` where it is no text.
    func text(of node: JSONNode) -> String? {
        switch node.kind {
        case .text: withBytes(of: node) { String(decoding: $0, as: UTF8.self) }
        case .escapedText: withBytes(of: node, JSONText.unescaped)
        case .null, .yes, .no, .number, .array, .object: nil
        }
    }
}

/// A JSON value; each property is `nil` when the value is of another type.
package struct JSONValue {
    let document: JSONDocument
    /// Its place among the document's nodes.
    let index: Int

    /// Longer identifiers could not be keys of the database's indexes.
    static let maximumIdentifierLength = 512

    private var node: JSONNode { document.nodes[index] }

    /// A text of any length, and with any number of combining marks in a row.
    ///
    /// Swift takes hours to compare some, so what is not known to be signed is compared by ``isText(_:)``.
    package var string: String? { document.text(of: node) }

    /// Whether it is this text, byte for byte.
    package func isText(_ text: String) -> Bool { string?.utf8.elementsEqual(text.utf8) ?? false }

    /// A string that can be a key: neither empty, nor longer than 512 bytes, nor holding a NUL.
    package var identifier: String? {
        guard let text = string, !text.isEmpty, text.utf8.count <= Self.maximumIdentifierLength,
            !text.utf8.contains(0)
        else { return nil }
        return text
    }

    /// A string that may be a compact JWS: of any length but none.
    package var signed: EmbeddedJWS? {
        let node = node
        switch node.kind {
        case .text where node.end > node.start:
            let range = Int(node.start)..<Int(node.end)
            return EmbeddedJWS(compact: Array(document.bytes[range]), range: range)
        case .escapedText:
            return document.text(of: node).map { EmbeddedJWS(compact: Array($0.utf8), range: nil) }
        case .text, .null, .yes, .no, .number, .array, .object:
            return nil
        }
    }

    /// A number without a fraction that 64 bits hold.
    package var int64: Int64? {
        switch number {
        case .integer(let value): value
        case .fraction(let value): Int64(exactly: value)
        case nil: nil
        }
    }

    /// A number, rounded to what a `Double` holds.
    package var double: Double? {
        switch number {
        case .integer(let value): Double(value)
        case .fraction(let value): value
        case nil: nil
        }
    }

    package var bool: Bool? {
        switch node.kind {
        case .yes: true
        case .no: false
        case .null, .number, .text, .escapedText, .array, .object: nil
        }
    }

    /// A number of milliseconds, floored where Xcode signs fractions, and clamped to what a timestamp can be.
    package var timestamp: Timestamp? {
        switch number {
        case .integer(let value): Timestamp(milliseconds: value)
        case .fraction(let value): Timestamp(milliseconds: value)
        case nil: nil
        }
    }

    package var object: JSONObject? {
        node.kind == .object ? JSONObject(document: document, index: index) : nil
    }

    /// The elements; one that is `null` reads as nothing at all.
    package var array: [JSONValue]? {
        guard node.kind == .array else { return nil }
        let end = Int(node.next)
        var elements: [JSONValue] = []
        var element = index + 1
        while element < end {
            elements.append(JSONValue(document: document, index: element))
            element = Int(document.nodes[element].next)
        }
        return elements
    }

    init(document: JSONDocument, index: Int) {
        self.document = document
        self.index = index
    }

    init?(document: JSONDocument, unlessNull index: Int) {
        guard document.nodes[index].kind != .null else { return nil }
        self.init(document: document, index: index)
    }

    /// Whether ``identifier`` has a value, which is not made.
    var isIdentifier: Bool {
        let node = node
        // Without escapes there is no NUL.
        guard node.kind == .text else { return identifier != nil }
        return (1...Self.maximumIdentifierLength).contains(Int(node.end - node.start))
    }

    /// Whether it is a text.
    var isText: Bool { node.kind == .text || node.kind == .escapedText }

    /// Whether ``signed`` has a value, which is not made.
    var isSigned: Bool { isText && node.end > node.start }

    private enum Number {
        case integer(Int64)
        case fraction(Double)
    }

    private var number: Number? {
        guard node.kind == .number else { return nil }
        if let integer = document.withBytes(of: node, Self.integer) { return .integer(integer) }
        let text = document.withBytes(of: node) { String(decoding: $0, as: UTF8.self) }
        // What is signed must not be lost for a number beyond `Double`: it reads as the largest there is.
        let value = Double(text) ?? 0
        return .fraction(min(max(value, -Double.greatestFiniteMagnitude), Double.greatestFiniteMagnitude))
    }

    /// A number that is written without point and exponent, if 64 bits hold it.
    private static func integer(_ digits: UnsafeRawBufferPointer) -> Int64? {
        let isNegative = digits.first == UInt8(ascii: "-")
        var value: Int64 = 0
        for digit in digits.dropFirst(isNegative ? 1 : 0) {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            let (shifted, isTooLong) = value.multipliedReportingOverflow(by: 10)
            let number = Int64(digit - UInt8(ascii: "0"))
            let (sum, isTooLarge) =
                isNegative ? shifted.subtractingReportingOverflow(number) : shifted.addingReportingOverflow(number)
            guard !isTooLong, !isTooLarge else { return nil }
            value = sum
        }
        return value
    }
}

/// A member of a payload that may be a compact JWS of its own.
package struct EmbeddedJWS: Hashable, Sendable {
    /// The bytes that the member stands for.
    package let compact: [UInt8]
    /// Where in the payload they stand; `nil` where they do not as they are, because the member is written with escapes.
    package let range: Range<Int>?

    package init(compact: [UInt8], range: Range<Int>?) {
        self.compact = compact
        self.range = range
    }
}
