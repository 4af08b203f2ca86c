import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// Reads of one customer, or of one purchase.
struct CustomerHandlers: Sendable {
    let context: ServiceContext
    let positions: PositionWatcher
    let longWork: LongWork
    let exports: ExportWork
    /// What looks up orders at the store.
    let checks: StoreChecks
    /// What signs the checkpoint that an export is bound to; without it none is.
    let logKey: LogKey?

    /// `GET /v1/customers/{id}/entitlements`.
    func entitlements(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let environment = try call.environment()
        let asked = try call.instant(.at)
        let knownAt = try call.knownAt()
        if let position = try call.wholeNumber(.minPosition) {
            try await positions.wait(for: position, within: context.limits.positionWait)
        }

        let (facts, position) = try await context.reader.customerFacts(
            customer, environment: environment, knownAt: knownAt, app: call.scope.app)
        // After what was waited for and read: what was recorded by then holds by now.
        let at = asked ?? context.now()
        let entitlements = facts.answers(at: at).map { EntitlementDocument($0) }
        func encode(alsoIn: [StoreEnvironment]) throws -> EncodedEntitlements {
            try EncodedEntitlements(
                EntitlementsDocument(
                    customerID: customer.value, environment: environment, at: at, knownAt: position,
                    entitlements: entitlements, alsoIn: alsoIn), until: at, sha256: context.sha256)
        }
        var answer = try encode(alsoIn: [])
        let headers =
            HTTPResponse.ledgerPosition(position) + [
                ("ETag", answer.tag), ("Cache-Control", EncodedEntitlements.cacheControl.description),
            ]
        if let known = try call.value(of: .ifNoneMatch), EntityTagList(known)?.matchesWeakly(answer.tag) == true {
            return HTTPResponse(status: 304, headers: headers)
        }
        // A key of one environment is not told of others.
        if entitlements.isEmpty, call.scope.environment == nil {
            let others = try await context.reader.otherEnvironments(
                of: customer, than: environment, upTo: position, app: call.scope.app)
            if !others.isEmpty { answer = try encode(alsoIn: others) }
        }
        return .json(
            headers: headers,
            answer.template.filled(EncodedEntitlements.values(at: at.description, position: String(position))))
    }

    /// `GET /v1/customers/{id}/timeline`.
    func timeline(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let environment = try call.environment()
        let wanted = try call.text(.entitlement)
        let (facts, position) = try await context.reader.customerFacts(
            customer, environment: environment, knownAt: try call.knownAt(), app: call.scope.app)
        let timelines = facts.timelines().filter { wanted == nil || $0.entitlementID == wanted }
        return try .document(
            TimelineDocument(
                customerID: customer.value, environment: environment, knownAt: position,
                entitlements: timelines.map { TimelineDocument.Entitlement($0, policy: facts.catalog.policy) }),
            position: position)
    }

    /// `GET /v1/customers?transaction_id`, `?app_account_token`, `?app_transaction_id` or `?order_id`.
    func find(_ call: Call) async throws -> HTTPResponse {
        let lookups: [CustomerLookup?] = [
            try call.text(.transactionID).map { .transactionID($0) },
            try call.text(.appAccountToken).map { .appAccountToken($0) },
            try call.text(.appTransactionID).map { .appTransactionID($0) },
        ]
        let order = try call.text(.orderID)
        var given = lookups.compactMap { $0 }
        guard given.count + (order == nil ? 0 : 1) == 1 else {
            throw Problem(
                .malformedRequest,
                "Give exactly one of transaction_id, app_account_token, app_transaction_id and order_id.")
        }
        if let order { given = try await originals(ofOrder: order, call).sorted().map { .transactionID($0) } }
        let position = try await context.reader.status().position
        var matches: [CustomerMatch] = []
        var hasMore = false
        for lookup in given {
            let found = try await context.reader.customers(lookup, only: call.scope)
            for match in found.matches where !matches.contains(match) { matches.append(match) }
            hasMore = hasMore || found.hasMore
        }
        // There is a limit, and no cursor: whoever has that many purchases is better looked up by one of them.
        return try .document(
            ListDocument(
                items: matches.map {
                    CustomerMatchDocument(
                        customerID: $0.customerID, environment: $0.environment,
                        originalTransactionID: $0.originalTransactionID)
                }, hasMore: hasMore, nextAfter: nil),
            position: position)
    }

    /// What an order of the App Store's is of, by the store's own word.
    private func originals(ofOrder orderID: String, _ call: Call) async throws -> Set<String> {
        // No such order is asked about; a key of the sandbox may not learn of production.
        guard call.scope.environment ?? .production == .production else { return [] }
        do {
            let scope = call.scope.app
            let found = try await within(context.limits.storePatience) { [checks, limits = context.limits] in
                try await checks.originals(ofOrder: orderID, only: scope, within: limits.storePatience)
            }
            guard let found else { throw StoreAPIError(.outOfTime, of: .order, "the store took too long") }
            return found
        } catch let refusal as StoreChecks.Refusal {
            throw Problem(
                .unprocessable, "Order ids are looked up at the store, and \(refusal).", param: Parameter.orderID.name)
        } catch let error as StoreAPIError {
            context.logger.log(.warning, "the store could not be asked", [("error", .string(error.description))])
            throw Problem(error, now: context.now(), recordsAnswers: false)
        }
    }
}
