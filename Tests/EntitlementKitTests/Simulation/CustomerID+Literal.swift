import EntitlementCore

/// In tests an id is written as the text that it is.
extension CustomerID: ExpressibleByStringLiteral {
    package init(stringLiteral text: String) {
        guard let id = CustomerID(text) else { preconditionFailure("no customer can be called \(text)") }
        self = id
    }
}
