/// How far a request and its response have come.
enum ExchangePhase {
    case receivingHead
    /// The head is there, and there is no body.
    case complete(declined: Bool)
    /// The immediate handler declined a request with a body.
    case declined(HTTPRequestHead, RequestTarget)
    /// The immediate handler answers later. The connection is not suspended: libmicrohttpd asks for the answer each
    /// time it runs, which costs less than to suspend and resume.
    case held(FramedRequest?)
    /// The immediate handler has answered; the answer is in `prepared`.
    case prepared
    case receivingBody(HTTPRequestHead, RequestTarget, limit: Int)
    /// The connection is suspended, before the body, until `finishGate` resumes it.
    case gated(Task<Void, Never>, HTTPRequestHead, RequestTarget, limit: Int, MHDConnection)
    /// The gate let the body come. libmicrohttpd now repeats the call in which the connection was suspended.
    case gatePassed(HTTPRequestHead, RequestTarget, limit: Int)
    /// Answered past libmicrohttpd in the middle of a body; whatever else comes ends the connection.
    case cut
    /// Refused, but with nothing unread: answered when libmicrohttpd asks, so that the connection can go on.
    case refused(HTTPRefusal, HTTPRequestHead)
    /// The connection is suspended until `finish` resumes it.
    case handling(Task<Void, Never>, HTTPRequestHead, MHDConnection)
    case handled(HTTPResponse, HTTPRequestHead)
    case ended
}

/// What was read of a request with a body.
struct FramedRequest {
    let head: HTTPRequestHead
    let target: RequestTarget
}
