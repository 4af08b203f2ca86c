import EntitlementAPI
import HTTPServer
import Ledger

extension Application {
    /// `GET /metrics`; it answers when the database is away or hangs, and says so.
    func showMetrics(_ call: Call) async throws -> HTTPResponse {
        let asked = try? await within(limits.metricsWait) { [reader] in try await reader.status().position }
        let head = asked ?? nil
        // Where the log ends now, and not where it ended once: a failover may have lost its end.
        if let head { metrics.noteHead(head, isShorter: true) }
        return HTTPResponse(
            status: 200, headers: [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")],
            body: Array(metrics.text(isDatabaseUp: head != nil).utf8))
    }

    /// `GET /healthz`: the process is there and answers.
    func health(_ call: Call) async throws -> HTTPResponse {
        try .document(HealthDocument(status: "ok"))
    }

    /// `GET /readyz`: the database is up, its schema is this program's, and the log can be read.
    func readiness(_ call: Call) async throws -> HTTPResponse {
        let standing: Readiness.Standing
        do {
            standing = try await readiness.standing()
        } catch {
            var problem = Problem.unavailable("The database cannot be reached at the moment.")
            problem.cause = Problem(error).cause
            throw problem
        }
        guard let standing else {
            throw Problem.unavailable("The database did not answer within \(limits.readinessWait).")
        }
        if let refusal = standing.refusal { throw Problem.unavailable(refusal) }
        return try .document(HealthDocument(status: "ready"), position: standing.position)
    }
}
