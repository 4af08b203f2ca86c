extension JSONValue {
    /// The value of a JSON text in UTF-8; `nil` where the bytes are none.
    ///
    /// Foundation reads more: UTF-16 and UTF-32, control characters and bad escapes within texts, numbers such as `01`. Whoever
    /// looks for something in a text before Foundation reads it, looks for it in what this takes.
    package init?(parsing text: [UInt8]) {
        guard let document = JSONDocument(text) else { return nil }
        self.init(document: document, index: 0)
    }

    /// The first name that one object of its whole text has twice; `nil` where none has.
    ///
    /// Whoever reads such a text takes the one or the other, so what a person wrote is to have none.
    package var repeatedName: String? {
        let nodes = document.nodes
        for (place, object) in nodes.enumerated() where object.kind == .object {
            var names: Set<String> = []
            var member = place + 1
            while member < Int(object.next) {
                if let name = document.text(of: nodes[member]), !names.insert(name).inserted { return name }
                member = Int(nodes[member + 1].next)
            }
        }
        return nil
    }
}
