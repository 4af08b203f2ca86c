import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful webhooks test ID`.
struct WebhooksTestCommand: Command {
    static let usage = CommandUsage(
        "webhooks test", "Have the service send an endpoint something to try it with, and say what came of it.",
        operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    /// For what comes before it: other work on the log, and a receiver that takes its time.
    private static let patience = Duration.seconds(20)

    func run(_ context: CommandContext) async throws {
        guard try context.configuration(arguments).sendsWebhooks else {
            throw CommandFailure(description: "webhooks.enabled is false in the configuration: nothing is sent")
        }
        let sent = try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            guard endpoint.pause == nil else {
                throw CommandFailure(
                    description: "\(endpoint.id) is paused; resume it first: `rightful webhooks resume \(endpoint.id)`")
            }
            if let until = try await register.standings(of: [endpoint.id])[endpoint.id]?.heldUntil {
                throw CommandFailure(
                    description:
                        "\(endpoint.id) asked to be left alone until \(until); to go on now: `rightful webhooks resume \(endpoint.id)`"
                )
            }
            let projector = WebhookProjector(
                pool: session.pool, teller: WebhookWork.teller, showDrift: WebhookWork.showDrift,
                show: WebhookWork.show)
            _ = try await projector.catchUp(
                to: endpoint.position, within: Self.patience, now: session.clock.now)
            let list = DeliveryList(pool: session.pool)
            let body = try WireJSON.encode(EndpointTestDocument(endpoint: endpoint.id))
            let answer = try await list.test(endpoint.id, body: body, at: session.clock.now()) {
                try WireJSON.encode(DeliveryDocument($0, isPaused: false))
            }
            guard let number = try answer.map({ try WireJSON.decode(DeliveryDocument.self, from: $0).number }) else {
                throw CommandFailure(description: "the log is not followed up to this endpoint yet; try again")
            }
            let end = ContinuousClock.now + Self.patience
            while true {
                let sent = try await list.deliveries(of: endpoint.id, after: number - 1, limit: 1).first
                if let sent, sent.number == number, sent.attempts > 0 { return sent }
                guard ContinuousClock.now < end else {
                    let standing = try await register.standings(of: [endpoint.id])[endpoint.id]
                    throw CommandFailure(
                        description: Self.delay(standing, isServed: try await !ServingUser.all(session.pool).isEmpty))
                }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        guard sent.state == .delivered else {
            throw CommandFailure(description: "it was not taken: \(sent.failure ?? sent.state.rawValue)")
        }
        try context.output.write("it was taken, with status \(sent.status ?? 0)\n")
    }

    /// Why it was not sent in time, as far as that can be told.
    private static func delay(_ standing: EndpointStanding?, isServed: Bool) -> String {
        let waited = "it was not sent within \(patience)"
        guard isServed else { return "\(waited): no service is connected to this database" }
        let since = standing?.failingSince.map { ", and the receiver has taken nothing since \($0)" } ?? ""
        return
            "\(waited), and is sent when its turn comes: \(max(0, (standing?.waiting ?? 0) - 1)) deliveries wait beside it\(since)"
    }
}
