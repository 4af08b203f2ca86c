import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension CommandHandlers {
    /// `POST /v1/customers/{id}/actions/transfer`.
    func transfer(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(TransferRequest.self)
        let command = TransferCommand(
            customer: customer, environment: try call.environment(named: request.environment),
            change: request.change, actor: call.actor, reason: request.reason,
            deduplication: try context.deduplication(of: call, about: customer), scope: call.scope)
        if request.isDryRun {
            // The key, if any, is looked at and not taken: a dry run is another request than the run.
            _ = try await commands.keys.position(of: try context.commandKey(of: call), now: context.now())
            return try await dryRun(command)
        }
        return try await commands.carryOut(call) {
            .append(try await decide(command).draft)
        } answer: { position in
            let event = try await context.reader.recordedEvent(at: position)
            let scene = TransferScene(
                HistoryEvent(event.record, fact: event.fact), receiver: event.customerID, command)
            return try await answer(scene, knownAt: position, isDryRun: false)
        }
    }

    /// Whether it was bought on the web, and so holds in every app.
    private func isOfWeb(_ key: OriginalKey, _ app: AppScope) async throws -> Bool {
        let found = try await context.reader.subscription(
            key.originalTransactionID, environment: key.environment, app: app)
        return found.subscription?.state.web != nil
    }

    /// What would be recorded next, and how both sides would read.
    private func dryRun(_ command: TransferCommand) async throws -> HTTPResponse {
        let (draft, snapshot) = try await decide(command)
        // As if it were the next to be appended.
        let receiver = draft.identities.first
        let known = receiver.flatMap { snapshot.identities[ExactText($0)] } ?? LedgerSnapshot.nobody
        let event = HistoryEvent(
            position: snapshot.position + 1,
            recordedAt: snapshot.nextDate(now: context.now()),
            environment: command.environment, source: draft.source.rawValue,
            statementSource: draft.source.statementSource, type: draft.type, occurredAt: nil,
            fact: draft.fact.replacingIdentities { _ in known })
        return try await answer(
            TransferScene(event, receiver: receiver, command), knownAt: snapshot.position, isDryRun: true)
    }

    private func decide(_ command: TransferCommand) async throws -> (draft: EventDraft, snapshot: LedgerSnapshot) {
        var question = LedgerQuestion(of: command.customer, command.environment)
        var undone: TransferFact?
        switch command.change {
        case .move(let originalID, let receiver):
            let key = OriginalKey(environment: command.environment, originalTransactionID: originalID)
            if let app = command.scope.app, !(try await context.reader.isKnown(key, in: app)) {
                throw try await isOfWeb(key, app) ? Problem.ofEveryApp : Problem(TransferRefusal.unknownOriginal)
            }
            question.originals = [originalID]
            question.customers = [receiver.value]
        case .undo(let position):
            guard let event = try await context.reader.event(at: position, only: command.scope)?.event,
                case .transfer(let fact) = event.fact, event.record.environment == command.environment
            else { throw Problem(TransferRefusal.notTheirs) }
            question.originals = [fact.originalTransactionID]
            undone = fact
        }
        let snapshot = try await context.reader.snapshot(question)
        let forgotten = try await forgottenOwners(of: question.originals, undoing: undone, in: snapshot)
        let fact: LedgerFact
        var people = snapshot.facts.ownership.path(of: snapshot.number(of: command.customer, unknownAs: 1))
        people += question.originals.flatMap(snapshot.facts.namedOwners(of:))
        do throws(TransferRefusal) {
            switch command.change {
            case .move(let originalID, let receiver):
                // Also whom the ledger never heard of is themselves.
                let number =
                    receiver == command.customer
                    ? snapshot.identities[ExactText(receiver.value)] ?? snapshot.facts.customer
                    : snapshot.number(of: receiver, unknownAs: 2)
                people += snapshot.facts.ownership.path(of: number)
                var decided = try snapshot.facts.decideTransfer(of: originalID, to: number, forgotten: forgotten)
                decided.customer = IdentityRef(0)
                (decided.actor, decided.reason) = (command.actor, command.reason)
                fact = .transfer(decided)
            case .undo(let position):
                guard let undone else { throw .notTheirs }
                var decided = try snapshot.facts.decideUndo(of: undone, at: position)
                (decided.actor, decided.reason) = (command.actor, command.reason)
                if let heir = snapshot.facts.receiver(ofUndone: decided), !undone.hadNoOwner {
                    guard !forgotten.contains(heir) else { throw .giverForgotten }
                    people.append(heir)
                }
                fact = .transferUndo(decided)
            }
        } catch {
            throw Problem(error)
        }
        if case .move(_, let receiver) = command.change {
            let end = snapshot.facts.ownership.customer(of: snapshot.number(of: receiver, unknownAs: 2))
            let name = try await context.reader.knownNames(of: [end]).first.flatMap { CustomerID($0) }
            try await context.reader.checkMayName(name ?? receiver, command.scope, param: "to")
        }
        let names = try await context.reader.knownNames(of: Set(people)) + [command.customer.value] + question.customers
        let keys = question.originals.map {
            OriginalKey(environment: command.environment, originalTransactionID: $0)
        }
        return (
            EventDraft(
                environment: command.environment, source: .api, occurredAt: nil, fact: fact,
                identities: question.customers, deduplication: command.deduplication,
                unchangedSince: UnchangedSince(
                    snapshot.mark, customers: names, originals: keys,
                    // A store may name somebody else at this very moment.
                    lives: keys)), snapshot
        )
    }

    /// The owners of some original transactions, and of one whose transfer is undone those who get it back, whom nobody
    /// knows any more.
    private func forgottenOwners(
        of originals: [String], undoing transfer: TransferFact?, in snapshot: LedgerSnapshot
    ) async throws -> Set<IdentityRef> {
        var owners = Set(originals.flatMap { (try? snapshot.facts.owners(of: $0)) ?? [] })
        if let transfer, let last = snapshot.facts.ownership.transferInForce(of: transfer.originalTransactionID) {
            let undo = TransferUndoFact(
                originalTransactionID: transfer.originalTransactionID, undoes: last.position)
            owners.formUnion([snapshot.facts.receiver(ofUndone: undo)].compactMap(\.self))
        }
        guard !owners.isEmpty else { return [] }
        return owners.subtracting(try await context.reader.customerIDs(of: Array(owners)).keys)
    }

    /// Reads both sides at the event's instant, without it and with it.
    private func answer(
        _ scene: TransferScene, knownAt position: Int64, isDryRun: Bool
    ) async throws -> HTTPResponse {
        func history(of id: String) async throws -> CustomerHistory {
            guard let customer = CustomerID(id) else { throw Problem.forgotten }
            return try await context.reader.history(
                of: customer, environment: scene.environment, knownAt: .position(position))
        }
        var histories = [ExactText(scene.customer): try await history(of: scene.customer)]
        let parties = try await parties(to: scene, as: scene.history(histories[ExactText(scene.customer)], []))
        for id in [parties.from, parties.to].compactMap(\.self) where histories[ExactText(id)] == nil {
            histories[ExactText(id)] = try await history(of: id)
        }
        let sides = [parties.from, parties.to].compactMap { $0.flatMap { histories[ExactText($0)]?.customer } }
        let others = try await others(than: Set(sides), of: scene)
        for id in others where histories[ExactText(id)] == nil {
            histories[ExactText(id)] = try await history(of: id)
        }
        var all = histories.values.flatMap(\.events)
        if case .transfer(let fact) = scene.event.fact, fact.hadNoOwner {
            // It is in nobody's history.
            let key = OriginalKey(
                environment: scene.environment, originalTransactionID: fact.originalTransactionID)
            all += try await context.reader.events(about: key, upTo: position)
        }
        func side(_ id: String) -> TransferDocument.Side {
            let history = scene.history(histories[ExactText(id)], all)
            func answers(_ facts: CustomerFacts) -> [EntitlementDocument] {
                facts.answers(at: scene.event.recordedAt).map { EntitlementDocument($0) }
            }
            return TransferDocument.Side(
                customerID: id, before: answers(history.facts(before: scene.event.position)),
                after: answers(history.facts()))
        }
        return try .document(
            TransferDocument(
                position: isDryRun ? nil : scene.event.position, environment: scene.environment,
                originalTransactionID: scene.event.fact.originalTransactionID ?? "", from: parties.from.map(side),
                to: parties.to.map(side), others: others.map(side)), position: position)
    }

    /// Everybody but the two to whom a part of the original transaction belongs without the event, or with it.
    private func others(than sides: Set<IdentityRef>, of scene: TransferScene) async throws -> [String] {
        guard let originalID = scene.event.fact.originalTransactionID else { return [] }
        let found = try await context.reader.subscription(
            originalID, environment: scene.environment, knownAt: .position(scene.event.position - 1),
            app: scene.scope.app)
        // What was bought on the web is one customer's as a whole.
        guard let subscription = found.subscription, subscription.state.web == nil else { return [] }
        let before = subscription.ownership
        var after = before
        after.apply(scene.event.fact, position: scene.event.position, recordedAt: scene.event.recordedAt)
        let owners = subscription.state.winningStatements().flatMap { period in
            [before, after].compactMap { $0.currentOwner(of: period.fact) }
        }
        return try await context.reader.knownNames(
            of: Set(owners).subtracting(sides).subtracting(sides.map(before.customer(of:))))
    }

    /// Who loses and who gets it: the customer in the path by their own name, the other by the name the log has; `nil` for
    /// nobody.
    private func parties(
        to scene: TransferScene, as history: CustomerHistory
    ) async throws -> (from: String?, to: String?) {
        guard case .transferUndo(let undo) = scene.event.fact else {
            guard let receiver = scene.receiver else { throw Problem.forgotten }
            if case .transfer(let fact) = scene.event.fact, fact.hadNoOwner { return (nil, receiver) }
            return (scene.customer, receiver)
        }
        let facts = history.facts(before: scene.event.position)
        guard let loser = facts.ownership.transferInForce(of: undo.originalTransactionID)?.customer else {
            throw LedgerError(.corrupt, "event \(scene.event.position) takes back a transfer that is not in force")
        }
        let heir = facts.receiver(ofUndone: undo)
        let known = try await context.reader.customerIDs(of: [loser, heir].compactMap(\.self))
        // Whoever was forgotten is nobody.
        func name(of identity: IdentityRef) -> String? {
            facts.ownership.customer(of: identity) == facts.customer ? scene.customer : known[identity]
        }
        return (name(of: loser), heir.flatMap(name(of:)))
    }
}

