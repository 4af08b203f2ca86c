import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension CommandHandlers {
    /// `POST /v1/customers/{id}/actions/preview`: what a grant, its revocation or a link would change; nothing is recorded.
    func preview(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(PreviewRequest.self)
        let environment = try call.environment(named: request.environment)
        let draft: EventDraft? =
            switch try await decide(request.command, about: customer, environment, by: call.actor) {
            case .append(let draft): draft
            // It is so already, and nothing would change.
            case .answer: nil
            }
        var names = [customer.value]
        for name in draft?.identities ?? [] where !names.contains(where: { ExactText($0) == ExactText(name) }) {
            names.append(name)
        }
        if case .link = request.command, let draft {
            names += try await holders(of: draft.identities, environment).filter { holder in
                !names.contains { ExactText($0) == ExactText(holder) }
            }
        }
        return try await foresee(draft, of: names, environment)
    }

    /// What a command would lead to; what is refused of it is named by its place in the body of the preview.
    private func decide(
        _ command: PreviewRequest.Command, about customer: CustomerID, _ environment: StoreEnvironment,
        by actor: String?
    ) async throws -> CommandStep {
        do {
            switch command {
            case .grant(let grant):
                return try await decideGrant(grant, to: customer, environment, by: actor, .unique)
            case .revokeGrant(let revocation):
                return try await decideRevocation(revocation, of: customer, environment, by: actor, .unique)
            case .link(let link):
                return try await decideLink(
                    link.target,
                    LinkCommand(
                        customer: customer, environment: environment, actor: actor, reason: link.reason,
                        deduplication: .unique))
            }
        } catch var problem as Problem {
            problem.param = problem.param.map { "\(command.name).\($0)" }
            throw problem
        }
    }

    /// Whose some identities are by the links in force.
    private func holders(of identities: [String], _ environment: StoreEnvironment) async throws -> [String] {
        let snapshot = try await context.reader.snapshot(LedgerQuestion(of: nil, environment, customers: identities))
        let numbers = identities.compactMap { snapshot.identities[ExactText($0)] }
        return try await context.reader.knownNames(of: Set(numbers.map(snapshot.facts.ownership.customer(of:))))
    }

    /// Everybody whom a command names, as they read without it and with it, as if it were appended next.
    private func foresee(
        _ draft: EventDraft?, of names: [String], _ environment: StoreEnvironment
    ) async throws -> HTTPResponse {
        let snapshot = try await context.reader.snapshot(
            LedgerQuestion(of: nil, environment, numbered: names))
        func number(_ name: String) -> IdentityRef {
            let index = names.firstIndex { ExactText($0) == ExactText(name) } ?? 0
            return snapshot.identities[ExactText(name)] ?? IdentityRef(-Int64(index) - 1)
        }
        let recordedAt = snapshot.nextDate(now: context.now())
        let event = draft.map { draft in
            HistoryEvent(
                position: snapshot.position + 1, recordedAt: recordedAt, environment: environment,
                source: draft.source.rawValue, statementSource: draft.source.statementSource, type: draft.type,
                occurredAt: nil,
                fact: draft.fact.replacingIdentities { number(draft.identities[Int($0.number)]) })
        }
        var histories: [CustomerHistory] = []
        for name in names {
            guard let customer = CustomerID(name) else { throw Problem.forgotten }
            histories.append(
                try await context.reader.history(
                    of: customer, environment: environment, knownAt: .position(snapshot.position)))
        }
        let told = Dictionary((histories.flatMap(\.events) + [event].compactMap(\.self)).map { ($0.position, $0) }) {
            first, _ in first
        }
        let sides = names.map { name in
            let history = CustomerHistory(
                of: number(name), environment: environment, position: snapshot.position + 1,
                events: Array(told.values))
            func answers(_ facts: CustomerFacts) -> [EntitlementDocument] {
                facts.answers(at: recordedAt).map { EntitlementDocument($0) }
            }
            return TransferDocument.Side(
                customerID: name, before: answers(history.facts(before: snapshot.position + 1)),
                after: answers(history.facts()))
        }
        return try .document(
            PreviewDocument(environment: environment, knownAt: snapshot.position, customers: sides),
            position: snapshot.position)
    }
}
