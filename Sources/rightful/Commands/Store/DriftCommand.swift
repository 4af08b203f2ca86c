import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful drift`.
struct DriftCommand: Command {
    static let usage = CommandUsage(
        "drift", "List the differences between device, ledger and store, and what resolved each.",
        options: [
            CommandUsage.environment,
            CommandUsage.Option(
                "--class", "C", "one of \(DriftClass.allCases.map(\.rawValue).joined(separator: ", "))"),
            CommandUsage.Option("--open", nil, "those that are open (the default)"),
            CommandUsage.Option("--all", nil, "those that were resolved as well"),
            CommandUsage.Option("--after", "N", "those that were found after this position"),
            CommandUsage.Option("--limit", "N", "at most so many; default 100"),
            CommandUsage.Option("--json", nil, "print the answer of GET /v1/drift"),
        ],
        details: """
            What devices say that differs from the ledger is recorded when they reconcile; what the store says only when it is
            asked should have been heard before. Each such event is a difference, and one of a class:

            late_notification  the store's notification came after the difference was found
            missed_event       the store's notification never came; the ledger was told in another way
            stale_device       the device has not heard yet what the ledger knows
            ownership          whose the purchase is
            environment        the customer has it in the store's other environment
            unexplained        none of these: look at it

            What was recorded since the last look is gone through first; on a terminal it shows how far it is.
            """)

    private let arguments: ParsedArguments
    private let query: DriftQuery

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        var query = DriftQuery(try arguments.environment() ?? .production)
        if let text = arguments.value("--class") {
            guard let driftClass = DriftClass(rawValue: text) else {
                let names = DriftClass.allCases.map(\.rawValue).joined(separator: ", ")
                throw arguments.error("--class is one of \(names), not '\(text)'")
            }
            query.driftClass = driftClass
        }
        if arguments.has("--open"), arguments.has("--all") {
            throw arguments.error("--open and --all exclude each other")
        }
        query.isResolved = arguments.has("--all") ? nil : false
        query.after = try arguments.number("--after") ?? 0
        let limit = try arguments.number("--limit") ?? 100
        guard limit > 0 else { throw arguments.error("--limit is 1 or more") }
        query.limit = Int(min(limit, Int64(LedgerReader.pageLimit)))
        self.query = query
    }

    /// For a running service that is at it just now.
    private static let patience = Duration.seconds(10)

    func run(_ context: CommandContext) async throws {
        let page = try await DatabaseSession.with(arguments, context) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            let head = try await reader.status().position
            let throttle = Throttle(.milliseconds(200))
            let onlyReads = try await session.readingOnly() != nil
            if !onlyReads {
                try await DriftProjector(pool: session.pool).catchUp(isHurried: true, patience: Self.patience) {
                    position in
                    guard context.isTerminal, throttle.passes() else { return }
                    context.draw("looking for differences: \(position) of \(head) events")
                }
                if context.isTerminal { context.draw("") }
            }
            let page = try await reader.driftRegister.page(query)
            if page.readTo < head {
                context.complain(
                    "\(head - page.readTo) events are not gone through yet: "
                        + (onlyReads ? "the database only reads" : "another process is at it")
                        + ". What follows is as of position \(page.readTo); try again "
                        + (onlyReads ? "where it writes" : "in a moment"))
            }
            return page
        }
        if arguments.has("--json") {
            try context.output.write(WireJSON.encode(DriftListDocument(page)) + [UInt8(ascii: "\n")])
        } else {
            try context.output.write(table(page))
        }
    }

    private func table(_ page: FoundDriftPage) -> String {
        let heading = [
            "position", "found", "class", "between", "customer", "app", "product", "claimed", "known", "resolved",
        ]
        let cells = page.items.map { drift in
            [
                "\(drift.position)", "\(drift.foundAt)", drift.cause.driftClass.rawValue, drift.comparison.words,
                drift.customerID ?? "-", drift.app ?? "-", drift.productID ?? "-",
                drift.report.map { Self.holding($0.claimed, $0.claimedUntil) } ?? "-",
                drift.report.map { report in
                    report.actual.map { Self.holding($0, report.actualUntil) } ?? "nothing"
                } ?? "-",
                drift.resolution.map { "by \($0.by.rawValue) at \($0.at), position \($0.position)" } ?? "open",
            ]
        }
        let left = page.notCompared > 0 ? " (\(page.notCompared) not compared)" : ""
        var text =
            "\(query.environment.rawValue): unexplained = \(page.unexplained)\(left), up to position \(page.readTo)\n"
        guard !cells.isEmpty else { return text + "no such differences\n" }
        for (number, line) in TextTable([heading] + cells).lines.enumerated() {
            text += line + "\n"
            if number > 0 { text += "    \(page.items[number - 1].cause.sentence)\n" }
        }
        if page.hasMore { text += "there are more: --after \(page.nextAfter)\n" }
        return text
    }

    private static func holding(_ state: EntitlementState, _ until: Timestamp?) -> String {
        state.rawValue + (until.map { " until \($0)" } ?? "")
    }
}

extension DriftComparison {
    /// For people.
    fileprivate var words: String {
        switch self {
        case .deviceLedger: "device, ledger"
        case .storeLedger: "store, ledger"
        }
    }
}

extension ParsedArguments {
    /// The value of an option that is a whole number, 0 or more.
    func number(_ option: String) throws(UsageError) -> Int64? {
        guard let text = value(option) else { return nil }
        guard let number = Int64(text), number >= 0 else {
            throw error("\(option) is a whole number, 0 or more, not '\(text)'")
        }
        return number
    }
}
