import EntitlementAPI
import HTTPServer
import Ledger

/// What anybody may ask of the service itself: whether it is well, what it counts, how it is spoken to.
struct OperationHandlers: Sendable {
    let context: ServiceContext
    let passKeys: PassKeyRing
    let readiness: Readiness

    /// `GET /metrics`; it answers when the database is away or hangs, and says so.
    func showMetrics(_ call: Call) async throws -> HTTPResponse {
        let asked = try? await within(context.limits.metricsWait) { [reader = context.reader] in
            try await reader.status().position
        }
        let head = asked ?? nil
        // Where the log ends now, and not where it ended once: a failover may have lost its end.
        if let head { context.metrics.noteHead(head, isShorter: true) }
        return HTTPResponse(
            status: 200, headers: [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")],
            body: Array(context.metrics.text(isDatabaseUp: head != nil).utf8))
    }

    /// `GET /healthz`: the process is there and answers.
    func health(_ call: Call) async throws -> HTTPResponse {
        try .document(HealthDocument(status: "ok"))
    }

    /// `GET /readyz`: the database is up, its schema is this program's, the log can be read, and it may be appended to.
    func ready(_ call: Call) async throws -> HTTPResponse {
        let standing: Readiness.Standing
        do {
            standing = try await readiness.standing()
        } catch {
            var problem = Problem.unavailable("The database cannot be reached at the moment.")
            problem.cause = Problem(error).cause
            throw problem
        }
        guard let standing else {
            throw Problem.unavailable("The database did not answer within \(context.limits.readinessWait).")
        }
        if let refusal = standing.refusal { throw Problem.unavailable(refusal) }
        return try .document(HealthDocument(status: "ready"), position: standing.position)
    }
}
