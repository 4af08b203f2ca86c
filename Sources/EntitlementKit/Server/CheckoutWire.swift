import EntitlementAPI
import EntitlementCore
import Foundation

/// The body of `POST /v1/customers/{id}/checkout`.
struct CheckoutRequest: Encodable {
    let productID: String
    let environment: String
    let app: String
    /// Proves whose device it is, where no token does.
    let appTransaction: String?
    let successURL: String?
    let cancelURL: String?
    /// Apple's, for the purchase to be reported with; a server that knows nothing of them passes them over.
    let externalPurchaseTokens: [Token]?

    struct Token: Encodable {
        let type: String
        let token: String
    }

    private enum CodingKeys: String, CodingKey {
        case environment, app
        case productID = "product_id"
        case appTransaction = "app_transaction"
        case successURL = "success_url"
        case cancelURL = "cancel_url"
        case externalPurchaseTokens = "external_purchase_tokens"
    }
}

extension URL {
    /// As the payment provider takes it: a URL of Foundation's spells the braces of its placeholders in percent.
    var withPlaceholders: String {
        absoluteString.replacingOccurrences(of: "%7BCHECKOUT_SESSION_ID%7D", with: "{CHECKOUT_SESSION_ID}")
    }
}

/// The body of `POST /v1/customers/{id}/portal`.
struct PortalRequest: Encodable {
    let returnURL: String
    let environment: String
    let app: String
    let appTransaction: String?

    private enum CodingKeys: String, CodingKey {
        case environment, app
        case returnURL = "return_url"
        case appTransaction = "app_transaction"
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
                price = WebPrice(minorUnits: amount, currency: currency, interval: web["interval"]?.text)
            }
            rows[id] = Row(entitlements: item["entitlements"]?.entries.compactMap(\.text) ?? [], price: price)
        }
        self.rows = rows
    }
}
