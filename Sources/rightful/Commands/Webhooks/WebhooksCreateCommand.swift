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
            \(EndpointFormat.revenueCat.types.map(\.rawValue).joined(separator: ", ")). The address begins with https://
            and is of the public internet, unless "webhooks": {"allow_private_addresses": true} is configured.
            """)

    private let arguments: ParsedArguments
    private let types: Set<MessageType>
    private let format: EndpointFormat
    private let environment: StoreEnvironment?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        environment = try arguments.environment()
        if let app = arguments.value("--app"), app.isEmpty { throw arguments.error("--app must not be empty") }
        do throws(EndpointChoices.Refusal) {
            format = try EndpointChoices.format(arguments.value("--format"))
            let words = arguments.value("--types")?.split(separator: ",").map(String.init) ?? []
            types = try EndpointChoices.types(words, in: format)
            _ = try EndpointChoices.app(arguments.value("--app"))
        } catch {
            throw arguments.error(error.reason)
        }
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let authorization = try authorization()
        let order: EndpointOrder
        do throws(EndpointURL.Refusal) {
            let url = try EndpointURL(arguments.operands[0], allowsPrivate: configuration.allowsPrivateWebhooks)
            order = EndpointOrder(
                to: url, types: types, environment: environment, bundleID: arguments.value("--app"),
                format: format, description: arguments.value("--description"), authorization: authorization)
        } catch {
            throw CommandFailure(description: error.reason)
        }
        let made = try await DatabaseSession.with(arguments, context) { session in
            try await session.endpoints.create(order)
        }
        try context.output.write(made.secret + "\n")
        context.complain("the endpoint is \(made.id)")
    }

    /// A file's content is seen by nobody who lists processes.
    private func authorization() throws -> String? {
        guard let path = arguments.value("--authorization-header-file") else { return nil }
        var bytes = try Files.read(path)[...]
        while bytes.last == UInt8(ascii: "\n") || bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        do throws(EndpointChoices.Refusal) {
            return try EndpointChoices.authorization(String(decoding: bytes, as: UTF8.self), in: format)
        } catch {
            throw CommandFailure(description: error.reason)
        }
    }
}

extension DatabaseSession {
    /// The endpoints of webhooks, for a command that looks at them or changes them.
    var endpoints: EndpointRegister {
        EndpointRegister(pool: pool, writer: LedgerWriter(pool: pool, clock: clock))
    }

    /// The endpoint of an id.
    ///
    /// - Throws: `CommandFailure` where there is none.
    func endpoint(_ id: String) async throws -> (EndpointRegister, Endpoint) {
        let register = endpoints
        try await register.refresh()
        guard let endpoint = register.endpoints.first(where: { $0.id == id }) else {
            throw CommandFailure(description: "there is no endpoint \(id); see `rightful webhooks list`")
        }
        return (register, endpoint)
    }
}
