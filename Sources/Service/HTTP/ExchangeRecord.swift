import EntitlementCore
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
        id = "req_" + Hexadecimal.text(UInt64.random(in: .min ... .max), digits: 16)
    }

    private static let knownMethods: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
}
