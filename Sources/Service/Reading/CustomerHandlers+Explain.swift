import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension CustomerHandlers {
    /// How many events a history has at most that is explained at once, in a few milliseconds.
    private static let shortHistory = 500

    /// `GET /v1/customers/{id}/explain`.
    ///
    /// A long history takes seconds to explain, which is done on a thread of its own.
    func explain(_ call: Call) async throws -> HTTPResponse {
        let asked = try call.instant(.at)
        var question = ExplainQuestion(
            customer: try call.customerID(), environment: try call.environment(),
            entitlementID: try call.text(.entitlement), at: asked ?? context.now())
        // A key of one environment is not told of others.
        let (history, others) = try await question.histories(
            from: context.reader, knownAt: try call.knownAt(), only: call.scope)
        // What was recorded by then holds by now.
        if asked == nil { question.at = context.now() }
        let answer: @Sendable (() throws -> Void) throws -> HTTPResponse = { [question] check in
            let document = try question.answer(from: history, isKnown: { others.contains($0) }, check: check).document
            return try .document(document, position: document.knownAt)
        }
        if history.events.count <= Self.shortHistory { return try answer {} }
        return try await longWork.run { wish in try answer(wish.check) }
    }
}
