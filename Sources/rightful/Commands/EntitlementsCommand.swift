import EntitlementAPI
import EntitlementCore
import Ledger

/// `rightful entitlements CUSTOMER`.
struct EntitlementsCommand: Command {
    static let usage = CommandUsage(
        "entitlements", "Show what a customer is entitled to, as JSON.", operands: ["CUSTOMER"],
        options: [
            CommandUsage.environment,
            CommandUsage.Option("--at", "T", "the instant asked about, in RFC 3339; default now"),
            CommandUsage.Option(
                "--known-at", "P", "believe the log up to this position, or to what was recorded by a time"),
        ],
        details: "The answer is that of GET /v1/customers/CUSTOMER/entitlements.")

    private let arguments: ParsedArguments
    private let customer: CustomerID
    private let environment: StoreEnvironment
    private let at: Timestamp?
    private let knownAt: KnownAt

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        guard let customer = CustomerID(arguments.operands[0]) else {
            throw arguments.error("no customer can be called '\(arguments.operands[0].prefix(64))'")
        }
        self.customer = customer
        environment = try arguments.environment() ?? .production
        at = try arguments.timestamp("--at")
        knownAt = try arguments.knownAt()
    }

    func run(_ context: CommandContext) async throws {
        let document = try await DatabaseSession.with(arguments, context) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            let known = try await reader.customerFacts(customer, environment: environment, knownAt: knownAt)
            let at = at ?? session.clock.now()
            let answers = known.facts.answers(at: at)
            let others =
                answers.isEmpty
                ? try await reader.otherEnvironments(of: customer, than: environment, upTo: known.position) : []
            return try WireJSON.encode(
                EntitlementsDocument(
                    customerID: customer.value, environment: environment, at: at, knownAt: known.position,
                    entitlements: answers.map { EntitlementDocument($0) }, alsoIn: others))
        }
        try context.output.write(document + [UInt8(ascii: "\n")])
    }
}

extension ParsedArguments {
    func timestamp(_ option: String) throws(UsageError) -> Timestamp? {
        guard let text = value(option) else { return nil }
        guard let timestamp = Timestamp(rfc3339: text) else {
            throw error("\(option) must be an RFC 3339 time, such as 2026-01-31T12:00:00Z, not '\(text)'")
        }
        return timestamp
    }

    /// The value of `--known-at`.
    func knownAt() throws(UsageError) -> KnownAt {
        guard let text = value("--known-at") else { return .head }
        // One too large to hold lies beyond every log.
        if !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) { return .position(Int64(text) ?? .max) }
        guard let timestamp = Timestamp(rfc3339: text) else {
            throw error("--known-at must be a position or an RFC 3339 time, not '\(text)'")
        }
        return .recorded(timestamp)
    }
}

extension KnownAtError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .beyondHead(let head): "--known-at is beyond the end of the log, which is position \(head)"
        case .notSettled: "--known-at is so recent that a commit could still be recorded by then; try again in seconds"
        }
    }
}
