import EntitlementAPI
import EntitlementCore
import Foundation

extension [ExternalLinkToken] {
    /// The one that goes with a checkout, as far as a server takes it: for new customers before any other.
    var toReport: String? {
        let token = first { $0.type == "ACQUISITION" } ?? first
        return token.flatMap { $0.value.utf8.count <= CheckoutRequest.tokenLimit ? $0.value : nil }
    }
}

extension URL {
    /// As the payment provider takes it: a URL of Foundation's spells the braces of its placeholders in percent.
    var withPlaceholders: String {
        absoluteString.replacingOccurrences(of: "%7BCHECKOUT_SESSION_ID%7D", with: "{CHECKOUT_SESSION_ID}")
    }
}

/// What the server answers to a checkout, as far as this version understands it.
struct CheckoutAnswer: Hashable, Sendable {
    let id: String
    let url: URL
    /// `nil` where the server does not tell.
    let expiresAt: Timestamp?

    /// Reads an answer; `nil` where it is none, is about another product, or leads where no payment page can be.
    init?(_ answer: WireValue, productID: String) {
        guard let id = answer["id"]?.text, !id.isEmpty, let url = answer["url"]?.text.flatMap(Self.page),
            answer["product_id"]?.text ?? productID == productID
        else { return nil }
        self.id = id
        self.url = url
        expiresAt = answer["expires_at"]?.instant
    }

    /// An address that a page for payments can have: encrypted, but for a simulator on this machine.
    static func page(_ text: String) -> URL? {
        guard let url = URL(string: text), let host = url.host, !host.isEmpty else { return nil }
        switch url.scheme?.lowercased() {
        case "https": return url
        case "http": return ["localhost", "127.0.0.1", "::1", "[::1]"].contains(host.lowercased()) ? url : nil
        default: return nil
        }
    }
}

/// What the server sells on the web.
struct WebShelf: Sendable {
    struct Row: Hashable, Sendable {
        let entitlements: [String]
        /// `nil` where it is not sold on the web.
        let price: WebPrice?
    }

    let rows: [String: Row]

    /// Reads the answer to `GET /v1/products`; `nil` where it is none.
    ///
    /// What is not understood is left out by itself.
    init?(_ answer: WireValue) {
        guard case .array(let items)? = answer["items"] else { return nil }
        var rows: [String: Row] = [:]
        for item in items {
            guard let id = item["product_id"]?.text else { continue }
            var price: WebPrice?
            if let web = item["web"], let amount = web["amount"]?.number, let currency = web["currency"]?.text {
                price = WebPrice(
                    minorUnits: amount, currency: currency, interval: web["interval"]?.text,
                    intervalCount: web["interval_count"]?.number.map { Int(clamping: $0) } ?? 1)
            }
            rows[id] = Row(entitlements: item["entitlements"]?.entries.compactMap(\.text) ?? [], price: price)
        }
        self.rows = rows
    }
}
