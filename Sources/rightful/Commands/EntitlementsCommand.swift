import EntitlementAPI
import EntitlementCore
import Ledger

/// `rightful entitlements CUSTOMER`.
struct EntitlementsCommand: Command {
    static let usage = CommandUsage(
        "entitlements", "Show what a customer is entitled to, as JSON.", operands: ["CUSTOMER"],
        options: [CommandUsage.environment, CommandUsage.at, CommandUsage.knownAt],
        details: "The answer is that of GET /v1/customers/CUSTOMER/entitlements.")

    private let arguments: ParsedArguments
    private let customer: CustomerID
    private let environment: StoreEnvironment
    private let at: Timestamp?
    private let knownAt: KnownAt

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        customer = try arguments.customer()
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
