/// One value of a JSON text, by its place in the text.
///
/// The nodes of a text stand in one list, in the order of the text: an array is followed by its elements, an object by
/// its members, each a name and a value.
struct JSONNode {
    enum Kind: UInt8 {
        case null
        case yes
        case no
        /// A number, from its first character to its last.
        case number
        /// What stands between two quotes and means itself.
        case text
        /// What stands between two quotes and holds escapes.
        case escapedText
        case array
        case object
    }

    var kind: Kind
    /// Where it begins in the text, in bytes.
    var start: Int32
    /// Where it ends in the text, in bytes; of arrays and objects behind their last bracket.
    var end: Int32
    /// The place in the list after this node and all it holds.
    var next: Int32
}

/// Reads a JSON text (RFC 8259), in UTF-8, into nodes; the text is either valid as a whole or refused.
///
/// Two things beyond the RFC are taken, as Foundation takes them: a comma after the last element or member, and a byte order
/// mark before the text. What the store signed must not be lost for them.
///
/// The places of a text's values are all that is kept. Nobody pays for the values that nobody asks for, and a payload is
/// read without allocating anything but the list.
struct JSONReader {
    /// How deep arrays and objects may be nested, as deep as Foundation goes.
    static let maximumDepth = 512

    private let text: UnsafeRawBufferPointer
    private var position = 0
    private var nodes: [JSONNode] = []
    /// The arrays and objects that have begun and not yet ended, by their places in the list.
    ///
    /// A list instead of recursion: the threads of a device have small stacks.
    private var open: [Int32] = []

    /// What may come next.
    private enum Expectation {
        case value
        /// An element, or the end of the array: at once, or after a comma too many.
        case elementOrEnd
        /// A name, or the end of the object: at once, or after a comma too many.
        case nameOrEnd
        /// A comma or the end of the innermost array or object; where none is open, the end of the text.
        case separator
    }

    private init(_ text: UnsafeRawBufferPointer) {
        self.text = text
        nodes.reserveCapacity(64)
    }

    /// The nodes of the text, its one value first; `nil` where it is no JSON text.
    static func nodes(of bytes: [UInt8]) -> [JSONNode]? {
        guard bytes.count <= Int32.max else { return nil }
        return bytes.withUnsafeBytes { text in
            var reader = JSONReader(text)
            return reader.read() ? reader.nodes : nil
        }
    }

    private mutating func read() -> Bool {
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }
        var expectation = Expectation.value
        while true {
            skipWhiteSpace()
            guard position < text.count else { return expectation == .separator && open.isEmpty }
            let byte = text[position]
            switch (expectation, byte) {
            case (.separator, UInt8(ascii: ",")):
                guard let last = open.last else { return false }
                position += 1
                expectation = nodes[Int(last)].kind == .object ? .nameOrEnd : .elementOrEnd
            case (.separator, UInt8(ascii: "]")), (.elementOrEnd, UInt8(ascii: "]")):
                guard close(.array) else { return false }
                expectation = .separator
            case (.separator, UInt8(ascii: "}")), (.nameOrEnd, UInt8(ascii: "}")):
                guard close(.object) else { return false }
                expectation = .separator
            case (.nameOrEnd, UInt8(ascii: "\"")):
                guard readText() else { return false }
                skipWhiteSpace()
                guard position < text.count, text[position] == UInt8(ascii: ":") else { return false }
                position += 1
                expectation = .value
            case (.value, UInt8(ascii: "{")), (.elementOrEnd, UInt8(ascii: "{")):
                guard begin(.object) else { return false }
                expectation = .nameOrEnd
            case (.value, UInt8(ascii: "[")), (.elementOrEnd, UInt8(ascii: "[")):
                guard begin(.array) else { return false }
                expectation = .elementOrEnd
            case (.value, _), (.elementOrEnd, _):
                guard readScalar(byte) else { return false }
                expectation = .separator
            case (.separator, _), (.nameOrEnd, _):
                return false
            }
        }
    }

    private mutating func begin(_ kind: JSONNode.Kind) -> Bool {
        guard open.count < Self.maximumDepth else { return false }
        open.append(Int32(nodes.count))
        append(kind, from: position, to: position)
        position += 1
        return true
    }

    private mutating func close(_ kind: JSONNode.Kind) -> Bool {
        guard let index = open.popLast(), nodes[Int(index)].kind == kind else { return false }
        position += 1
        nodes[Int(index)].next = Int32(nodes.count)
        nodes[Int(index)].end = Int32(position)
        return true
    }

    private mutating func append(_ kind: JSONNode.Kind, from start: Int, to end: Int) {
        nodes.append(
            JSONNode(kind: kind, start: Int32(start), end: Int32(end), next: Int32(nodes.count + 1)))
    }

    private mutating func skipWhiteSpace() {
        while position < text.count {
            switch text[position] {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"): position += 1
            default: return
            }
        }
    }

    private mutating func readScalar(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "\""): readText()
        case UInt8(ascii: "t"): readWord("true", .yes)
        case UInt8(ascii: "f"): readWord("false", .no)
        case UInt8(ascii: "n"): readWord("null", .null)
        default: readNumber()
        }
    }

    private mutating func readWord(_ word: StaticString, _ kind: JSONNode.Kind) -> Bool {
        let end = position + word.utf8CodeUnitCount
        guard end <= text.count else { return false }
        for offset in 0..<word.utf8CodeUnitCount where text[position + offset] != word.utf8Start[offset] {
            return false
        }
        append(kind, from: position, to: end)
        position = end
        return true
    }

    /// A number by RFC 8259's grammar: no leading zeros, no sign but a minus, digits on both sides of the point.
    private mutating func readNumber() -> Bool {
        let start = position
        if peek == UInt8(ascii: "-") { position += 1 }
        if peek == UInt8(ascii: "0") {
            position += 1
        } else {
            guard skipDigits() else { return false }
        }
        if peek == UInt8(ascii: ".") {
            position += 1
            guard skipDigits() else { return false }
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            position += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { position += 1 }
            guard skipDigits() else { return false }
        }
        append(.number, from: start, to: position)
        return true
    }

    private var peek: UInt8? { position < text.count ? text[position] : nil }

    /// Whether there was at least one.
    private mutating func skipDigits() -> Bool {
        let start = position
        while let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        return position > start
    }

    /// A text from one quote to the next: no control characters, nothing that is not UTF-8, no unknown escapes.
    private mutating func readText() -> Bool {
        let start = position + 1
        var index = start
        var kind = JSONNode.Kind.text
        while true {
            index = JSONText.firstNotable(in: text, from: index)
            guard index < text.count else { return false }
            switch text[index] {
            case UInt8(ascii: "\""):
                append(kind, from: start, to: index)
                position = index + 1
                return true
            case UInt8(ascii: "\\"):
                guard let length = JSONText.escapeLength(in: text, at: index) else { return false }
                kind = .escapedText
                index += length
            case 0x80...:
                guard let length = JSONText.scalarLength(in: text, at: index) else { return false }
                index += length
            default:
                return false
            }
        }
    }
}