/// A transfer as it was asked for.
private struct TransferCommand: Sendable {
    let customer: CustomerID
    let environment: StoreEnvironment
    let change: TransferRequest.Change
    /// The name of the key that orders it, and why.
    let actor: String?
    let reason: String?
    let deduplication: Deduplication
    /// What of the log whoever asks may hear of.
    let scope: LogScope
}

/// A transfer, or the undoing of one, that was or would be recorded, and who asked for it.
private struct TransferScene: Sendable {
    let event: HistoryEvent
    /// The name of whom a transfer goes to; `nil` for an undoing, and where it was forgotten.
    let receiver: String?
    /// Who asked.
    let customer: String
    let environment: StoreEnvironment
    let scope: LogScope

    init(_ event: HistoryEvent, receiver: String?, _ command: TransferCommand) {
        self.event = event
        self.receiver = receiver
        customer = command.customer.value
        environment = command.environment
        scope = command.scope
    }

    /// Somebody's history with the event, whether or not it is in the log.
    ///
    /// What is not about the app of whoever asked is left out here, because the event itself may give a side its first part
    /// in that app.
    ///
    /// - Parameter others: events of the other side, of which the original transaction's become this side's too.
    func history(_ history: CustomerHistory?, _ others: [HistoryEvent]) -> CustomerHistory {
        let told = (history?.events ?? []) + others + [event]
        let byPosition = Dictionary(told.map { ($0.position, $0) }) { first, _ in first }
        return CustomerHistory(
            of: history?.customer ?? LedgerSnapshot.nobody, environment: environment, position: event.position,
            events: Array(byPosition.values), app: scope.app)
    }
}

