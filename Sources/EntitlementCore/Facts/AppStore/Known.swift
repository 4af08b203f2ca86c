/// A value of one of Apple's enumerations: one the fold knows, or the raw text of one it does not.
package enum Known<Value: RawRepresentable & Hashable & Sendable>: Hashable, Sendable
where Value.RawValue == String {
    case known(Value)
    case unknown(String)

    package init(_ raw: String) { self = Value(rawValue: raw).map(Known.known) ?? .unknown(raw) }

    package var raw: String {
        switch self {
        case .known(let value): value.rawValue
        case .unknown(let raw): raw
        }
    }

    /// Whether this version knows the value.
    package var isKnown: Bool {
        switch self {
        case .known: true
        case .unknown: false
        }
    }
}
