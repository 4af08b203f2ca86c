import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger

extension CommandHandlers {
    /// `POST /v1/customers/{id}/tokens`: what a device may hold in place of a key.
    ///
    /// Under an idempotency key its instants are those of the first request, so that the same token is answered again.
    func makeToken(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        try await context.reader.checkMayName(customer, call.scope, param: nil)
        let request = try call.command(CustomerTokenRequestDocument.self)
        let environment = try call.environment(named: request.environment)
        let seconds = request.expiresIn ?? CustomerTokenRequestDocument.usualLifetime
        let bundleID = call.credential?.onlyBundleID
        var issuedAt = context.now()
        if let command = try context.commandKey(of: call) {
            issuedAt = try await commands.keys.remember(
                key: command.key, requestHash: command.requestHash, about: customer, now: issuedAt
            ).recordedAt
        }
        let token = CustomerTokenClaims(
            customerID: customer, environment: environment, bundleID: bundleID, issuedAt: issuedAt,
            expiresAt: issuedAt.adding(milliseconds: seconds * 1000))
        return try .document(
            CustomerTokenDocument(
                token: try await tokens.make(token), customerID: customer.value, environment: environment,
                expiresAt: token.expiresAt,
                accountToken: try await accountToken(of: customer, environment)),
            headers: [("Cache-Control", "no-store")])
    }

    /// How often it is looked again because somebody else's link came first.
    private static let issuingAttempts = 8

    /// The UUID that a customer's purchases are to bear: their own id, or one that is issued to them the first time it is
    /// asked for, and linked to them by an event.
    private func accountToken(of customer: CustomerID, _ environment: StoreEnvironment) async throws -> String {
        if CustomerID.isUUID(customer.value) { return customer.value }
        for _ in 0..<Self.issuingAttempts {
            let snapshot = try await context.reader.snapshot(
                LedgerQuestion(of: nil, environment, customers: [customer.value]))
            let number = snapshot.number(of: customer, unknownAs: 1)
            if let issued = snapshot.facts.ownership.issuedToken(of: number, links: snapshot.links) {
                if let name = try await context.reader.customerIDs(of: [issued])[issued] { return name }
                continue
            }
            let token = UUID().uuidString.lowercased()
            do {
                _ = try await commands.writer.append(
                    EventDraft(
                        environment: environment, source: .api, occurredAt: nil,
                        fact: .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1), cause: .issued)),
                        identities: [token, customer.value], deduplication: .unique,
                        // Of many at once, on whatever instance, one comes first, and the others find it.
                        unchangedSince: UnchangedSince(snapshot.mark, customers: [customer.value])))
                return token
            } catch AppendRefusal.conflict {
                continue
            }
        }
        throw Problem.unavailable("Others are changing who this customer is at this moment; send it again.")
    }
}