extension Problem {
    fileprivate static var ofEveryApp: Problem {
        Problem(
            .forbidden,
            "It was bought on the web and holds in every app, so a key that is bound to one app may not transfer it.",
            param: "original_transaction_id")
    }

    fileprivate init(_ refusal: TransferRefusal) {
        switch refusal {
        case .unknownOriginal:
            self.init(
                .notFound, "Nothing is known of this original transaction in this environment.",
                param: "original_transaction_id")
        case .nobodys:
            self.init(
                .ownershipConflict,
                "This original transaction is nobody's, so it is not the customer's to give. Whoever is to have it is given it "
                    + "by a transfer to them that is addressed to them: POST /v1/customers/{to}/actions/transfer with the "
                    + "same body.", param: "original_transaction_id")
        case .boughtByForgotten:
            self.init(
                .ownershipConflict,
                "This original transaction is somebody's who was forgotten, so it is nobody's to give. It becomes its "
                    + "buyer's again when a device of theirs reconciles it.", param: "original_transaction_id")
        case .anothers:
            self.init(
                .ownershipConflict,
                "This original transaction is another customer's. Only whose it is can be transferred from; "
                    + "GET /v1/subscriptions/{original_transaction_id} says whose that is.",
                param: "original_transaction_id")
        case .ofForgotten(let position):
            self.init(
                .ownershipConflict,
                "By the transfer at position \(position) this original transaction is somebody's who was forgotten since. "
                    + "Undo that transfer first: {\"undo\": \(position)}, addressed to whoever gave it.",
                param: "original_transaction_id")
        case .sameCustomer:
            self.init(
                .unprocessable, "The two are one customer, by the links in force, so there is nothing to transfer.",
                param: "to")
        case .notTheirs:
            self.init(
                .notFound,
                "No transfer at this position moved anything from or to the customer in this environment, by the links in "
                    + "force. Where whoever gave it was linked to somebody since, address this to whose it is now.",
                param: "undo")
        case .notInForce:
            self.init(
                .ownershipConflict,
                "The transfer at this position is not in force: it was undone, or another came after it. Undo that one "
                    + "first.", param: "undo")
        case .giverForgotten:
            self.init(
                .ownershipConflict,
                "Whoever gave it was forgotten since, so undoing the transfer would take it from the customer and give it to "
                    + "nobody. Transfer it to whoever is to have it.", param: "undo")
        }
    }
}
