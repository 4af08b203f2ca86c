/// An answer to a request.
///
/// The server itself adds `Content-Length`, where it applies `Connection`, and `Date` unless there is one. A header field
/// with an empty value is left out; a field name or value that HTTP does not allow makes the whole answer a 500.
package struct HTTPResponse: Sendable {
    /// From 200 to 599.
    package var status: Int
    /// Field names and values, in the order they are sent.
    package var headers: [(String, String)]
    /// Not sent in answer to `HEAD`, nor with a 204 or 304.
    ///
    /// Its length is still told, except with a 204; so a 304 should be given the body that the 200 would have.
    package var body: [UInt8]
    /// Of the body only so many bytes are sent, and then the connection is reset; `nil` for all of it.
    ///
    /// For servers that stand in for failing ones.
    package var resetsAfter: Int?

    /// Creates a response of its parts.
    package init(status: Int, headers: [(String, String)] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Text in UTF-8.
    package static func text(status: Int = 200, _ text: String) -> HTTPResponse {
        HTTPResponse(status: status, headers: [("Content-Type", "text/plain; charset=utf-8")], body: Array(text.utf8))
    }

    /// JSON, already encoded.
    package static func json(
        status: Int = 200, headers: [(String, String)] = [], _ body: [UInt8], contentType: String = "application/json"
    ) -> HTTPResponse {
        HTTPResponse(status: status, headers: [("Content-Type", contentType)] + headers, body: body)
    }

    /// The first value of a header field, whatever the case of its name.
    package func header(_ name: String) -> String? {
        headers.first { isSameFieldName($0.0, name) }?.1
    }
}

/// Whether two header field names are the same, as HTTP compares them: ASCII letters in either case.
func isSameFieldName(_ left: String, _ right: String) -> Bool {
    func lowercased(_ byte: UInt8) -> UInt8 { byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte }
    return left.utf8.count == right.utf8.count
        && zip(left.utf8, right.utf8).allSatisfy { lowercased($0) == lowercased($1) }
}
