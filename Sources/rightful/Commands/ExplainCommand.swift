import EntitlementAPI
import EntitlementCore
import Foundation
import Ledger
import Service

/// `rightful explain CUSTOMER [ENTITLEMENT]`.
struct ExplainCommand: Command {
    static let usage = CommandUsage(
        "explain", "Show why a customer has, or has not, an entitlement.", operands: ["CUSTOMER", "[ENTITLEMENT]"],
        options: [
            CommandUsage.environment, CommandUsage.at, CommandUsage.knownAt,
            CommandUsage.Option("--from", "FILE", "fold a file of `rightful export`, without any database"),
            CommandUsage.Option(
                "--log-key", "KEY", "with --from: the log's key as it was published, which must have signed the file"),
            CommandUsage.Option("--unsigned", nil, "with --from: read a file that is bound to no checkpoint"),
            CommandUsage.Option("--json", nil, "print the answer of GET /v1/customers/CUSTOMER/explain"),
        ],
        details: """
            It shows the decision, the rule behind it, the events it rests on, what else was weighed, and what would
            change it; on a terminal it draws the timeline. Without ENTITLEMENT it explains all that the customer holds
            or held; of a customer who never had anything, or is not known, every entitlement of the catalog.
            """)

    /// The largest export read, in bytes; that of 50,000 events with their evidence is smaller.
    private static let fileLimit = 1 << 30

    private let arguments: ParsedArguments
    private let customer: CustomerID
    private let entitlementID: String?
    private let environment: StoreEnvironment
    private let at: Timestamp?
    private let knownAt: KnownAt

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        customer = try arguments.customer()
        entitlementID = arguments.operands.dropFirst().first
        if entitlementID?.isEmpty == true { throw arguments.error("ENTITLEMENT is empty") }
        environment = try arguments.environment() ?? .production
        at = try arguments.timestamp("--at")
        knownAt = try arguments.knownAt()
        if arguments.has("--from"), arguments.has("--database-url") || arguments.has("--data-dir") {
            throw arguments.error("--from needs no database, so give it without --database-url and --data-dir")
        }
    }

    func run(_ context: CommandContext) async throws {
        let question = ExplainQuestion(
            customer: customer, environment: environment, entitlementID: entitlementID, at: at ?? context.now())
        let answer: ExplainQuestion.Answer
        if let path = arguments.value("--from") {
            answer = try self.answer(question, from: path, context)
        } else {
            answer = try await DatabaseSession.with(arguments, context) { session in
                try await question.answer(
                    from: LedgerReader(pool: session.pool, clock: session.clock), knownAt: knownAt)
            }
        }
        if arguments.has("--json") {
            try context.output.write(WireJSON.encode(answer.document) + [UInt8(ascii: "\n")])
        } else {
            let isTerminal = isatty(STDOUT_FILENO) == 1
            try context.output.write(
                ExplanationText(answer: answer, mark: at == nil ? "now" : "at", draws: isTerminal).text)
        }
    }

    private static func read(_ path: String) throws -> [UInt8] {
        let data: Data?
        do {
            data = try FileHandle(forReadingFrom: URL(fileURLWithPath: path)).read(upToCount: fileLimit + 1)
        } catch {
            throw CommandFailure(description: "\(path): cannot be read; see whether it exists and may be read")
        }
        guard let data, data.count <= fileLimit else {
            throw CommandFailure(description: "\(path): is empty, or larger than \(fileLimit) bytes")
        }
        return Array(data)
    }

    /// Refuses a file that is not as it was exported.
    private func checkBinding(of document: CustomerExportDocument, _ context: CommandContext) throws {
        let given = try arguments.logKey()
        if let key = try document.checkBinding(given) {
            if given == nil {
                context.complain(
                    "the file is as \(key.text) signed it; give --log-key to be sure that this is the log's key")
            }
        } else if given != nil || !arguments.has("--unsigned") {
            throw ExportFileError(
                "is bound to no checkpoint, so that anybody can have changed it; --unsigned reads it all the same")
        }
    }

    /// The answer folded from a file, with the decisions of the database that wrote it.
    private func answer(_ question: ExplainQuestion, from path: String, _ context: CommandContext) throws
        -> ExplainQuestion.Answer
    {
        let bytes = try Self.read(path)
        do {
            let (document, events) = try CustomerExportDocument.read(bytes)
            try checkBinding(of: document, context)
            guard CustomerID(document.customerID) == customer else {
                throw CommandFailure(description: "\(path): is the export of another customer")
            }
            guard document.environments.contains(environment) else {
                throw CommandFailure(
                    description: "\(path): holds nothing of \(environment.rawValue); see its \"environments\"")
            }
            let position = try document.position(knownAt)
            func history(_ environment: StoreEnvironment) -> CustomerHistory {
                CustomerHistory(
                    of: IdentityRef(document.identity), environment: environment, position: position, events: events)
            }
            let known = history(environment)
            let exported = CustomerHistory(
                of: known.customer, environment: environment, position: document.ledger.position, events: events)
            guard known.person.isSubset(of: exported.person) else {
                throw CommandFailure(
                    description:
                        "\(path): somebody was linked with this customer then and is not any more, so their events "
                        + "are not in it; ask the ledger itself")
            }
            let answer = question.answer(from: known) { history($0).knowsCustomer }
            // Of those who were linked with the customer once, and of what the customer claimed in vain, it has no events.
            if known.identities != known.person || !answer.document.conflicts.isEmpty {
                context.complain(
                    "the file has no events of other customers: the decisions are the ledger's, but of what is another's, or "
                        + "was theirs by a link, the ledger itself may give more of a reason")
            }
            return answer
        } catch let error as ExportFileError {
            throw CommandFailure(description: "\(path): \(error)")
        }
    }
}
