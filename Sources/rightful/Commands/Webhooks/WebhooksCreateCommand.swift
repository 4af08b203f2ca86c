import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful webhooks create URL`.
struct WebhooksCreateCommand: Command {
    static let usage = CommandUsage(
        "webhooks create", "Make an endpoint of webhooks and print its secret, this once, alone on a line.",
        operands: ["URL"],
        options: [
            CommandUsage.Option("--types", "T", "what it is told of, separated by commas; all where it is left out"),
            CommandUsage.Option("--environment", "E", "production or sandbox: the only one; both where it is left out"),
            CommandUsage.Option("--app", "B", "the bundle id of the only app; every app where it is left out"),
            CommandUsage.Option(
                "--format", "F", "standard (the default), or revenuecat: as RevenueCat's receivers know them"),
            CommandUsage.Option(
                "--authorization-header-file", "FILE",
                "with --format revenuecat: what is sent as Authorization, as the file has it"),
            CommandUsage.Option("--description", "D", "what it is for"),
        ],
        details: """
            Types: \(EndpointFormat.standard.types.map(\.rawValue).joined(separator: ", ")); with --format revenuecat
            \(EndpointFormat.revenueCat.types.map(\.rawValue).joined(separator: ", ")). A test message is sent whatever
            the types are; the type test alone makes an endpoint that is sent nothing else.

            The address begins with https:// and is of the public internet, unless
            "webhooks": {"allow_private_addresses": true} is configured.
            """)

    private let arguments: ParsedArguments
    private let request: EndpointRequest

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        request = EndpointRequest(
            url: arguments.operands[0], types: try arguments.messageTypes(),
            environment: try arguments.environment(), app: arguments.value("--app"),
            format: arguments.value("--format"), description: arguments.value("--description"))
        do throws(EndpointChoices.Refusal) {
            // Whether private addresses are allowed is not known before the configuration is read.
            _ = try Self.order(request, allowsPrivate: true)
        } catch {
            throw arguments.error(error.reason)
        }
    }

    private static func order(
        _ request: EndpointRequest, allowsPrivate: Bool
    ) throws(EndpointChoices.Refusal) -> EndpointOrder {
        let request = try EndpointChoices.checked(request)
        return try EndpointChoices.order(
            request, environment: request.environment, bundleID: request.app, allowsPrivate: allowsPrivate)
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let apps = configuration.apps.map(\.binding.bundleID)
        let request = EndpointRequest(
            url: request.url, types: request.types, environment: request.environment, app: request.app,
            format: request.format, description: request.description,
            authorizationHeader: try arguments.authorizationHeader())
        let order: EndpointOrder
        do throws(EndpointChoices.Refusal) {
            order = try Self.order(request, allowsPrivate: configuration.allowsPrivateWebhooks)
        } catch {
            throw CommandFailure(description: error.reason)
        }
        let id = try await DatabaseSession.with(arguments, context) { session in
            let register = session.endpoints
            let position = try await register.create(order)
            let (id, secret) = try await session.secret(at: position, register)
            do {
                try context.output.write(secret + "\n")
            } catch {
                throw await Self.withdraw(id, from: register, unprintedFor: "\(error)")
            }
            return id
        }
        context.complain("the endpoint is \(id)")
        // Where none is configured, this may be another machine than the one that serves.
        if !EndpointChoices.remarks([], bundleID: request.app, apps: Set(apps)).isEmpty {
            context.complain(
                "no app \(request.app ?? "") is configured (apps), only \(apps.joined(separator: ", "))")
        }
    }
}

extension WebhooksCreateCommand {
    /// Deletes an endpoint whose secret nobody has seen.
    ///
    /// - Returns: what the command fails with: what became of the endpoint.
    private static func withdraw(
        _ id: String, from register: EndpointRegister, unprintedFor reason: String
    ) async -> CommandFailure {
        do {
            _ = try await uninterrupted { try await register.change(id, .removed) }
            return CommandFailure(
                description: "the secret could not be printed, so the endpoint was deleted again (\(id)): \(reason)")
        } catch {
            return CommandFailure(
                description:
                    "the secret could not be printed (\(reason)), nor the endpoint be deleted again (\(error)): it is "
                    + "told everything until `rightful webhooks delete \(id)`")
        }
    }
}

extension ParsedArguments {
    /// The types of messages that `--types` names; `nil` where it is left out.
    func messageTypes() throws(UsageError) -> [String]? {
        guard let text = value("--types") else { return nil }
        let names = text.split(separator: ",").map(String.init)
        guard !names.isEmpty else { throw error("--types names no type; leave it out for all") }
        return names
    }

    /// What `--authorization-header-file` holds: a file's content is seen by nobody who lists processes.
    func authorizationHeader() throws -> String? {
        guard let path = value("--authorization-header-file") else { return nil }
        var bytes = try Files.read(path, as: "the value of Authorization")[...]
        while bytes.last == UInt8(ascii: "\n") || bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self)
    }
}
