import AppStoreServer
import EntitlementCore
import Ledger

/// `rightful keys create`.
struct KeysCreateCommand: Command {
    static let usage = CommandUsage(
        "keys create", "Make an API key and print it, this once, alone on a line.",
        options: [
            CommandUsage.Option("--name", "N", "what or whom the key is for"),
            CommandUsage.Option("--scopes", "S", "what it may do, separated by commas"),
            CommandUsage.Option(
                "--environment", "E", "production or sandbox: the only one it is good for; both where it is left out"),
            CommandUsage.Option("--app", "B", "the bundle id of the app it is bound to"),
        ],
        details: """
            Scopes of a secret key: customers:read, customers:write, events:read, catalog:write, metrics, and admin for
            all of them. The scope reconcile, which stands alone, makes a publishable key: it may ship in an app, and needs
            --app. It may reconcile, read the products, and begin a checkout or open the portal, and nothing else. Leave
            --environment out for it, so that one build of the app works in TestFlight and in the store: the app names
            its own with every request.

            A key that is bound to an environment or an app may not write or try the catalog; one that is bound to an app
            may not read the metrics either.
            """)

    private let arguments: ParsedArguments
    private let name: String
    private let scopes: Set<APIScope>
    private let isPublishable: Bool
    private let environment: StoreEnvironment?
    private let bundleID: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        name = try arguments.required("--name")
        guard (1...200).contains(name.utf8.count),
            !name.unicodeScalars.contains(where: \.isControl)
        else { throw arguments.error("--name must have between 1 and 200 bytes, none of them a control character") }
        environment = try arguments.environment()
        bundleID = arguments.value("--app")
        let words = try arguments.required("--scopes").split(separator: ",").map {
            String($0.drop(while: \.isWhitespace))
        }
        isPublishable = words.count == 1 && Self.publishable.contains(words[0])
        scopes = isPublishable ? [] : try Self.scopes(words, arguments)
        if isPublishable, bundleID == nil { throw arguments.error("a publishable key needs --app") }
        if let bundleID, bundleID.isEmpty { throw arguments.error("--app must not be empty") }
    }

    /// What asks for a publishable key: the one thing it may do, or its name.
    private static let publishable = ["reconcile", "publishable"]

    private static func scopes(
        _ words: [String], _ arguments: ParsedArguments
    ) throws(UsageError) -> Set<APIScope> {
        var scopes: Set<APIScope> = []
        for word in words {
            if publishable.contains(word) {
                throw arguments.error("the scope \(word) makes a publishable key, which can have no other")
            }
            guard let scope = APIScope(rawValue: word) else {
                let known = APIScope.allCases.map(\.rawValue).joined(separator: ", ")
                throw arguments.error("there is no scope '\(word)', only \(known) and reconcile")
            }
            scopes.insert(scope)
        }
        guard !scopes.isEmpty else { throw arguments.error("--scopes names no scope") }
        return scopes
    }

    func run(_ context: CommandContext) async throws {
        let apps = try context.configuration(arguments).apps.map(\.binding.bundleID)
        try await DatabaseSession.with(arguments, context, needsLedger: false) { session in
            let keys = session.apiKeys
            let (key, secret) = try await keys.create(
                name: name, scopes: scopes, isPublishable: isPublishable, environment: environment, bundleID: bundleID)
            do {
                try context.output.write(secret + "\n")
            } catch {
                throw await Self.withdraw(key.id, from: keys, unprintedFor: "\(error)")
            }
        }
        // Where none is configured, this may be another machine than the one that serves.
        if let bundleID, !apps.isEmpty, !apps.contains(where: { $0.utf8.elementsEqual(bundleID.utf8) }) {
            context.complain(
                "the key was made, but no app \(bundleID) is configured (apps), only \(apps.joined(separator: ", "))")
        }
        let useless = uselessScopes.map(\.rawValue).sorted().joined(separator: " and ")
        if !useless.isEmpty {
            context.complain(
                "the key was made, but it may not use \(useless): a key that is bound to an app or an environment does "
                    + "nothing that reaches beyond it")
        }
    }

    /// What was asked for, by name or as a part of `admin`, and is refused because of what the key is bound to.
    private var uselessScopes: Set<APIScope> {
        var useless: Set<APIScope> = []
        if environment != nil || bundleID != nil { useless.insert(.catalogWrite) }
        if bundleID != nil { useless.insert(.metrics) }
        return scopes.contains(.admin) ? useless : useless.intersection(scopes)
    }
}

extension KeysCreateCommand {
    /// Revokes a key that nobody has seen whole, and never will.
    ///
    /// - Returns: what the command fails with: what became of the key.
    private static func withdraw(
        _ id: String, from keys: APIKeyStore, unprintedFor reason: String
    ) async -> CommandFailure {
        do {
            _ = try await uninterrupted { try await keys.revoke(id) }
            return CommandFailure(
                description: "the key could not be printed, so it was revoked again (\(id)): \(reason)")
        } catch {
            return CommandFailure(
                description:
                    "the key could not be printed (\(reason)), nor be revoked again (\(error)): it is good until "
                    + "`rightful keys revoke \(id)`")
        }
    }
}

extension DatabaseSession {
    /// The API keys, for a command that makes or revokes one.
    var apiKeys: APIKeyStore {
        APIKeyStore(pool: pool, writer: LedgerWriter(pool: pool, clock: clock))
    }
}
