extension JSONValue {
    /// The first name that one object of a JSON text has twice; `nil` where none has, and where it is no JSON text.
    ///
    /// Whoever reads such a text takes the one or the other, so what a person wrote is to have none.
    package static func repeatedName(in text: [UInt8]) -> String? {
        guard let document = JSONDocument(text) else { return nil }
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
