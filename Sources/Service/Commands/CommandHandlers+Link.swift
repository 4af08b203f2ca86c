import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension CommandHandlers {
    /// `POST /v1/customers/{id}/actions/link`.
    func link(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(LinkRequest.self)
        let command = LinkCommand(
            customer: customer, environment: try call.environment(named: request.environment), actor: call.actor,
            reason: request.reason, deduplication: try context.deduplication(of: call, about: customer))
        return try await commands.carryOut(call) {
            try await decideLink(request.target, command)
        } answer: { position in
            try await linkAnswer(position, remarks: Self.remarks(request.target))
        }
    }

    func decideLink(_ target: LinkRequest.Target, _ command: LinkCommand) async throws -> CommandStep {
        switch target {
        case .undo(let position): try await undoLink(at: position, command)
        case .accountToken(let linked), .appTransaction(let linked), .customer(let linked):
            try await link(linked, command)
        }
    }

    /// What may be a slip: the store's statements bear UUIDs and numbers alone, so anything else is never met there.
    private static func remarks(_ target: LinkRequest.Target) -> [String] {
        switch target {
        case .accountToken(let token) where !CustomerID.isUUID(token.value): return ["not_a_uuid:\(token.value)"]
        case .appTransaction(let transaction):
            let id = transaction.appTransactionID ?? ""
            let isNumber = id.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
            return isNumber ? [] : ["not_a_number:\(id)"]
        case .undo, .accountToken, .customer: return []
        }
    }

    private func link(_ linked: CustomerID, _ command: LinkCommand) async throws -> CommandStep {
        let snapshot = try await context.reader.snapshot(
            LedgerQuestion(of: command.customer, command.environment, customers: [linked.value]))
        let map = snapshot.facts.ownership
        let fact = LinkFact(
            identity: snapshot.number(of: linked, unknownAs: 1),
            customer: snapshot.number(of: command.customer, unknownAs: linked == command.customer ? 1 : 2))
        let decision: LinkDecision
        do throws(LinkRefusal) {
            decision = try map.decide(fact)
        } catch {
            throw Problem(error)
        }
        // Under a key even what holds already becomes an event, since the event is what remembers the key. So does what holds by
        // a login with a token of one app: made by a command, the link is good for every app.
        if case .standing(let position) = decision, command.deduplication == .unique,
            snapshot.links.first(where: { $0.position == position })?.fact.cause != .appLogin
        {
            return .answer(position)
        }
        let others = try await context.reader.knownNames(of: Set(map.path(of: fact.customer)))
        return .append(
            command.draft(linked.value, to: command.customer.value, restingOn: others, asOf: snapshot.mark))
    }

    private func undoLink(at position: Int64, _ command: LinkCommand) async throws -> CommandStep {
        guard let event = try await context.reader.event(at: position)?.event, case .link(let fact) = event.fact,
            event.record.environment == command.environment
        else { throw Problem(LinkRefusal.notTheirs) }
        let linked = try await context.reader.names(of: [fact.identity])[0]
        let snapshot = try await context.reader.snapshot(
            LedgerQuestion(of: command.customer, command.environment, customers: [linked]))
        let (before, _) = try await ownership(of: linked, around: position, in: command.environment)
        let restored: LinkFact
        do throws(LinkRefusal) {
            restored = try snapshot.facts.ownership.decideUndo(
                of: fact, at: position, for: snapshot.number(of: command.customer, unknownAs: 1), before: before,
                links: snapshot.links)
        } catch {
            throw Problem(error)
        }
        let path = snapshot.facts.ownership.path(of: restored.customer)
        return .append(
            command.draft(
                linked, to: try await context.reader.names(of: [restored.customer])[0], cause: restored.cause,
                restingOn: try await context.reader.knownNames(of: Set(path)), asOf: snapshot.mark))
    }

    /// Answers from the log, as of the link's position.
    private func linkAnswer(_ position: Int64, remarks: [String]) async throws -> HTTPResponse {
        let event = try await context.reader.recordedEvent(at: position)
        guard case .link(let fact) = event.fact, let environment = event.record.environment else {
            throw LedgerError(.corrupt, "the event at position \(position) is no link")
        }
        guard let linked = event.customerID else { throw Problem.forgotten }
        let (before, after) = try await ownership(of: linked, around: position, in: environment)
        let (old, new) = (before.customer(of: fact.identity), after.customer(of: fact.identity))
        let names = try await context.reader.names(of: [old, new])
        return try .document(
            LinkDocument(
                position: position, environment: environment, customerID: names[1], linked: linked,
                untilNow: old == fact.identity || old == new ? nil : names[0],
                remarks: remarks.isEmpty ? nil : remarks), position: position)
    }

    /// The links about somebody before the event at a position, and with it.
    private func ownership(
        of customer: String, around position: Int64, in environment: StoreEnvironment
    ) async throws -> (before: OwnershipMap, after: OwnershipMap) {
        guard let customer = CustomerID(customer) else { throw Problem.forgotten }
        let history = try await context.reader.history(
            of: customer, environment: environment, knownAt: .position(position))
        return (history.facts(before: position).ownership, history.facts().ownership)
    }
}

/// A link as it was asked for.
struct LinkCommand: Sendable {
    let customer: CustomerID
    let environment: StoreEnvironment
    /// The name of the key by which it is asked for; `import` for a list of an operator's.
    let actor: String?
    let reason: String?
    let deduplication: Deduplication
    var source = EventSource.api

    /// - Parameter others: whose links the decision rests on beside those of the two.
    func draft(
        _ linked: String, to customer: String, cause: LinkCause = .command, restingOn others: [String],
        asOf mark: EventMark
    ) -> EventDraft {
        let isOwn = ExactText(linked) == ExactText(customer)
        return EventDraft(
            environment: environment, source: source, occurredAt: nil,
            fact: .link(
                LinkFact(
                    identity: IdentityRef(0), customer: IdentityRef(isOwn ? 0 : 1), cause: cause, actor: actor,
                    reason: reason)),
            identities: isOwn ? [linked] : [linked, customer], deduplication: deduplication,
            unchangedSince: UnchangedSince(mark, customers: [linked, customer] + others))
    }
}

extension Problem {
    fileprivate init(_ refusal: LinkRefusal) {
        switch refusal {
        case .notLinked:
            self.init(
                .unprocessable,
                "This id is not linked to anybody: a link to itself takes back the link before, and there is none.")
        case .closesCircle(let positions):
            let list = positions.map(String.init).joined(separator: ", ")
            let word = positions.count == 1 ? "the link at position" : "the links at positions"
            self.init(
                .ownershipConflict,
                "It is the other way round already: by \(word) \(list), what is the customer's in the path belongs to "
                    + "the one to be linked. Linking back would close a circle; undo that first.")
        case .notTheirs:
            self.init(.notFound, "No link at this position names the customer in this environment.", param: "undo")
        case .notInForce:
            self.init(
                .ownershipConflict,
                "The link at this position is not in force: it was undone, or another took its place. Undo that one, "
                    + "link anew, or link the id to itself, so that it is nobody's alias.", param: "undo")
        }
    }
}
