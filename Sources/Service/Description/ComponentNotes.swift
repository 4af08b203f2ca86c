import APIDescription
import EntitlementAPI

/// What people are told of a component and its members.
struct ComponentNotes: Sendable {
    /// In a sentence without a full stop.
    let summary: String
    /// By the members' names.
    let members: [String: String]

    init(_ summary: String, _ members: [String: String] = [:]) {
        self.summary = summary
        self.members = members
    }

    /// The components with what is said of them.
    ///
    /// - Throws: `DescriptionError` for what is said of a component or a member that there is not.
    static func described(_ components: [String: Schema]) throws -> [String: WireValue] {
        for name in all.keys where components[name] == nil { throw DescriptionError("there is no component \(name)") }
        return try Dictionary(
            uniqueKeysWithValues: components.map { name, schema in
                guard let notes = all[name] else { return (name, schema.json) }
                guard case .object(var json) = try noted(schema, notes, name).json else { return (name, schema.json) }
                // Words that are open say by themselves which are known.
                let own = if case .string(let text)? = json["description"] { " " + text } else { "" }
                json["description"] = .string(notes.summary + "." + own)
                return (name, .object(json))
            })
    }

    private static func noted(_ schema: Schema, _ notes: ComponentNotes, _ name: String) throws -> Schema {
        guard case .object(var object) = schema else {
            guard notes.members.isEmpty else { throw DescriptionError("\(name) has no members") }
            return schema
        }
        for (member, note) in notes.members {
            guard object.members[member] != nil else { throw DescriptionError("\(name) has no member \(member)") }
            object.members[member]?.note = note
        }
        return .object(object)
    }

    static let all: [String: ComponentNotes] = customers.merging(log) { $1 }.merging(requests) { $1 }
        .merging(endpoints) { $1 }.merging(revenueCatEvents) { $1 }
}
