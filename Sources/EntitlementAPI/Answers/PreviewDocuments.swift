package import EntitlementCore

/// Which command is to be foreseen: the body of `…/actions/preview`.
package struct PreviewRequest: AlternativeBody {
    package static let alternatives = [
        BodyAlternative("PreviewGrant", ["grant"]),
        BodyAlternative("PreviewGrantRevocation", ["revoke_grant"]),
        BodyAlternative("PreviewLink", ["link"]),
    ]

    package enum Command: Hashable, Sendable {
        case grant(GrantRequest)
        case revokeGrant(RevokeGrantRequest)
        case link(LinkRequest)

        /// The member of the body that it is.
        package var name: String {
            switch self {
            case .grant: CodingKeys.grant.rawValue
            case .revokeGrant: CodingKeys.revokeGrant.rawValue
            case .link: CodingKeys.link.rawValue
            }
        }

        fileprivate var environment: StoreEnvironment? {
            switch self {
            case .grant(let grant): grant.environment
            case .revokeGrant(let revocation): revocation.environment
            case .link(let link): link.environment
            }
        }
    }

    package let command: Command
    /// The one that the body names, or the command in it: both may, and mean the same.
    package let environment: StoreEnvironment?

    package init(_ command: Command, environment: StoreEnvironment? = nil) {
        self.command = command
        self.environment = environment ?? command.environment
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        var commands: [(key: CodingKeys, command: Command)] = []
        if let grant = try members.decodeIfPresent(GrantRequest.self, forKey: .grant) {
            commands.append((.grant, .grant(grant)))
        }
        if let revocation = try members.decodeIfPresent(RevokeGrantRequest.self, forKey: .revokeGrant) {
            commands.append((.revokeGrant, .revokeGrant(revocation)))
        }
        if let link = try members.decodeIfPresent(LinkRequest.self, forKey: .link) {
            commands.append((.link, .link(link)))
        }
        guard let first = commands.first else {
            throw CommandBodyError(path: "", reason: "must have one of: grant, revoke_grant, link")
        }
        if let second = commands.dropFirst().first {
            throw members.refusal(second.key, "may not stand beside \(first.key.rawValue); send one alone")
        }
        let environment = try members.word(.environment, StoreEnvironment.self)
        if let environment, let inner = first.command.environment, environment != inner {
            throw members.refusal(.environment, "is another one than \(first.key.rawValue).environment; send one alone")
        }
        self.init(first.command, environment: environment)
    }

    package func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        switch command {
        case .grant(let grant): try members.encode(grant, forKey: .grant)
        case .revokeGrant(let revocation): try members.encode(revocation, forKey: .revokeGrant)
        case .link(let link): try members.encode(link, forKey: .link)
        }
        try members.encodeIfPresent(environment, forKey: .environment)
    }

    private enum CodingKeys: String, CodingKey {
        case grant, link, environment
        case revokeGrant = "revoke_grant"
    }
}

/// What a command would change: the answer of `…/actions/preview`.
package struct PreviewDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "preview"
    package private(set) var object = Self.objectName
    package let environment: StoreEnvironment
    /// The position the answer rests on.
    package let knownAt: Int64
    /// Whoever the command names, before and after it.
    package let customers: [TransferDocument.Side]

    package init(environment: StoreEnvironment, knownAt: Int64, customers: [TransferDocument.Side]) {
        self.environment = environment
        self.knownAt = knownAt
        self.customers = customers
    }

    private enum CodingKeys: String, CodingKey {
        case object, environment, customers
        case knownAt = "known_at"
    }
}
