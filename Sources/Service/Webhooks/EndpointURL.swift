package import EntitlementCore
package import Foundation
package import Ledger

/// Where an endpoint's messages go: an address that may be spoken to.
package struct EndpointURL: Sendable, Hashable {
    /// The longest address, in bytes.
    static let lengthLimit = 2048

    package let url: URL
    let text: String
    /// Scheme, host and port.
    let origin: String

    package struct Refusal: Error, Sendable {
        package let reason: String
    }

    /// Reads an address.
    ///
    /// - Parameter allowsPrivate: also plain http, and hosts that are no address of the public internet. A name is looked
    ///   at only when a connection is made.
    package init(_ text: String, allowsPrivate: Bool) throws(Refusal) {
        guard (1...Self.lengthLimit).contains(text.utf8.count), let parts = URLComponents(string: text),
            let url = parts.url, let scheme = parts.scheme?.lowercased(), let host = parts.host, !host.isEmpty
        else {
            throw Refusal(
                reason: "url is an address of 1 to \(Self.lengthLimit) bytes, such as https://example.com/webhooks.")
        }
        guard scheme == "https" || (scheme == "http" && allowsPrivate) else {
            throw Refusal(
                reason: "url begins with https://; plain http is taken only where \"webhooks\": "
                    + "{\"allow_private_addresses\": true} is configured.")
        }
        guard parts.user == nil, parts.password == nil, parts.fragment == nil else {
            throw Refusal(reason: "url has no user, no password and no fragment.")
        }
        let bare = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        if !allowsPrivate, let address = IPAddress(bare), !PublicAddress.contains(address.bytes) {
            throw Refusal(
                reason: "url leads to a private address, which is taken only where \"webhooks\": "
                    + "{\"allow_private_addresses\": true} is configured.")
        }
        self.url = url
        self.text = text
        origin = "\(scheme)://\(host.lowercased())" + (parts.port.map { ":\($0)" } ?? "")
    }
}

extension EndpointOrder {
    /// An endpoint at an address that may be spoken to.
    package init(
        to url: EndpointURL, types: Set<MessageType>, environment: StoreEnvironment?, bundleID: String?,
        format: EndpointFormat, description: String?, authorization: String? = nil
    ) {
        self.init(
            url: url.text, origin: url.origin, types: types, environment: environment, bundleID: bundleID,
            format: format, description: description, authorization: authorization)
    }
}
