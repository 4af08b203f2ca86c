import HTTPServer

/// What is written down of a request: nothing that says whose it is about.
struct ExchangeRecord: Sendable {
    /// Names the request in its answer and in the log.
    let id: String
    let method: String
    /// The route's template, never the path; `none` where there is no route.
    var route = "none"
    var keyID: String?
    /// Whether a command was let in, and so may have been carried out.
    var isCommand = false
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
