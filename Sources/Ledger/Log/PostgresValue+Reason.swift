import PostgresClient

extension PostgresValue {
    /// Why something failed, for people: the beginning of it, where another system says very much.
    static func reason(_ text: String?) -> PostgresValue { .text(text.map { String($0.prefix(1000)) }) }
}
