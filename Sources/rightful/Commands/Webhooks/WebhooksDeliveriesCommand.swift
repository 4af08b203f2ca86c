import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful webhooks deliveries ID`.
struct WebhooksDeliveriesCommand: Command {
    static let usage = CommandUsage(
        "webhooks deliveries", "List what an endpoint was sent, and what came of it; never what stood in it.",
        operands: ["ID"],
        options: [
            CommandUsage.Option(
                "--state", "S", "one of \(DeliveryState.allCases.map(\.rawValue).joined(separator: ", "))"),
            CommandUsage.Option("--after", "N", "those after this number"),
            CommandUsage.Option("--limit", "N", "at most so many; default 100"),
            CommandUsage.Option("--json", nil, "print the answer of GET /v1/webhook_endpoints/ID/deliveries"),
        ])

    private let arguments: ParsedArguments
    private let state: DeliveryState?
    private let after: Int64
    private let limit: Int

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        if let name = arguments.value("--state") {
            guard let state = DeliveryState(rawValue: name) else {
                let known = DeliveryState.allCases.map(\.rawValue).joined(separator: ", ")
                throw arguments.error("--state is one of \(known), not '\(name)'")
            }
            self.state = state
        } else {
            state = nil
        }
        after = try arguments.number("--after") ?? 0
        let limit = try arguments.number("--limit") ?? 100
        guard limit > 0 else { throw arguments.error("--limit is 1 or more") }
        self.limit = Int(min(limit, Int64(LedgerReader.pageLimit)))
    }

    func run(_ context: CommandContext) async throws {
        let (found, isPaused) = try await DatabaseSession.with(arguments, context) { session in
            let (_, endpoint) = try await session.endpoint(arguments.operands[0])
            let found = try await DeliveryList(pool: session.pool).deliveries(
                of: endpoint.id, after: after, limit: limit + 1, state: state)
            return (found, endpoint.pause != nil)
        }
        let page = found.prefix(limit).map { DeliveryDocument($0, isPaused: isPaused) }
        if arguments.has("--json") {
            let document = ListDocument(
                items: page, hasMore: found.count > limit, nextAfter: page.last?.number ?? after)
            try context.output.write(WireJSON.encode(document) + [UInt8(ascii: "\n")])
        } else {
            let header = ["NUMBER", "ID", "TYPE", "CUSTOMER", "STATE", "ATTEMPTS", "LAST", "NEXT", "CAME OF IT"]
            try context.output.write(TextTable([header] + page.map(Self.row)).text)
        }
    }

    private static func row(_ delivery: DeliveryDocument) -> [String] {
        [
            "\(delivery.number)", delivery.id ?? "-", delivery.type ?? "-", delivery.customerID ?? "-", delivery.state,
            "\(delivery.attempts)", delivery.lastAttemptAt?.description ?? "-",
            delivery.nextAttemptAt?.description ?? "-",
            delivery.failure ?? delivery.status.map { "status \($0)" } ?? "-",
        ]
    }
}
