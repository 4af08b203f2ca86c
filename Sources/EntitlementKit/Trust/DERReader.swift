/// Reads the elements of ASN.1 in DER, one after the other (X.690).
///
/// It knows no types. A length that is not written in the one way that DER allows, or that leads beyond the end, ends it.
struct DERReader {
    struct Element {
        let tag: UInt8
        let content: ArraySlice<UInt8>
        /// With tag and length, as it stands there.
        let whole: ArraySlice<UInt8>

        /// A reader of what is inside.
        var inside: DERReader { DERReader(content) }
    }

    /// The tags that certificates are read by.
    enum Tag {
        static let boolean: UInt8 = 0x01
        static let integer: UInt8 = 0x02
        static let octets: UInt8 = 0x04
        static let identifier: UInt8 = 0x06
        static let utcTime: UInt8 = 0x17
        static let generalizedTime: UInt8 = 0x18
        static let sequence: UInt8 = 0x30
        static let version: UInt8 = 0xA0
        static let extensions: UInt8 = 0xA3
    }

    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    var isAtEnd: Bool { rest.isEmpty }

    /// The next element; `nil` where there is none, or none that can be read.
    mutating func next() -> Element? {
        let start = rest.startIndex
        guard rest.count >= 2, rest[start] & 0x1F != 0x1F else { return nil }
        var content = start + 2
        var length = Int(rest[start + 1])
        if length >= 0x80 {
            let count = length - 0x80
            guard (1...3).contains(count), rest.count >= 2 + count else { return nil }
            length = rest[content..<(content + count)].reduce(0) { $0 << 8 | Int($1) }
            content += count
            guard length >= 0x80, count == 1 || length >> (8 * (count - 1)) > 0 else { return nil }
        }
        guard length <= rest.endIndex - content else { return nil }
        let end = content + length
        let element = Element(tag: rest[start], content: rest[content..<end], whole: rest[start..<end])
        rest = rest[end...]
        return element
    }

    /// The next element, if it has a tag.
    mutating func next(_ tag: UInt8) -> Element? {
        var ahead = self
        guard let element = ahead.next(), element.tag == tag else { return nil }
        self = ahead
        return element
    }
}
