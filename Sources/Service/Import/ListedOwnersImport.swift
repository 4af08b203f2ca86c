package import EntitlementCore
package import Ledger

/// Makes purchases of the App Store the customers' whom a list names, where they are nobody else's.
///
/// Of an Apple account with which nobody is linked the account itself is linked, so that what it buys later is the customer's, too.
/// Everything is decided on the log alone, and what is done already is found done: it may be stopped and begun again at any time.
package struct ListedOwnersImport: Sendable {
    /// How many lines are looked at together.
    private static let page = 100
    /// How many are changed at once; those of one Apple account one after the other.
    private static let width = 8
    /// How often a line is decided anew because something else came first.
    private static let attempts = 20
    /// How many purchases that keep their owner are named.
    package static let mostNamed = 1000
    /// What the events say of who ordered them.
    private static let actor = "import"

    private let reader: LedgerReader
    private let environment: StoreEnvironment
    private let app: AppScope
    private let append: @Sendable (EventDraft) async throws -> AppendOutcome

    package init(
        _ app: String, in environment: StoreEnvironment, reader: LedgerReader,
        append: @escaping @Sendable (EventDraft) async throws -> AppendOutcome
    ) {
        self.app = AppScope(app)
        self.environment = environment
        self.reader = reader
        self.append = append
    }

    /// Goes through the list from its beginning to its end.
    ///
    /// - Parameter progress: called after each page.
    package func run(
        _ list: [ListedOwner], progress: @Sendable (ListedOwnersReport) -> Void = { _ in }
    ) async throws -> ListedOwnersReport {
        var report = ListedOwnersReport()
        let named = list.filter { $0.customer != nil }
        report.passedOver = list.count - named.count
        report.done = report.passedOver
        let originals = try await reader.originals(ofTransactions: named.map(\.transactionID), in: environment)
        var work = Work()
        for start in stride(from: 0, to: named.count, by: Self.page) {
            try Task.checkCancellation()
            let lines = named[start..<min(named.count, start + Self.page)].compactMap { line -> Line? in
                guard let original = originals[line.transactionID], let customer = line.customer else {
                    report.unknown += 1
                    return nil
                }
                return Line(listed: line, customer: customer, original: original)
            }
            try await settle(lines, &report, &work)
            report.done = report.passedOver + min(named.count, start + Self.page)
            progress(report)
        }
        return report
    }

    /// How many of some purchases are Apple accounts' with which nobody is linked, so that whose they are is not known yet.
    package func countOfLoneAccounts(_ ids: [Substring]) async throws -> Int {
        let originals = Set(try await reader.originals(ofTransactions: ids, in: environment).values).sorted()
        var count = 0
        for start in stride(from: 0, to: originals.count, by: Self.page) {
            try Task.checkCancellation()
            let page = Array(originals[start..<min(originals.count, start + Self.page)])
            for scene in try await scenes(page) {
                let facts = scene.snapshot.facts
                let account = facts.loneAccount(
                    of: scene.original, accounts: scene.accounts, links: scene.snapshot.links)
                if account != nil { count += 1 }
            }
        }
        return count
    }

    /// A line that names somebody and a purchase that is known.
    private struct Line: Sendable {
        let listed: ListedOwner
        let customer: CustomerID
        let original: String
    }

    /// What is kept in mind of the lines before.
    private struct Work {
        /// To whom each Apple account was given first.
        var first: [IdentityRef: Line] = [:]
    }

    /// A purchase, who is named about it, and everybody whom links connect with these, as of one position.
    private struct Scene: Sendable {
        let original: String
        let snapshot: LedgerSnapshot
        /// The customer ids of whom the purchase names.
        let names: [IdentityRef: String]
        let listed: CustomerID?

        /// Those who are default customers of app transactions.
        var accounts: Set<IdentityRef> {
            Set(names.filter { CustomerID($0.value)?.appTransactionID != nil }.keys)
        }

        /// Everybody whose number the purchase's facts have.
        var people: Set<IdentityRef> { Self.people(of: original, in: snapshot) }

        static func people(of original: String, in snapshot: LedgerSnapshot) -> Set<IdentityRef> {
            let facts = snapshot.facts.originals[original]?.transactions.map(\.fact) ?? []
            return Set(facts.flatMap { [$0.accountToken, $0.appTransaction].compactMap(\.self) })
                .union(snapshot.facts.ownership.holders(of: original))
        }

        /// Whom the list names; a number that nobody has for whom the ledger never heard of.
        var number: IdentityRef { listed.map { snapshot.number(of: $0, unknownAs: 1) } ?? LedgerSnapshot.nobody }
    }

    /// Decides about a page together, and changes what is to be changed.
    private func settle(_ lines: [Line], _ report: inout ListedOwnersReport, _ work: inout Work) async throws {
        let scenes = try await scenes(lines.map(\.original), lines.map(\.customer))
        // Lines that would change the same go one after the other: of two customers the first one counts.
        var chains: [Subject: [Int]] = [:]
        var order: [Subject] = []
        for (index, scene) in scenes.enumerated() {
            let key = scene.accounts.min().map { Subject.account($0) } ?? .original(scene.original)
            if chains[key] == nil { order.append(key) }
            chains[key, default: []].append(index)
        }
        var outcomes = [Outcome?](repeating: nil, count: lines.count)
        try await withThrowingTaskGroup(of: [(Int, Outcome)].self) { group in
            var waiting = order[...]
            var running = 0
            while running > 0 || !waiting.isEmpty {
                while running < Self.width, let key = waiting.popFirst() {
                    let chain = (chains[key] ?? []).map { ($0, lines[$0], scenes[$0]) }
                    running += 1
                    group.addTask {
                        var told: [(Int, Outcome)] = []
                        var hasChanged = false
                        for (index, line, scene) in chain {
                            let outcome = try await settle(line, hasChanged ? nil : scene)
                            hasChanged = hasChanged || outcome.isChange
                            told.append((index, outcome))
                        }
                        return told
                    }
                }
                guard let told = try await group.next() else { break }
                running -= 1
                for (index, outcome) in told { outcomes[index] = outcome }
            }
        }
        for (index, line) in lines.enumerated() {
            guard let outcome = outcomes[index] else { continue }
            note(outcome, line, scenes[index].accounts, &report, &work)
        }
    }

    /// What lines of one page may both want to change.
    private enum Subject: Hashable {
        case account(IdentityRef)
        case original(String)
    }

    private enum Outcome: Sendable {
        case theirs, linked, given, unknown
        case kept(ListedOwnersReport.Reason)

        var isChange: Bool {
            switch self {
            case .linked, .given: true
            case .theirs, .unknown, .kept: false
            }
        }
    }

    /// Decides about a line and changes what is to be changed; decided anew where something else came first.
    private func settle(_ line: Line, _ known: Scene?) async throws -> Outcome {
        var scene = known
        for _ in 0..<Self.attempts {
            let current: Scene
            if let scene {
                current = scene
            } else {
                current = try await scenes([line.original], [line.customer])[0]
            }
            scene = nil
            let snapshot = current.snapshot
            let forgotten = current.people.subtracting(current.names.keys)
            let decision = snapshot.facts.decideListed(
                owner: current.number, of: line.original, in: app, accounts: current.accounts, links: snapshot.links,
                forgotten: forgotten)
            do {
                switch decision {
                case .theirs: return .theirs
                case .unknown: return .unknown
                case .takenBack: return .kept(.takenBack)
                case .others(let others):
                    return .kept(.others(try await reader.customerIDs(of: Array(others)).values.sorted()))
                case .link(let link):
                    _ = try await append(try draft(of: link, line, current))
                    return .linked
                case .transfer(let transfer):
                    _ = try await append(draft(of: transfer, line, current))
                    return .given
                }
            } catch AppendRefusal.conflict {
                continue
            }
        }
        throw LedgerError(
            .invalid,
            "whose transaction \(line.listed.transactionID) is kept changing while it was decided; begin again")
    }

    private func draft(of link: LinkFact, _ line: Line, _ scene: Scene) throws -> EventDraft {
        guard let account = scene.names[link.identity] else {
            throw LedgerError(.corrupt, "an Apple account that is to be linked has no name")
        }
        let command = LinkCommand(
            customer: line.customer, environment: environment, actor: Self.actor, reason: nil,
            deduplication: .unique, source: .operatorCommand)
        var draft = command.draft(
            account, to: line.customer.value, restingOn: Array(scene.names.values), asOf: scene.snapshot.mark)
        draft.unchangedSince?.originals = [key(of: line)]
        return draft
    }

    private func draft(of transfer: TransferFact, _ line: Line, _ scene: Scene) -> EventDraft {
        var fact = transfer
        (fact.customer, fact.actor) = (IdentityRef(0), Self.actor)
        let names = [line.customer.value] + Array(scene.names.values)
        return EventDraft(
            environment: environment, source: .operatorCommand, occurredAt: nil, fact: .transfer(fact),
            identities: [line.customer.value], deduplication: .unique,
            unchangedSince: UnchangedSince(
                scene.snapshot.mark, customers: names, originals: [key(of: line)],
                // A statement that names somebody may come at this very moment.
                lives: [key(of: line)]))
    }

    private func key(of line: Line) -> OriginalKey {
        OriginalKey(environment: environment, originalTransactionID: line.original)
    }

    private func note(
        _ outcome: Outcome, _ line: Line, _ accounts: Set<IdentityRef>, _ report: inout ListedOwnersReport,
        _ work: inout Work
    ) {
        let before = accounts.compactMap { work.first[$0] }.min { $0.listed.line < $1.listed.line }
        for account in accounts where work.first[account] == nil { work.first[account] = line }
        switch outcome {
        case .theirs: report.theirs += 1
        case .linked: report.linked += 1
        case .given: report.given += 1
        case .unknown: report.unknown += 1
        case .kept(var reason):
            report.kept += 1
            guard report.examples.count < Self.mostNamed else { return }
            if case .others(let names) = reason, names.count == 1, let name = names.first, let before,
                ExactText(name) == ExactText(before.customer.value)
            {
                reason = .listed(name, line: before.listed.line)
            }
            report.examples.append(
                ListedOwnersReport.Kept(transactionID: line.listed.transactionID, reason: reason))
        }
    }

    /// Reads some purchases, and everybody who has to do with one.
    private func scenes(_ originals: [String], _ listed: [CustomerID]? = nil) async throws -> [Scene] {
        guard !originals.isEmpty else { return [] }
        let purchases = try await reader.snapshots(
            originals.map { LedgerQuestion(of: nil, environment, originals: [$0]) })
        let people = zip(originals, purchases).map { Scene.people(of: $0, in: $1) }
        let names = try await reader.customerIDs(of: Array(Set(people.joined())))
        let questions = originals.indices.map { index in
            LedgerQuestion(
                of: nil, environment, originals: [originals[index]],
                customers: people[index].compactMap { names[$0] }.sorted()
                    + [listed?[index].value].compactMap(\.self))
        }
        let snapshots = try await reader.snapshots(questions)
        return originals.indices.map { index in
            Scene(
                original: originals[index], snapshot: snapshots[index],
                names: names.filter { people[index].contains($0.key) }, listed: listed?[index])
        }
    }
}
