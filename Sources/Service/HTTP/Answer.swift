import EntitlementAPI
import HTTPServer

extension HTTPResponse {
    /// A document of the contract; `position` is the one the answer rests on.
    static func document(
        _ document: some Encodable, position: Int64? = nil, headers: [(String, String)] = []
    ) throws -> HTTPResponse {
        .json(headers: ledgerPosition(position) + headers, try WireJSON.encode(document))
    }

    static func ledgerPosition(_ position: Int64?) -> [(String, String)] {
        position.map { [("Ledger-Position", String($0))] } ?? []
    }
}

/// Entity tags as `If-Match` and `If-None-Match` list them (RFC 9110, section 8.8.3).
struct EntityTagList: Sendable, Equatable {
    /// `*`: whatever there is.
    let isAny: Bool
    /// As written, quotes and `W/` included.
    let tags: [String]

    /// The longest list that is read, in bytes.
    private static let limit = 2048

    /// Reads a field's value; `nil` for what is no list of tags.
    init?(_ value: String) {
        guard value.utf8.count <= Self.limit else { return nil }
        let text = value.utf8.split(separator: UInt8(ascii: ",")).map { item in
            String(decoding: Self.trimmed(item), as: UTF8.self)
        }
        isAny = text == ["*"]
        tags = isAny ? [] : text
        guard isAny || !text.isEmpty && text.allSatisfy(Self.isTag) else { return nil }
    }

    /// By bytes: to step back by characters takes time that grows with the square of the length of some texts.
    private static func trimmed(_ item: Substring.UTF8View) -> Substring.UTF8View {
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var item = item.drop(while: isSpace)
        while let last = item.last, isSpace(last) { item.removeLast() }
        return item
    }

    /// Whether the two are the same, weak or not.
    func matchesWeakly(_ tag: String) -> Bool {
        isAny || tags.contains { Self.opaque($0).elementsEqual(Self.opaque(tag)) }
    }

    private static func opaque(_ tag: String) -> Substring.UTF8View {
        tag.utf8.starts(with: "W/".utf8) ? tag.utf8.dropFirst(2) : tag.utf8[...]
    }

    private static func isTag(_ text: String) -> Bool {
        let (tag, quote) = (opaque(text), UInt8(ascii: "\""))
        return tag.count >= 2 && tag.first == quote && tag.last == quote && tag.count { $0 == quote } == 2
    }
}
