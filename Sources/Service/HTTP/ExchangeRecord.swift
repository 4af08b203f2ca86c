import HTTPServer

/// What is written down of a request: nothing that says whose it is about.
struct ExchangeRecord: Sendable {
    /// Names the request in its answer and in the log.
    let id: String
    let method: String
    /// The route's template, never the path; `none` where there is no route.
    var route = "none"
    var keyID: String?
    /// How a refusal is written.
    let refusal: RefusalShape
    let receivedAt: ContinuousClock.Instant

    init(_ head: HTTPRequestHead) {
        method = Self.knownMethods.contains(head.method) ? head.method : "other"
        receivedAt = head.receivedAt
        refusal = RefusalShape(path: head.path)
        let random = UInt64.random(in: .min ... .max)
        let digits = String(random, radix: 16)
        id = "req_" + String(repeating: "0", count: 16 - digits.count) + digits
    }

    private static let knownMethods: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
}

extension Application {
    func finish(
        _ exchange: ExchangeRecord, _ problem: Problem, claiming claim: AnswerClaim? = nil
    ) -> HTTPResponse {
        finish(
            exchange, exchange.refusal.response(to: problem, requestID: exchange.id), problem, claiming: claim)
    }

    /// Names, counts, measures and logs an exchange.
    ///
    /// - Parameter claim: what is to be claimed before: where the server has answered already in the caller's place, nothing is
    ///   written down, and the response is lost. `nil`: nobody else answers.
    func finish(
        _ exchange: ExchangeRecord, _ response: HTTPResponse, _ problem: Problem? = nil,
        claiming claim: AnswerClaim? = nil
    ) -> HTTPResponse {
        if let claim, !claim.take() { return response }
        var response = response
        response.headers.append(("X-Request-Id", exchange.id))
        // A session's cookie, unlike `Authorization`, forbids no cache by itself to keep what was answered to it.
        if response.header("Cache-Control") == nil { response.headers.append(("Cache-Control", "no-store")) }
        let duration = exchange.receivedAt.duration(to: .now)
        metrics.count(.requests, [exchange.route, String(response.status)])
        metrics.observe(.requestDuration, [exchange.route], duration / .seconds(1))

        var fields: [(name: String, value: LogValue)] = [
            ("request_id", .string(exchange.id)), ("method", .string(exchange.method)),
            ("route", .string(exchange.route)), ("status", .integer(Int64(response.status))),
            ("duration_ms", .number((duration / .microseconds(1)).rounded() / 1000)),
        ]
        if let keyID = exchange.keyID { fields.append(("key_id", .string(keyID))) }
        if let problem {
            fields.append(("code", .string(problem.code.rawValue)))
            if let cause = problem.cause { fields.append(("cause", .string(cause))) }
        }
        logger.log(Self.level(of: response.status, route: exchange.route), "request", fields)
        return response
    }

    private static func level(of status: Int, route: String) -> LogLevel {
        if status >= 500 { return .error }
        if status >= 400 { return .warning }
        // Probes ask every few seconds, and only a change of their answer is news.
        return ["/healthz", "/readyz"].contains(route) ? .debug : .info
    }
}
