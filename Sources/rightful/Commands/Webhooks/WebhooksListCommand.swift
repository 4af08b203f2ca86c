import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful webhooks list`.
struct WebhooksListCommand: Command {
    static let usage = CommandUsage(
        "webhooks list", "List the endpoints of webhooks, and how they fare; never their secrets.",
        options: [CommandUsage.Option("--json", nil, "print them as GET /v1/webhook_endpoints does, all at once")])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let now = context.now()
        let (register, endpoints, standings, lost) = try await DatabaseSession.with(arguments, context) { session in
            let register = session.endpoints
            let lost = try await register.lost(now: now)
            let endpoints = register.endpoints
            return (register, endpoints, try await register.standings(of: endpoints.map(\.id)), lost)
        }
        if arguments.has("--json") {
            let items = endpoints.map { EndpointDocument($0, standings[$0.id], in: register, at: now) }
            let document = ListDocument(items: items, hasMore: false, nextAfter: endpoints.last?.position ?? 0)
            return try context.output.write(WireJSON.encode(document) + [UInt8(ascii: "\n")])
        }
        let rows = endpoints.map { endpoint in
            Self.row(
                endpoint, standings[endpoint.id], url: register.target(endpoint.id, now: now)?.url,
                isLost: lost.contains(endpoint.id))
        }
        let header = ["ID", "URL", "TYPES", "ENVIRONMENT", "APP", "STATUS", "WAITING", "FAILED"]
        try context.output.write(TextTable([header] + rows).text)
    }

    private static func row(
        _ endpoint: Endpoint, _ standing: EndpointStanding?, url: String?, isLost: Bool
    ) -> [String] {
        let terms = endpoint.terms
        let status: String =
            switch (endpoint.pause, standing?.failingSince) {
            case _ where isLost: "lost: nothing can be sent to it"
            case (.unreachable, _): "paused: it took nothing for three days"
            case (.gone, _): "paused: it answered that it is gone (410)"
            case (.ordered, _): "paused"
            case (nil, let since?):
                "fails since \(since)" + (standing?.heldUntil.map { "; asked to be left alone until \($0)" } ?? "")
            case (nil, nil): "active"
            }
        return [
            endpoint.id, url ?? "lost", terms.types.isEmpty ? "all" : terms.types.joined(separator: ","),
            terms.environment?.rawValue ?? "-", terms.bundleID ?? "-", status, "\(standing?.waiting ?? 0)",
            "\(standing?.failed ?? 0)",
        ]
    }
}
