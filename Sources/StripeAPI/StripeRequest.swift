import EntitlementCore
package import StripePayloads

/// A request to Stripe's API, before it is sent.
package struct StripeRequest: Sendable, Hashable {
    /// A member of a form, such as `line_items[0][price]`.
    package struct Field: Sendable, Hashable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// `GET`, or `POST` with a form and the key that makes it one request however often it is sent.
    enum Kind: Sendable, Hashable {
        case get
        case post([Field], idempotencyKey: String)
    }

    /// The longest idempotency key that Stripe takes, in characters.
    package static let idempotencyKeyLimit = 255

    let kind: Kind
    /// Path and query, as they are sent.
    let target: String

    /// Reads something.
    ///
    /// - Parameter path: with its query; brackets may stand in it as they are.
    package static func get(_ path: String) -> StripeRequest {
        StripeRequest(kind: .get, target: escapingBrackets(path))
    }

    /// Reads what an event calls for.
    package static func get(_ lookup: StripeLookup) -> StripeRequest { get(lookup.path) }

    /// Makes or changes something, once.
    ///
    /// - Parameter idempotencyKey: Stripe keeps it for a day at least, and gives its first answer again.
    package static func post(_ path: String, _ form: [Field], idempotencyKey: String) -> StripeRequest {
        StripeRequest(
            kind: .post(form, idempotencyKey: String(idempotencyKey.prefix(idempotencyKeyLimit))), target: path)
    }

    var method: String {
        switch kind {
        case .get: "GET"
        case .post: "POST"
        }
    }

    /// The form, as it is sent; `nil` where there is none.
    var body: [UInt8]? {
        guard case .post(let form, _) = kind else { return nil }
        let pairs = form.map { PercentEncoding.text($0.name) + "=" + PercentEncoding.text($0.value) }
        return Array(pairs.joined(separator: "&").utf8)
    }

    var idempotencyKey: String? {
        guard case .post(_, let key) = kind else { return nil }
        return key
    }

    /// What it says of whose it is, which is written in no log.
    var names: [String] {
        guard case .post(let form, _) = kind else { return [] }
        return form.filter { field in
            ["customer", "client_reference_id", "external_purchase_token"].contains { field.name.contains($0) }
        }.map(\.value)
    }

    /// What is asked for, without ids: those of Stripe's hold more than small letters.
    package var operation: String {
        let parts = target.prefix { $0 != "?" }.split(separator: "/").map { part in
            part.utf8.allSatisfy({ (0x61...0x7A).contains($0) || $0 == 0x5F }) || part == "v1" ? String(part) : "…"
        }
        return "\(method) /\(parts.joined(separator: "/"))"
    }

    /// Whether an id has nothing to escape, as those of Stripe's.
    package static func isPlain(_ id: String) -> Bool {
        id.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x5F, 0x61...0x7A: true
            default: false
            }
        }
    }

    private static func escapingBrackets(_ text: String) -> String {
        text.replacing("[", with: "%5B").replacing("]", with: "%5D")
    }
}
