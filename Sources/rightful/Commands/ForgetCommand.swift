import EmbeddedPostgres
import EntitlementCore
import Foundation
import Glibc
import Ledger
import PostgresClient
import Service

/// `rightful forget CUSTOMER`.
struct ForgetCommand: Command {
    static let usage = CommandUsage(
        "forget", "Erase who a customer is, for good.", operands: ["CUSTOMER"],
        options: [
            CommandUsage.Option("--yes", nil, "do not ask"),
            CommandUsage.Option("--dry-run", nil, "say what would be erased and what would stay, and erase nothing"),
            CommandUsage.Option(
                "--migrate-database-url", "URL", "log in as the owner of the tables; default: the database's URL"),
        ],
        details: """
            Erased are the customer's id and account token, every alias linked to it, the app transaction ids that only
            this customer's statements bear, and the signed evidence that may hold any of these, or that holds their mail
            address and is nobody else's. The events stay, naming numbers that stand for nobody any more, so every hash
            still verifies and nobody else's access changes; an event of type `forgotten` says what was erased. The
            customer's access is gone with the id: a later statement of the same person begins anew. Subscriptions that
            the store or Stripe goes on charging for are named on standard error before anything is erased: cancel them
            there first, for nothing here does.

            It takes the role that owns the tables, because the serving role may not erase evidence. What grants gave
            as their reason, and what backups hold, is not touched. A customer that the ledger does not know, or does
            not know any more, is an error: no event is written, and the exit status is 1.
            """)

