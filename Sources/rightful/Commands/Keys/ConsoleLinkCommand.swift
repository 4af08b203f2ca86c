import EntitlementCore
import Ledger

/// `rightful console-link`.
struct ConsoleLinkCommand: Command {
    static let usage = CommandUsage(
        "console-link", "Print a link that signs somebody in to the console, once, within ten minutes.",
        operands: ["[KEY]"],
        options: [
            CommandUsage.Option(
                "--url", "URL", "where browsers find the service; default http:// and the address of `listen`")
        ],
        details: """
            KEY is the id of the secret key (`rightful keys list`) that the session is to stand for; it may be left out where there
            is one alone. What the link holds is of no use to anybody once it was followed.
            """)

    private let arguments: ParsedArguments
    private let keyID: String?
    private let base: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        keyID = arguments.operands.first
        base = arguments.value("--url").map(Self.base)
        if let base, !(base.hasPrefix("http://") || base.hasPrefix("https://")) || base.contains(/[#?\s]/) {
            throw arguments.error("--url begins with http:// or https:// and has no #, no ? and no blank")
        }
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        guard configuration.hasConsole else {
            throw CommandFailure(description: "there is no console: the setting console is false")
        }
        guard base != nil || configuration.listen.port != 0 else {
            throw CommandFailure(description: "listen names no port; say with --url where browsers find the service")
        }
        let token = try await DatabaseSession.with(arguments, context) { session in
            let keys = session.apiKeys
            let (key, secretHash) = try await chosen(keys)
            return try await ConsoleSessions(pool: session.pool, keys: keys)
                .makeLink(for: key, secretHash: secretHash, now: session.clock.now())
        }
        try context.output.write("\(base ?? "http://\(configuration.listen)")/console#link=\(token)\n")
    }

    /// An address without the slashes at its end, and without the console's own path, which people copy along.
    private static func base(_ url: String) -> String {
        func trimmed(_ text: String) -> String { String(text.reversed().drop { $0 == "/" }.reversed()) }
        let url = trimmed(url)
        return url.hasSuffix("/console") ? trimmed(String(url.dropLast("/console".count))) : url
    }

    private func chosen(_ keys: APIKeyStore) async throws -> (key: APIKey, secretHash: Digest) {
        var id = keyID
        if id == nil {
            let usable = try await keys.list().filter { !$0.isPublishable && $0.revokedAt == nil }
            guard usable.count == 1 else {
                throw CommandFailure(
                    description: usable.isEmpty
                        ? "there is no secret key to sign in with; make one with `rightful keys create`"
                        : "there are \(usable.count) secret keys; name the one to sign in with (`rightful keys list`)")
            }
            id = usable[0].id
        }
        guard let id, let found = try await keys.find(id: id) else {
            throw CommandFailure(description: "there is no key \(keyID ?? "") that is not revoked")
        }
        guard !found.key.isPublishable else {
            throw CommandFailure(description: "\(found.key.id) is a publishable key, with which nobody signs in")
        }
        return found
    }
}
