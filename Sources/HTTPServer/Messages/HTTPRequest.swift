/// What is known of a request before its body.
package struct HTTPRequestHead: Sendable {
    /// As sent, except that `HEAD` reads `GET`; empty when a request was refused at its request line.
    package var method: String
    /// Whether the client asked for the header fields alone; the server then leaves out the body by itself.
    package var isHead: Bool
    /// Path and query as sent, percent-encoded.
    package var target: String
    /// Field names and values, in the order sent, every value kept.
    package var headers: [(name: String, value: String)]
    /// The peer's numeric IP address; an IPv4 peer reads as IPv4 on a socket for both.
    package var remoteAddress: String
    /// When the request line had been read.
    package var receivedAt: ContinuousClock.Instant
    /// Taken by whoever answers; shared by all copies of the head.
    package let claim = AnswerClaim()

    /// Creates a head of its parts; `HEAD` is turned into `GET`.
    package init(
        method: String, target: String, headers: [(name: String, value: String)] = [],
        remoteAddress: String = "127.0.0.1", receivedAt: ContinuousClock.Instant = .now
    ) {
        self.isHead = method == "HEAD"
        self.method = isHead ? "GET" : method
        self.target = target
        self.headers = headers
        self.remoteAddress = remoteAddress
        self.receivedAt = receivedAt
    }

    /// The target up to its query, percent-encoded.
    package var path: String {
        String(target[..<(target.utf8.firstIndex(of: UInt8(ascii: "?")) ?? target.endIndex)])
    }

    /// The first value of a header field, whatever the case of its name.
    package func header(_ name: String) -> String? {
        headers.first { isSameFieldName($0.name, name) }?.value
    }

    /// Every value of a header field, whatever the case of its name, in the order sent.
    package func headerValues(_ name: String) -> [String] {
        headers.filter { isSameFieldName($0.name, name) }.map(\.value)
    }

    /// The whole list of a header field that is one, though it may stand on several lines (RFC 9110, section 5.3).
    package func headerList(_ name: String) -> String? {
        let lines = headerValues(name)
        return lines.isEmpty ? nil : lines.joined(separator: ", ")
    }
}

/// A whole request: head, decoded target and body.
package struct HTTPRequest: Sendable {
    /// Everything before the body.
    package let head: HTTPRequestHead
    /// The path as sent, percent-encoded, without the query.
    package let path: String
    /// The path's segments, each percent-decoded; `/` has none, and a trailing slash makes an empty last one.
    ///
    /// A segment may hold a decoded slash; `.` and `..` mean nothing here and stay as they are.
    package let pathSegments: [String]
    /// The query's items in the order sent, percent-decoded, `+` read as a space; an item without `=` has value "".
    package let query: [(name: String, value: String)]
    /// The body, with any chunking undone.
    package let body: [UInt8]

    /// As sent, except that `HEAD` reads `GET`.
    package var method: String { head.method }
    /// Path and query as sent, percent-encoded.
    package var target: String { head.target }
    /// Field names and values, in the order sent.
    package var headers: [(name: String, value: String)] { head.headers }
    /// The peer's numeric IP address.
    package var remoteAddress: String { head.remoteAddress }
    /// When the request line had been read.
    package var receivedAt: ContinuousClock.Instant { head.receivedAt }

    /// Reads the target of a head and joins it with a body, so that handlers can be called without a socket.
    ///
    /// - Throws: `.malformed` when the target is no path or is badly percent-encoded.
    package init(head: HTTPRequestHead, body: [UInt8] = []) throws(HTTPRefusal) {
        self.init(head: head, target: try RequestTarget(head.target), body: body)
    }

    init(head: HTTPRequestHead, target: RequestTarget, body: [UInt8]) {
        self.head = head
        self.path = target.path
        self.pathSegments = target.segments
        self.query = target.query
        self.body = body
    }

    /// The first value of a header field, whatever the case of its name.
    package func header(_ name: String) -> String? { head.header(name) }

    /// Every value of a header field, whatever the case of its name, in the order sent.
    package func headerValues(_ name: String) -> [String] { head.headerValues(name) }

    /// The whole list of a header field that is one, though it may stand on several lines (RFC 9110, section 5.3).
    package func headerList(_ name: String) -> String? { head.headerList(name) }

    /// The first value of a query item with exactly this name.
    package func queryValue(_ name: String) -> String? { query.first { $0.name == name }?.value }
}
