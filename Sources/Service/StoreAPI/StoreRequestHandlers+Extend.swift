import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension StoreRequestHandlers {
    /// `POST /v1/subscriptions/{original_transaction_id}/actions/extend`: asks the store to move a renewal date.
    ///
    /// Under an idempotency key the first answer is kept, and given again. What nobody could keep, as the service ended before,
    /// is in the log.
    func extend(_ call: Call) async throws -> HTTPResponse {
        let original = try call.storeIdentifier(.original)
        let request = try call.command(ExtensionRequest.self)
        let environment = try call.environment(named: request.environment)
        let command = try context.commandKey(of: call)
        do {
            if let kept = try await commandKeys.answer(to: command, now: context.now()) {
                var document = try WireJSON.decode(ExtensionDocument.self, from: kept)
                document.customerID = try await StoreExtension.Subject(
                    original, environment, context.reader, only: call.scope.app, before: document.position
                ).customerID
                return try .document(document)
            }
            let known = try await StoreExtension.Subject(original, environment, context.reader, only: call.scope.app)
            if request.isDryRun {
                var document = ExtensionDocument(known, request, now: context.now())
                if (try? checks.check(of: known.app)) == nil {
                    document.doubts.append(
                        "this service has no app_store_api for the app, so the store cannot be asked")
                }
                return try .document(document, position: known.position)
            }
            let extending = StoreExtension(
                check: try checks.check(of: known.app), writer: writer, reader: context.reader, source: .api)
            let order = StoreRequestOrder(actor: call.actor ?? "", reason: request.reason)
            let outcome = try await extending.send(
                known, days: request.days, reason: request.reasonCode, order: order, again: request.again,
                command: try context.deduplication(of: call, about: known.customer),
                first: try await commandKeys.position(of: command, now: context.now()),
                within: context.limits.storePatience / 2, now: context.now())
            // Sent again, it is answered as it would have been then, and not as the store's answer has changed it.
            let before =
                outcome.isRepetition
                ? try await StoreExtension.Subject(
                    original, environment, context.reader, only: call.scope.app, before: outcome.keyed) : known
            var document = ExtensionDocument(before, request, now: outcome.askedAt)
            document.position = outcome.position
            document.settledPosition = outcome.settled
            document.extendedUntil = outcome.until
            // Before anything else is asked of the store, which may take seconds.
            if command != nil {
                document.customerID = nil
                let kept = try await commandKeys.keep(
                    try WireJSON.encode(document), for: command, about: known.customer,
                    now: context.now())
                document = try WireJSON.decode(ExtensionDocument.self, from: kept)
                document.customerID = before.customerID
            }
            do {
                _ = try await extending.confirm(known, within: context.limits.storePatience / 2)
            } catch let error as StoreAPIError {
                // The store's notification says the same.
                context.logger.log(
                    .info, "the store was not asked how an extended subscription stands",
                    [("error", .string(error.description))])
            }
            return try .document(document, position: try await context.reader.status().position)
        } catch let refusal as StoreExtensionRefusal {
            throw Problem(refusal)
        } catch is StoreChecks.Refusal {
            throw Problem(
                .unprocessable,
                "The app has no app_store_api in this service's configuration, so the store cannot be asked.")
        }
    }
}

extension StoreExtension.Subject {
    fileprivate var customer: CustomerID? { customerID.flatMap { CustomerID($0) } }
}

extension ExtensionDocument {
    fileprivate init(_ known: StoreExtension.Subject, _ request: ExtensionRequest, now: Timestamp) {
        self.init(
            originalTransactionID: known.original, app: known.app, environment: known.environment,
            productID: known.productID, customerID: known.customerID, days: request.days,
            reasonCode: request.reasonCode, expiresAt: known.expiry,
            wouldExpireAt: known.expiry.adding(milliseconds: request.days * Timestamp.millisecondsPerDay),
            extendedWithinYear: known.extensionsWithinYear(now: now),
            doubts: known.doubts(again: request.again, now: now),
            unsettled: known.dialogue.openExtension?.position)
    }
}

extension Problem {
    fileprivate init(_ refusal: StoreExtensionRefusal) {
        let text = refusal.description.prefix(1).uppercased() + refusal.description.dropFirst() + "."
        switch refusal.kind {
        case .unknown: self.init(.notFound, text, param: "original_transaction_id")
        case .unprocessable, .overtaken, .refused: self.init(.unprocessable, text)
        case .unanswered: self = .unavailable(text)
        }
    }
}
