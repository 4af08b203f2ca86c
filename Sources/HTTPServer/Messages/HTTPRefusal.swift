/// A request that the server answers by itself, without asking the handler.
///
/// What the parser inside libmicrohttpd cannot read at all (no HTTP, a broken chunk, header fields far beyond the
/// limit) it answers with a bare status and never gets here.
package enum HTTPRefusal: Error, Sendable, Hashable {
    /// The request contradicts HTTP, or its target has a bad percent-encoding.
    case malformed(reason: String)
    /// The body is, or says it will be, larger than this many bytes.
    case bodyTooLarge(limit: Int)
    /// The target is longer than this many bytes, or has too many query items to read.
    case targetTooLong(limit: Int)
    /// Request line and header fields are larger than this many bytes.
    case headersTooLarge(limit: Int)
    /// The body comes in another coding than `chunked`.
    case unsupportedTransferCoding
    /// As many requests are being handled, or body bytes held, as may be.
    case overloaded(retryAfterSeconds: Int)
    /// The handler did not finish in time.
    case tooSlow(retryAfterSeconds: Int)
    /// The server stops and the handler did not finish in time.
    case shuttingDown(retryAfterSeconds: Int)
    /// The handler's response cannot be sent; our own fault.
    case unsendableResponse(reason: String)

    /// The status it is answered with.
    package var status: Int {
        switch self {
        case .malformed: 400
        case .bodyTooLarge: 413
        case .targetTooLong: 414
        case .headersTooLarge: 431
        case .unsupportedTransferCoding: 501
        case .overloaded, .tooSlow, .shuttingDown: 503
        case .unsendableResponse: 500
        }
    }

    /// What happened and what to do, as one sentence for the client.
    package var explanation: String {
        switch self {
        case .malformed(let reason): "The request is malformed: \(reason)."
        case .bodyTooLarge(let limit): "The body is larger than the \(limit) bytes allowed here."
        case .targetTooLong(let limit):
            "The request target is longer than \(limit) bytes, or has more than \(ServerCore.maxQueryItems) query items."
        case .headersTooLarge(let limit): "The request line and header fields are larger than \(limit) bytes."
        case .unsupportedTransferCoding: "The only transfer coding understood is chunked."
        case .overloaded(let seconds): "The server is busy; try again in \(seconds) s."
        case .tooSlow(let seconds): "The answer took too long to make; try again in \(seconds) s."
        case .shuttingDown(let seconds): "The server is stopping; try again in \(seconds) s."
        case .unsendableResponse: "The server made a response that it could not send."
        }
    }

    /// Whether it stands in the place of an answer that a handler had begun to make.
    package var isInHandlersPlace: Bool {
        switch self {
        case .tooSlow, .shuttingDown: true
        case .malformed, .bodyTooLarge, .targetTooLong, .headersTooLarge, .unsupportedTransferCoding, .overloaded,
            .unsendableResponse:
            false
        }
    }

    /// What a client is told to wait before it tries again, in seconds; `nil` when trying again would not help.
    package var retryAfterSeconds: Int? {
        switch self {
        case .overloaded(let seconds), .tooSlow(let seconds), .shuttingDown(let seconds): seconds
        default: nil
        }
    }

    /// A plain-text answer, for servers that have no format of their own.
    package var plainResponse: HTTPResponse {
        var response = HTTPResponse.text(status: status, explanation + "\n")
        if let retryAfterSeconds { response.headers.append(("Retry-After", String(retryAfterSeconds))) }
        return response
    }
}
