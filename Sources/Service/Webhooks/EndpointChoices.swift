import EntitlementAPI
package import EntitlementCore

/// What somebody chose for an endpoint, held to what its format has.
package enum EndpointChoices {
    package struct Refusal: Error, Sendable {
        /// The member of the request that it is about.
        package let member: String
        package let reason: String
    }

    /// The format by its name; the standard one where none is named.
    package static func format(_ name: String?) throws(Refusal) -> EndpointFormat {
        guard let name else { return .standard }
        guard let format = EndpointFormat(rawValue: name) else {
            let known = EndpointFormat.allCases.map(\.rawValue).joined(separator: ", ")
            throw Refusal(member: "format", reason: "There is no format \(name); there are \(known).")
        }
        return format
    }

    /// The types of messages by their names; none means all.
    package static func types(_ names: [String], in format: EndpointFormat) throws(Refusal) -> Set<MessageType> {
        var types: Set<MessageType> = []
        for name in names {
            guard let type = format.types.first(where: { $0.rawValue == name }) else {
                let known = format.types.map(\.rawValue).joined(separator: ", ")
                throw Refusal(
                    member: "types",
                    reason: "There is no type \(name) in the format \(format.rawValue); there are \(known).")
            }
            types.insert(type)
        }
        return types
    }

    /// The only app, by its bundle id.
    package static func app(_ bundleID: String?) throws(Refusal) -> String? {
        guard let bundleID, bundleID.contains("/") else { return bundleID }
        throw Refusal(member: "app", reason: "app is a bundle id, such as com.example.app.")
    }

    /// What is sent as `Authorization`.
    package static func authorization(_ value: String?, in format: EndpointFormat) throws(Refusal) -> String? {
        guard let value else { return nil }
        guard format == .revenueCat else {
            throw Refusal(
                member: "authorization_header",
                reason: "Only endpoints of the format revenuecat are sent an authorization_header; others verify the "
                    + "signature.")
        }
        let isPlain = value.utf8.allSatisfy { (0x20...0x7E).contains($0) } && value.first != " " && value.last != " "
        guard (1...EndpointLimits.authorization).contains(value.utf8.count), isPlain else {
            throw Refusal(
                member: "authorization_header",
                reason: "authorization_header is 1 to \(EndpointLimits.authorization) bytes of ASCII, without control "
                    + "characters, and without blanks at either end.")
        }
        return value
    }
}
