import Foundation

/// One JSON object, read leniently: a member that is absent, `null` or of another type than asked for reads as `nil`.
///
/// Of duplicate names the last counts; nesting beyond 512 levels is refused. Names are compared byte by byte.
package struct JSONObject {
    let document: JSONDocument
    /// Its place among the document's nodes.
    let index: Int

    /// A notification of Apple's is a few kilobytes; what is far beyond is not worth the memory.
    package static let maximumByteCount = 1 << 20

    /// Parses the text of one object, in UTF-8.
    ///
    /// - Parameter limit: how many bytes it may have.
    package init(parsing bytes: [UInt8], limit: Int = Self.maximumByteCount) throws(PayloadError) {
        guard bytes.count <= limit else {
            throw .malformed("the payload has \(bytes.count) bytes; at most \(limit) are read")
        }
        guard let document = JSONDocument(bytes), document.nodes.first?.kind == .object else {
            throw .malformed("the payload is not a JSON object")
        }
        self.init(document: document, index: 0)
    }

    init(document: JSONDocument, index: Int) {
        self.document = document
        self.index = index
    }

    /// The member of that name; `nil` where it is absent or `null`.
    package subscript(name: String) -> JSONValue? {
        place(of: name).flatMap { JSONValue(document: document, unlessNull: $0) }
    }

    /// Its members in their order, one name as often as it stands there, and those that are `null` as well.
    package var members: [(name: String, value: JSONValue)] {
        var members: [(name: String, value: JSONValue)] = []
        forEachMember { name, place in
            members.append((document.text(of: name) ?? "", JSONValue(document: document, index: place)))
        }
        return members
    }

    /// The object as it stands in the text that it was read from, byte for byte.
    package var text: [UInt8] {
        let node = document.nodes[index]
        return Array(document.bytes[Int(node.start)..<Int(node.end)])
    }

    /// Whether there is a member of that name, `null` or not.
    package func contains(_ name: String) -> Bool { place(of: name) != nil }

    /// Calls the body with each member's name, as its node, and the place of its value.
    func forEachMember(_ body: (_ name: JSONNode, _ value: Int) -> Void) {
        let nodes = document.nodes
        let end = Int(nodes[index].next)
        var name = index + 1
        while name < end {
            body(nodes[name], name + 1)
            name = Int(nodes[name + 1].next)
        }
    }

    /// Where the value of the last member of that name is.
    private func place(of name: String) -> Int? {
        var name = name
        return name.withUTF8 { wanted in
            document.bytes.withUnsafeBytes { bytes in
                var place: Int?
                forEachMember { node, value in
                    switch node.kind {
                    case .text:
                        guard Int(node.end - node.start) == wanted.count else { return }
                        if let first = wanted.baseAddress, let base = bytes.baseAddress,
                            memcmp(first, base + Int(node.start), wanted.count) != 0
                        {
                            return
                        }
                        place = value
                    case .escapedText:
                        if document.text(of: node)?.utf8.elementsEqual(wanted) ?? false { place = value }
                    case .null, .yes, .no, .number, .array, .object:
                        break
                    }
                }
                return place
            }
        }
    }
}
