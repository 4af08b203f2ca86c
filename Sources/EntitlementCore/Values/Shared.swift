/// A large value that never changes, copied by reference.
///
/// A statement of a transaction has a dozen fields with storage of their own. The fold sorts, groups and copies statements,
/// and that would take most of its time if each copy were one of every field.
final class Shared<Value: Hashable & Sendable>: Hashable, Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }

    static func == (left: Shared, right: Shared) -> Bool { left === right || left.value == right.value }

    func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
