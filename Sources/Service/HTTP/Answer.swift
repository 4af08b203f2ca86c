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

    /// Reads a field's value; `nil` for what is no list of tags.
    init?(_ value: String) {
        let text = value.utf8.split(separator: UInt8(ascii: ",")).map { item in
            String(decoding: item, as: UTF8.self).drop(while: \.isWhitespace)
        }.map { item in String(item.reversed().drop(while: \.isWhitespace).reversed()) }
        isAny = text == ["*"]
        tags = isAny ? [] : text
        guard isAny || !text.isEmpty && text.allSatisfy(Self.isTag) else { return nil }
    }

    /// Whether the two are the same, weak or not.
    func matchesWeakly(_ tag: String) -> Bool {
        isAny || tags.contains { Self.opaque($0) == Self.opaque(tag) }
    }

    private static func opaque(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }

    private static func isTag(_ text: String) -> Bool {
        let tag = opaque(text)
        return tag.count >= 2 && tag.hasPrefix("\"") && tag.hasSuffix("\"")
            && !tag.dropFirst().dropLast().contains("\"")
    }
}
