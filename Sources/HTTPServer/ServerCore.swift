/// What a server was made of: its limits, and who answers.
struct ServerCore: Sendable {
    /// More than any route reads, and few enough to fit the memory of a connection.
    static let maxQueryItems = 100

    let configuration: HTTPServerConfiguration
    /// The largest body for a method and a percent-encoded path, in bytes.
    let bodyLimit: @Sendable (_ method: String, _ path: String) -> Int
    /// Whether the body of a request may come.
    let gate: @Sendable (HTTPRequestHead) -> BodyGate
    /// Whether a peer, by its numeric address, stands for many clients.
    let trusts: @Sendable (_ address: String) -> Bool
    /// Answers requests, on Swift's own threads.
    let handler: @Sendable (HTTPRequest) async -> HTTPResponse
    /// Makes what is offered each request first, before the loop's thread begins; `nil` for nothing.
    let makeImmediateHandler: (@Sendable (LoopWaker) -> any ImmediateHandler)?
    /// Renders what the server answers by itself.
    let refuse: @Sendable (HTTPRefusal, HTTPRequestHead) -> HTTPResponse

    var overloaded: HTTPRefusal { .overloaded(retryAfterSeconds: configuration.retryAfterSeconds) }
    var tooSlow: HTTPRefusal { .tooSlow(retryAfterSeconds: configuration.retryAfterSeconds) }
    var shuttingDown: HTTPRefusal { .shuttingDown(retryAfterSeconds: configuration.retryAfterSeconds) }

    /// The layer above's answer; a client that should try again is told when, whatever that layer forgot.
    func response(to refusal: HTTPRefusal, _ head: HTTPRequestHead) -> HTTPResponse {
        var response = refuse(refusal, head)
        if let seconds = refusal.retryAfterSeconds, response.header("Retry-After") == nil {
            response.headers.append(("Retry-After", String(seconds)))
        }
        return response
    }

    /// Holds a head to the limits of the configuration.
    func examine(targetBytes: Int, headerBytes: Int) throws(HTTPRefusal) {
        guard targetBytes <= configuration.maxTargetBytes else {
            throw .targetTooLong(limit: configuration.maxTargetBytes)
        }
        guard headerBytes <= configuration.maxHeaderBytes else {
            throw .headersTooLarge(limit: configuration.maxHeaderBytes)
        }
    }
}
