package import EntitlementAPI
package import EntitlementCore
package import Ledger

/// What somebody chose for an endpoint, held to what its format has.
package enum EndpointChoices {
    package struct Refusal: Error, Sendable {
        /// The member of the request that it is about.
        package let member: String
        package let reason: String
    }

    /// What a command line asks for, held to what the body of a request is held to.
    package static func checked<Body: CommandBody>(_ body: Body) throws(Refusal) -> Body {
        let bytes: [UInt8]
        do {
            bytes = try WireJSON.encode(body)
        } catch {
            throw Refusal(member: "", reason: "\(error)")
        }
        do throws(CommandBodyError) {
            return try Body(parsing: bytes)
        } catch {
            throw Refusal(member: error.path, reason: "\(error).")
        }
    }

    /// What is asked for over HTTP or by a command, as it is to be made.
    ///
    /// - Parameters:
    ///   - environment: the only one; `nil`: both.
    ///   - bundleID: the only app; `nil`: every app.
    ///   - allowsPrivate: as in ``EndpointURL``.
    package static func order(
        _ request: EndpointRequest, environment: StoreEnvironment?, bundleID: String?, allowsPrivate: Bool
    ) throws(Refusal) -> EndpointOrder {
        let url = try address(request.url, allowsPrivate: allowsPrivate)
        let format = try format(request.format)
        return EndpointOrder(
            url: url.url, origin: url.origin, types: try types(request.types ?? [], in: format),
            environment: environment, bundleID: try app(bundleID), format: format, description: request.description,
            authorization: try authorization(request.authorizationHeader, in: format))
    }

    /// What is asked to become another of an endpoint.
    package static func amendment(
        _ request: EndpointChangeRequest, of endpoint: Endpoint, allowsPrivate: Bool
    ) throws(Refusal) -> EndpointAmendment {
        let (terms, format) = (endpoint.terms, endpoint.terms.knownFormat)
        if let asked = request.app, asked != terms.bundleID {
            throw Refusal(
                member: "app",
                reason: "app stays what an endpoint was made with: another app's customers are told otherwise. Make "
                    + "another endpoint.")
        }
        if let asked = request.format, asked ?? EndpointFormat.standard.rawValue != terms.format {
            throw Refusal(
                member: "format", reason: "format stays what an endpoint was made with. Make another endpoint.")
        }
        var amendment = EndpointAmendment()
        if let url = request.url { amendment.address = try address(url, allowsPrivate: allowsPrivate) }
        if let names = request.types { amendment.types = try types(names, in: format) }
        amendment.environment = request.environment
        amendment.description = request.description
        if let value = request.authorizationHeader {
            amendment.authorization = .some(try authorization(value, in: format))
        }
        return amendment
    }

    /// What somebody may want to look at who made or changed an endpoint: members that were ignored, and an app that is none of
    /// those configured, of which nothing will ever be told.
    ///
    /// - Parameter apps: those configured; empty where that is not known.
    package static func remarks(_ unknownMembers: [String], bundleID: String?, apps: Set<String>) -> [String] {
        let isStrange = bundleID.map { !apps.isEmpty && !apps.contains($0) } ?? false
        return (isStrange ? ["unknown_app:\(bundleID ?? "")"] : []) + unknownMembers.map { "unknown_member:\($0)" }
    }

    private static func address(
        _ text: String, allowsPrivate: Bool
    ) throws(Refusal) -> EndpointAmendment.Address {
        do throws(EndpointURL.Refusal) {
            let url = try EndpointURL(text, allowsPrivate: allowsPrivate)
            return EndpointAmendment.Address(url: url.text, origin: url.origin)
        } catch {
            throw Refusal(member: "url", reason: error.reason)
        }
    }

    /// The format by its name; the standard one where none is named.
    static func format(_ name: String?) throws(Refusal) -> EndpointFormat {
        guard let name else { return .standard }
        guard let format = EndpointFormat(rawValue: name) else {
            let known = EndpointFormat.allCases.map(\.rawValue).joined(separator: ", ")
            throw Refusal(member: "format", reason: "There is no format \(name); there are \(known).")
        }
        return format
    }

    /// The types of messages by their names; none means all.
    ///
    /// Test messages are sent to every endpoint; whoever names them alone is sent nothing else.
    static func types(_ names: [String], in format: EndpointFormat) throws(Refusal) -> Set<MessageType> {
        var types: Set<MessageType> = []
        for name in names {
            let choices = format.types + [.test]
            let isTest = format == .revenueCat && name == MessageType.revenueCatTest
            guard let type = isTest ? .test : choices.first(where: { $0.rawValue == name }) else {
                let known = choices.map(\.rawValue).joined(separator: ", ")
                throw Refusal(
                    member: "types",
                    reason: "There is no type \(name) in the format \(format.rawValue); there are \(known).")
            }
            types.insert(type)
        }
        return types
    }

    /// Whether a type of this name is in any format.
    package static func isType(_ name: String) -> Bool {
        EndpointFormat.allCases.contains { (try? types([name], in: $0)) != nil }
    }

    /// The only app, by its bundle id.
    static func app(_ bundleID: String?) throws(Refusal) -> String? {
        guard let bundleID, bundleID.contains("/") else { return bundleID }
        throw Refusal(member: "app", reason: "app is a bundle id, such as com.example.app.")
    }

    /// What is sent as `Authorization`.
    static func authorization(_ value: String?, in format: EndpointFormat) throws(Refusal) -> String? {
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
