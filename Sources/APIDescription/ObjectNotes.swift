import EntitlementAPI
import Synchronization

/// What is noted of one object while a type reads it.
final class ObjectNotes: MemberRuleKeeper {
    private struct Note {
        var schema: Schema?
        /// Whether the type reads it in any case.
        var isAsked = false
        var rules: [MemberRule] = []
    }

    let objectName: String?
    private let present: @Sendable (String) -> Bool
    private let notes = Mutex<[String: Note]>([:])

    init(objectName: String?, present: @escaping @Sendable (String) -> Bool) {
        self.objectName = objectName
        self.present = present
    }

    func isPresent(_ member: String) -> Bool { present(member) }

    func keep(_ rule: MemberRule, of member: String) {
        notes.withLock { $0[member, default: Note()].rules.append(rule) }
    }

    func keep(_ schema: Schema, of member: String, isAsked: Bool) {
        notes.withLock { notes in
            notes[member, default: Note()].schema = schema
            if isAsked { notes[member, default: Note()].isAsked = true }
        }
    }

    func rules(of member: String) -> [MemberRule] { notes.withLock { $0[member]?.rules ?? [] } }

    /// - Parameter isRequest: whether what may be missing may be `null` as well.
    func schema(isRequest: Bool) -> ObjectSchema {
        notes.withLock { notes in
            ObjectSchema(
                notes.compactMapValues { note -> ObjectSchema.Member? in
                    guard var schema = note.schema else { return nil }
                    var isRequired = note.isAsked
                    var isNullable = false
                    for rule in note.rules {
                        switch rule {
                        case .nullable: (isRequired, isNullable) = (true, true)
                        case .required: isRequired = true
                        case .text(let limit, _): schema = .text(Schema.Text(byteLimit: limit))
                        // The recording of the member has it by its component.
                        case .words: break
                        case .instant: schema = .instant
                        case .wholeNumber(let bounds): schema = .integer(bounds)
                        case .entries(let limit):
                            if case .list(let element, _) = schema { schema = .list(element, limit: limit) }
                        }
                    }
                    if isRequest, !isRequired { isNullable = true }
                    return ObjectSchema.Member(isNullable ? .nullable(schema) : schema, isRequired: isRequired)
                })
        }
    }
}