    private let arguments: ParsedArguments
    private let customer: CustomerID

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        customer = try arguments.customer()
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let line = try await DatabaseSession.with(arguments, context) { session in
            let pool = PostgresPool(
                Self.ownerConninfo(configuration, session), limits: PostgresPool.Limits(connections: 1))
            do {
                let charges = try await charges(LedgerReader(pool: session.pool, clock: session.clock), session)
                let line = try await forget(Forgetter(pool: pool, now: session.clock.now), charges, context)
                await pool.close()
                return line
            } catch {
                await pool.close()
                throw error
            }
        }
        try context.output.write(line)
    }

    /// How the role that owns the tables logs in.
    static func ownerConninfo(_ configuration: Configuration, _ session: DatabaseSession) -> String {
        switch configuration.database {
        case .embedded: session.cluster?.ownerConninfo ?? session.conninfo
        case .external(let url, let migrateURL): (migrateURL ?? url).reveal()
        }
    }

    /// What goes on being charged, and how that ends.
    private struct Charge {
        let what: String
        let end: String
    }

    private func charges(_ reader: LedgerReader, _ session: DatabaseSession) async throws -> [Charge] {
        var charges: [Charge] = []
        for environment in StoreEnvironment.allCases {
            let (facts, _) = try await reader.customerFacts(customer, environment: environment)
            for charge in facts.runningCharges(at: session.clock.now()) {
                let product = charge.productID.map { "\($0), " } ?? ""
                let name = "\(charge.originalTransactionID) (\(product)\(environment.rawValue))"
                charges.append(Charge(what: "\(name) \(charge.words)", end: charge.end))
            }
        }
        return charges
    }

    private func forget(
        _ forgetter: Forgetter, _ charges: [Charge], _ context: CommandContext
    ) async throws -> String {
        let meter = Throttle(.seconds(1))
        let preview = try await forgetter.preview(customer) { done, all in
            guard context.isTerminal, meter.passes() else { return }
            context.draw("looking for the customer in all evidence: \(done) of \(all)")
        }
        if context.isTerminal { context.draw("") }
        if preview.isEmpty {
            if !arguments.has("--dry-run") { _ = try await forgetter.forget(customer, known: preview, isAgreed: true) }
            throw Self.unknown
        }
        // Before the question, and where none is asked all the same: nobody can look it up by the customer afterwards.
        for charge in charges { context.complain("\(charge.what); \(charge.end) first") }
        // Afterwards nothing leads from the customer to it, even once it reads again.
        if let damage = Self.damage(preview.unreadableEvidence) {
            context.complain("\(damage); bring them back from a backup first")
        }
        if arguments.has("--dry-run") { return "This would erase for good:\n\(Self.members(preview))" }
        if !arguments.has("--yes") { try await confirm(preview, context) }
        // Whoever was asked and said yes is not left half-way.
        let isAgreed = !arguments.has("--yes")
        let outcome = try await uninterrupted { [customer] in
            try await forgetter.forget(customer, known: preview, isAgreed: isAgreed)
        }
        guard let outcome else { throw Self.unknown }
        var line = "forgotten at position \(outcome.positions.map(String.init).joined(separator: ", ")): "
        line += "\(outcome.identities) id(s) and \(outcome.evidence) piece(s) of evidence are erased\n"
        if outcome.sharedAppTransactions > 0 {
            line += "\(outcome.sharedAppTransactions) app transaction id(s) stay: other customers' statements bear "
            line += "them, too\n"
        }
        if outcome.keptAliases > 0 {
            line += "\(outcome.keptAliases) alias(es) stay: they stand for somebody else in one environment; the links "
            line += "from them are undone\n"
        }
        if outcome.sharedMailAddresses > 0 {
            line +=
                "\(outcome.sharedMailAddresses) mail address(es) are other customers', too, and nothing was erased by them\n"
        }
        if let damage = Self.damage(outcome.unreadableEvidence) { line += "\(damage), and stay\n" }
        for charge in charges { line += "\(charge.what); \(charge.end), if it is still to end\n" }
        return line
    }

    private static func damage(_ positions: [Int64]) -> String? {
        positions.first.map {
            """
            \(positions.count) piece(s) of evidence (the first: that of position \($0)) do not read, so nobody can say \
            whether they name this customer
            """
        }
    }

    private static let unknown = CommandFailure(
        description: "the ledger knows no customer of that id (a forgotten one neither), so there is nothing to erase "
            + "but the idempotency keys of commands about it")

    /// What goes and what stays, one id a line, with whom each leads to.
    private static func members(_ preview: ForgettingPreview) -> String {
        func lines(_ areErased: Bool) -> String {
            preview.members.filter { $0.isErased == areErased }.map { member in
                let leads = member.leads.map { "\($0.customerID) in \($0.environment.rawValue)" }
                return "  \(member.id)\(leads.isEmpty ? "" : ", an alias of \(leads.joined(separator: ", of "))")\n"
            }.joined()
        }
        let stays = lines(false)
        return lines(true) + "and the evidence of \(preview.scope.evidencePositions.count) event(s)\n"
            + (stays.isEmpty ? "" : "These stay, because they are somebody else's, too:\n\(stays)")
    }

    /// Asks on the terminal; refuses where nobody can answer.
    private func confirm(_ preview: ForgettingPreview, _ context: CommandContext) async throws {
        guard context.isTerminal, isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(description: "forgetting cannot be undone; say --yes where nobody can be asked")
        }
        let question = """
            This erases for good:
            \(Self.members(preview))\
            It cannot be undone. Go on? [y/N]\u{20}
            """
        try? FileHandle.standardError.write(contentsOf: Data(question.utf8))
        guard ["y", "yes"].contains(await Self.line()?.lowercased()) else {
            throw CommandFailure(description: "nothing was changed")
        }
    }

    /// What is typed, read on a thread of its own; `nil` at the end of input, and when interrupted.
    private static func line() async -> String? {
        let (lines, continuation) = AsyncStream<String>.makeStream()
        Thread.detachNewThread {
            if let line = readLine() { continuation.yield(line) }
            continuation.finish()
        }
        return await lines.first { _ in true }
    }
}

extension RunningCharge {
    fileprivate var words: String {
        switch (isOfWeb, isPaused) {
        case (true, false): "goes on being charged by Stripe"
        case (true, true): "is paused, and charged again by Stripe when that ends"
        case (false, _): "goes on being charged by the App Store"
        }
    }

    /// How it is ended.
    fileprivate var end: String {
        isOfWeb ? "cancel it there" : "let the customer cancel it in their Apple account's subscriptions"
    }
}
