import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StripeAPI

/// What the App Store is asked, or told to do, because somebody sends for it.
struct StoreRequestHandlers: Sendable {
    let context: ServiceContext
    let writer: LedgerWriter
    let commandKeys: CommandKeys
    let statements: StatementVerifier
    let checks: StoreChecks

    /// `POST /v1/subscriptions/{original_transaction_id}/actions/check`: asks the store now.
    ///
    /// Under an idempotency key the first answer is kept, and given again.
    func check(_ call: Call) async throws -> HTTPResponse {
        let id = try call.storeIdentifier(.original)
        let request = try call.command(StoreCheckRequest.self)
        let environment = try call.environment(named: request.environment)
        let app = try call.app(request)
        if let app, let served = statements.environments(of: app), !served.contains(environment) {
            throw Problem(
                .wrongEnvironment, "The app is not configured for \(environment.rawValue).", param: "environment")
        }
        let command = try context.commandKey(of: call)
        if let kept = try await commandKeys.answer(to: command, now: context.now()) {
            return try await answer(kept, call)
        }
        do {
            let scope = call.scope.app
            // An answer that drips may take longer than whoever asks for it would.
            let found = try await within(context.limits.storePatience) { [context, checks] in
                try await checks.check(
                    id, in: environment, app: app, only: scope, reader: context.reader,
                    within: context.limits.storePatience, now: context.now)
            }
            guard let (outcome, finding) = found else {
                throw StoreAPIError(.outOfTime, of: .transactionHistory, "the store took too long")
            }
            context.metrics.count(.storeChecks, ["request", finding.recorded.isEmpty ? "known" : "recorded"])
            if let refusal = finding.refusal {
                context.logger.log(
                    .warning, "statements that the store gave are refused",
                    [("refused", .integer(Int64(finding.refused))), ("reason", .string(refusal))])
            }
            let document = try await outcome.document(from: context.reader, only: scope)
            if command != nil {
                let kept = try await commandKeys.keep(
                    try WireJSON.encode(outcome), for: command,
                    about: document.after.ledger?.periods.last?.customerID.flatMap { CustomerID($0) },
                    now: context.now())
                return try await answer(kept, call)
            }
            return try .document(document, position: outcome.positions.upperBound)
        } catch let refusal as StoreChecks.Refusal {
            let hint =
                refusal == .unknown ? try await context.reader.elsewhere(id, than: environment, .head, call.scope) : ""
            throw Problem(refusal, environment, hint)
        } catch let error as StoreAPIError {
            context.metrics.count(.storeChecks, ["request", "failed"])
            context.logger.log(.warning, "the store could not be asked", [("error", .string(error.description))])
            throw Problem(error, now: context.now())
        } catch let error as StripeAPIError {
            context.metrics.count(.storeChecks, ["request", "failed"])
            context.logger.log(.warning, "Stripe could not be asked", [("error", .string(error.description))])
            throw Problem(check: error, now: context.now())
        }
    }

    /// The answer to a check, told from what is kept of it.
    private func answer(_ kept: [UInt8], _ call: Call) async throws -> HTTPResponse {
        let outcome = try WireJSON.decode(CheckOutcome.self, from: kept)
        return try .document(
            try await outcome.document(from: context.reader, only: call.scope.app),
            position: outcome.positions.upperBound)
    }
}

extension Call {
    /// The app that the body names, which must be the credential's own where that is bound to one.
    fileprivate func app(_ request: StoreCheckRequest) throws(Problem) -> String? {
        guard let app = request.app else { return nil }
        if let only = credential?.onlyBundleID, !only.utf8.elementsEqual(app.utf8) {
            throw Problem(.forbidden, "This credential is for another app.", param: "app")
        }
        return app
    }
}

extension Problem {
    /// - Parameter hint: where else it is known.
    fileprivate init(_ refusal: StoreChecks.Refusal, _ environment: StoreEnvironment, _ hint: String) {
        switch refusal {
        case .unknown:
            self.init(
                .notFound,
                "Neither the ledger nor the store knows this original transaction in \(environment.rawValue).\(hint)",
                param: "original_transaction_id")
        case .withoutStripe:
            self.init(
                .unprocessable,
                "It was bought on the web, and no account of Stripe's is configured for \(environment.rawValue).",
                param: "original_transaction_id")
        case .ambiguous:
            self.init(
                .malformedRequest,
                "The ledger does not know this transaction, and there are several apps: name the app by its bundle id.",
                param: "app")
        case .unconfigured:
            self.init(
                .unprocessable,
                "The app has no app_store_api in this service's configuration, so the store cannot be asked.",
                param: "app")
        }
    }

    /// Why the store could not be asked: never the client's fault.
    private enum Hindrance {
        case limited(until: Timestamp?)
        case unauthorized
        case other
    }

    /// - Parameter recordsAnswers: whether what the store says is recorded.
    init(_ error: StoreAPIError, now: Timestamp, recordsAnswers: Bool = true) {
        let hindrance: Hindrance =
            switch error.kind {
            case .limited(let until): .limited(until: until)
            case .unauthorized: .unauthorized
            case .notFound, .refused, .unavailable, .unreadable, .outOfTime: .other
            }
        self.init(hindrance, error.description, now: now, recordsAnswers: recordsAnswers)
    }

    fileprivate init(check error: StripeAPIError, now: Timestamp) {
        let hindrance: Hindrance =
            switch error.kind {
            case .limited(let until): .limited(until: until)
            case .unauthorized, .forbidden: .unauthorized
            case .notFound, .refused, .unavailable, .unreadable, .outOfTime: .other
            }
        self.init(hindrance, error.description, now: now)
    }

    private init(_ hindrance: Hindrance, _ cause: String, now: Timestamp, recordsAnswers: Bool = true) {
        var seconds: Int64 = 30
        let detail: String
        switch hindrance {
        case .limited(let until):
            detail = "The store takes no more requests at the moment, or this service's share of them is used up."
            if let until { seconds = max(1, min(3600, (until.milliseconds - now.milliseconds) / 1000 + 1)) }
        case .unauthorized:
            detail = "The store does not accept this service's credentials; `rightful status` and the log say more."
        case .other:
            detail =
                recordsAnswers
                ? "The store could not be asked to the end; what it had said by then is recorded."
                : "The store could not be asked; send it again."
        }
        self.init(.unavailable, detail, headers: [("Retry-After", String(seconds))])
        self.cause = cause
    }
}
