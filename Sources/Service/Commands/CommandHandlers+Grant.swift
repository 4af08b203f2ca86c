import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger

extension CommandHandlers {
    /// `POST /v1/customers/{id}/actions/grant`.
    func grant(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(GrantRequest.self)
        let environment = try call.environment(named: request.environment)
        let deduplication = try context.deduplication(of: call, about: customer)
        return try await commands.carryOut(call) {
            try await decideGrant(request, to: customer, environment, by: call.actor, deduplication)
        } answer: { position in
            try await grantAnswer(position, unknown: request.unknownMembers)
        }
    }

    /// `POST /v1/customers/{id}/actions/revoke_grant`.
    func revokeGrant(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(RevokeGrantRequest.self)
        let environment = try call.environment(named: request.environment)
        let deduplication = try context.deduplication(of: call, about: customer)
        return try await commands.carryOut(call) {
            try await decideRevocation(request, of: customer, environment, by: call.actor, deduplication)
        } answer: { position in
            try await revocationAnswer(position)
        }
    }

    func decideGrant(
        _ request: GrantRequest, to customer: CustomerID, _ environment: StoreEnvironment, by actor: String?,
        _ deduplication: Deduplication
    ) async throws -> CommandStep {
        let now = context.now()
        if let until = request.until, until <= now {
            throw Problem(.unprocessable, "until lies in the past; nothing would be given.", param: "until")
        }
        let snapshot = try await context.reader.snapshot(LedgerQuestion(of: customer, environment))
        let date = snapshot.nextDate(now: now)
        if let until = request.until, until <= date {
            throw Problem(
                .unprocessable,
                "until lies before \(date), when this grant would begin; nothing would be given. "
                    + Problem.logIsAhead, param: "until")
        }
        guard snapshot.facts.mayBeGranted(at: date) else {
            throw Problem(
                .unprocessable,
                "This customer has \(CustomerFacts.grantLimit) grants in force, which is the most; take some of them back first."
            )
        }
        return .append(
            EventDraft(
                environment: environment, source: .api, occurredAt: nil,
                fact: .grant(
                    GrantFact(
                        grantID: Self.newGrantID(), customer: IdentityRef(0), entitlementID: request.entitlement,
                        until: request.until, reason: request.reason, actor: actor)),
                identities: [customer.value], deduplication: deduplication))
    }

    func decideRevocation(
        _ request: RevokeGrantRequest, of customer: CustomerID, _ environment: StoreEnvironment, by actor: String?,
        _ deduplication: Deduplication
    ) async throws -> CommandStep {
        let snapshot = try await context.reader.snapshot(LedgerQuestion(of: customer, environment))
        let grant: GrantState
        do throws(GrantRefusal) {
            let now = context.now()
            grant = try snapshot.facts.decideRevocation(
                of: request.grantID, now: now, date: snapshot.nextDate(now: now))
        } catch {
            throw Problem(error)
        }
        // Under a key even what was done becomes an event, since the event is what remembers the key.
        if let position = grant.revokedPosition, deduplication == .unique { return .answer(position) }
        // By the name the grant was given to, so that of two revocations at once one sees the other.
        let holder = try await context.reader.knownNames(of: [grant.customer]).first ?? customer.value
        return .append(
            EventDraft(
                environment: environment, source: .api, occurredAt: nil,
                fact: .grantRevocation(
                    GrantRevocationFact(
                        grantID: grant.grantID, customer: IdentityRef(0), reason: request.reason, actor: actor)),
                identities: [holder], deduplication: deduplication,
                unchangedSince: UnchangedSince(snapshot.mark, customers: [holder])))
    }

    /// An id that nobody can guess, and nobody was given before.
    private static func newGrantID() -> String {
        "grant_" + UUID().uuidString.replacing("-", with: "").lowercased()
    }

    private func grantAnswer(_ position: Int64, unknown: [String]) async throws -> HTTPResponse {
        let event = try await context.reader.recordedEvent(at: position)
        guard case .grant(let fact) = event.fact, let environment = event.record.environment else {
            throw LedgerError(.corrupt, "the event at position \(position) is no grant")
        }
        guard let customer = event.customerID else { throw Problem.forgotten }
        // That of then, so that a repetition is answered the same.
        let (catalog, writtenAt, _) = try await context.reader.catalog(knownAt: .position(position))
        let isGivenByNothing =
            writtenAt > 0 && !catalog.products.contains { $0.entitlements.contains(fact.entitlementID) }
        let remarks =
            (isGivenByNothing ? ["unknown_entitlement:\(fact.entitlementID)"] : [])
            + unknown.map { "unknown_member:\($0)" }
        return try .document(
            GrantDocument(
                position: position, environment: environment, grantID: fact.grantID, customerID: customer,
                entitlement: fact.entitlementID, until: fact.until, reason: fact.reason,
                remarks: remarks.isEmpty ? nil : remarks), position: position)
    }

    private func revocationAnswer(_ position: Int64) async throws -> HTTPResponse {
        let event = try await context.reader.recordedEvent(at: position)
        guard case .grantRevocation(let fact) = event.fact, let environment = event.record.environment else {
            throw LedgerError(.corrupt, "the event at position \(position) takes no grant back")
        }
        guard let customer = event.customerID else { throw Problem.forgotten }
        return try .document(
            GrantRevocationDocument(
                position: position, environment: environment, grantID: fact.grantID, customerID: customer,
                reason: fact.reason), position: position)
    }
}

extension Problem {
    fileprivate static let logIsAhead =
        "What is recorded now is dated after the log's last event, and a clock was ahead when that was recorded."

    fileprivate init(_ refusal: GrantRefusal) {
        switch refusal {
        case .unknownGrant:
            self.init(.notFound, "The customer was given no such grant in this environment.", param: "grant_id")
        case .ended(let instant):
            self.init(
                .unprocessable, "The grant ended by itself on \(instant); there is nothing left to take back.",
                param: "grant_id")
        case .endsBefore(let end, let date):
            self.init(
                .unprocessable,
                "The grant ends by itself on \(end), before it could be taken back on \(date). \(Self.logIsAhead)",
                param: "grant_id")
        }
    }
}
