import EntitlementAPI
import EntitlementCore
import Ledger
import Service

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
