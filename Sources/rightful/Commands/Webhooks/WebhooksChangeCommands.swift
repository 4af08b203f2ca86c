import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful webhooks delete ID`.
struct WebhooksDeleteCommand: Command {
    static let usage = CommandUsage(
        "webhooks delete", "Tell an endpoint nothing any more, for good.", operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            let waiting = try await register.standings(of: [endpoint.id])[endpoint.id]?.waiting ?? 0
            try await register.change(endpoint.id, .removed)
            if waiting > 0 {
                context.progress("\(waiting) message\(waiting == 1 ? "" : "s") that waited for it will not be sent")
            }
        }
    }
}

/// `rightful webhooks resume ID`.
struct WebhooksResumeCommand: Command {
    static let usage = CommandUsage(
        "webhooks resume",
        "Go on sending to an endpoint that was paused, or asked to be left alone (429, 503), where it was, and try at once "
            + "what waits for its next try.",
        operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            guard try await register.isHeldUp(endpoint) else {
                throw CommandFailure(
                    description:
                        "\(endpoint.id) is not paused, did not ask to be left alone, and nothing waits for its next try: it is "
                        + "sent what there is")
            }
            try await register.change(endpoint.id, .resumed)
        }
    }
}

/// `rightful webhooks pause ID`.
struct WebhooksPauseCommand: Command {
    static let usage = CommandUsage(
        "webhooks pause", "Send nothing to an endpoint until it is resumed; what there is to tell waits.",
        operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            guard endpoint.pause == nil else {
                throw CommandFailure(description: "\(endpoint.id) is paused already")
            }
            try await register.change(endpoint.id, .paused(.ordered))
        }
    }
}

/// `rightful webhooks rotate ID`.
struct WebhooksRotateCommand: Command {
    static let usage = CommandUsage(
        "webhooks rotate", "Give an endpoint another secret and print it, this once, alone on a line.",
        operands: ["ID"],
        options: [
            CommandUsage.Option(
                "--keep-old-seconds", "N",
                "for how long the old ones sign along; a day where it is left out, 0: not at all")
        ])

    private let arguments: ParsedArguments
    private let request: SecretRotationRequest

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        let keepOldSeconds = try arguments.number("--keep-old-seconds")
        do throws(EndpointChoices.Refusal) {
            request = try EndpointChoices.checked(SecretRotationRequest(keepOldSeconds: keepOldSeconds))
        } catch {
            throw arguments.error(error.reason)
        }
    }

    func run(_ context: CommandContext) async throws {
        let secret = try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            let position = try await register.rotateSecret(
                of: endpoint.id, keepOldSeconds: request.keepOldSeconds)
            return try await session.secret(at: position, register).secret
        }
        try context.output.write(secret + "\n")
    }
}

/// `rightful webhooks update ID`.
struct WebhooksUpdateCommand: Command {
    static let usage = CommandUsage(
        "webhooks update", "Change an endpoint, which keeps its id, its secret and its sequences.", operands: ["ID"],
        options: [
            CommandUsage.Option("--url", "URL", "where it is; what waits goes there at once"),
            CommandUsage.Option("--types", "T", "what it is told of, separated by commas; or all"),
            CommandUsage.Option("--environment", "E", "production, sandbox, or both"),
            CommandUsage.Option(
                "--authorization-header-file", "FILE",
                "of the format revenuecat: what is sent as Authorization, as the file has it; an empty one: nothing"),
            CommandUsage.Option("--description", "D", "what it is for; an empty one takes it away"),
        ],
        details: "Its app and its format stay what it was made with.")

    private let arguments: ParsedArguments
    private let request: EndpointChangeRequest

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        guard Self.usage.options.contains(where: { arguments.has($0.name) }) else {
            throw arguments.error("nothing is to be changed")
        }
        let isOfBoth = arguments.value("--environment") == "both"
        let environment = isOfBoth ? nil : try arguments.environment()
        let types = arguments.value("--types") == "all" ? [] : try arguments.messageTypes()
        // Which of them it may be told of is known when its format is.
        for name in types ?? [] where !EndpointChoices.isType(name) {
            throw arguments.error("there is no type \(name); `rightful webhooks create --help` names them")
        }
        do throws(EndpointChoices.Refusal) {
            request = try EndpointChoices.checked(
                EndpointChangeRequest(
                    url: arguments.value("--url"), types: types,
                    environment: isOfBoth || environment != nil ? .some(environment) : nil,
                    description: arguments.value("--description").map { $0.isEmpty ? nil : $0 }))
        } catch {
            throw arguments.error(error.reason)
        }
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let header = try arguments.authorizationHeader()
        let request = EndpointChangeRequest(
            url: request.url, types: request.types, environment: request.environment,
            description: request.description, authorizationHeader: header.map { $0.isEmpty ? nil : $0 })
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            let amendment: EndpointAmendment
            do throws(EndpointChoices.Refusal) {
                amendment = try EndpointChoices.amendment(
                    try EndpointChoices.checked(request), of: endpoint,
                    allowsPrivate: configuration.allowsPrivateWebhooks)
            } catch {
                throw CommandFailure(description: error.reason)
            }
            _ = try await register.change(endpoint, amendment)
        }
    }
}
