extension JSONValue {
    /// The value of a JSON text in UTF-8; `nil` where the bytes are none.
    ///
    /// Foundation reads more: UTF-16 and UTF-32, control characters and bad escapes within texts, numbers such as `01`. Whoever
    /// looks for something in a text before Foundation reads it, looks for it in what this takes.
    package init?(parsing text: [UInt8]) {
        guard let document = JSONDocument(text) else { return nil }
        self.init(document: document, index: 0)
    }

    /// Where the first member stands whose name its object has twice, such as `products[2].product_id`; `nil` where none does.
    ///
    /// Whoever reads such a text takes the one or the other, so what a person wrote is to have none.
    package var repeatedMember: String? {
        let nodes = document.nodes
        for (place, object) in nodes.enumerated() where object.kind == .object {
            var names: Set<String> = []
            var name = place + 1
            while name < Int(object.next) {
                if let text = document.text(of: nodes[name]), !names.insert(text).inserted {
                    return document.path(to: name + 1)
                }
                name = Int(nodes[name + 1].next)
            }
        }
        return nil
    }
}

extension JSONDocument {
    /// Long names and long ways are cut: whoever wrote them finds the place all the same.
    private static let (longestName, longestPath) = (64, 256)

    /// The way to a value from the root of the text, of which it is a part.
    fileprivate func path(to place: Int) -> String {
        var (path, container) = ("", 0)
        while container < place {
            let isObject = nodes[container].kind == .object
            var (child, index) = (container + 1, 0)
            // The one that holds the place, or is it.
            while true {
                let value = isObject ? child + 1 : child
                guard Int(nodes[value].next) <= place else { break }
                (child, index) = (Int(nodes[value].next), index + 1)
            }
            if isObject {
                let name = (text(of: nodes[child]) ?? "").prefix(Self.longestName)
                path += (path.isEmpty ? "" : ".") + name
                container = child + 1
            } else {
                path += "[\(index)]"
                container = child
            }
            if path.utf8.count > Self.longestPath { return path.prefix(Self.longestPath) + "…" }
        }
        return path
    }
}
