/// What the header fields say of the body, read strictly.
///
/// A proxy in front may read contradicting fields in another way than libmicrohttpd; what one takes for a body the
/// other takes for a request. So contradictions are refused instead of resolved, and so is more than one credential.
struct HTTPFraming {
    /// `nil` when the body comes in chunks.
    let contentLength: Int?
    var hasBody: Bool { contentLength != 0 }

    init(_ head: HTTPRequestHead) throws(HTTPRefusal) {
        for field in head.headers where !Self.isToken(field.name.utf8) {
            throw .malformed(reason: "a header field has a name that HTTP does not allow")
        }
        let credentials = head.headerValues("Authorization")
        guard credentials.dropFirst().allSatisfy({ $0.utf8.elementsEqual(credentials[0].utf8) }) else {
            throw .malformed(reason: "it has Authorization several times, with different values")
        }
        let codings = head.headerValues("Transfer-Encoding")
        let lengths = head.headerValues("Content-Length")
        guard codings.isEmpty else {
            guard lengths.isEmpty else { throw .malformed(reason: "it has both Content-Length and Transfer-Encoding") }
            guard codings.count == 1, isSameFieldName(codings[0], "chunked") else { throw .unsupportedTransferCoding }
            contentLength = nil
            return
        }
        guard let first = lengths.first else {
            contentLength = 0
            return
        }
        guard let length = Int(first), first.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            throw .malformed(reason: "Content-Length is not a number")
        }
        guard lengths.allSatisfy({ $0 == first }) else { throw .malformed(reason: "it has several Content-Lengths") }
        contentLength = length
    }

    /// Whether a field name is one that HTTP allows.
    static func isToken(_ name: some Collection<UInt8>) -> Bool {
        !name.isEmpty && name.allSatisfy { $0 < 0x80 && tokenBytes[Int($0)] }
    }

    /// A field's value without the blanks around it, which are no part of it (RFC 9110, section 5.5).
    ///
    /// libmicrohttpd takes away those before it alone.
    static func trimmed(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var rest = value[...]
        while let first = rest.first, isBlank(first) { rest = rest.dropFirst() }
        while let last = rest.last, isBlank(last) { rest = rest.dropLast() }
        return UnsafeRawBufferPointer(rebasing: rest)
    }

    /// Whether a field of this name bears on where a body begins or ends.
    static func speaksOfBody(_ name: UnsafeRawBufferPointer) -> Bool {
        isSame(name, "content-length") || isSame(name, "transfer-encoding")
    }

    /// Whether a field of this name says who sends the request.
    static func bearsCredential(_ name: UnsafeRawBufferPointer) -> Bool { isSame(name, "authorization") }

    /// Whether two names are the same, whatever their case; both are such as HTTP allows, of letters and hyphens.
    static func isSame(_ name: UnsafeRawBufferPointer, _ other: StaticString) -> Bool {
        name.count == other.utf8CodeUnitCount
            && other.withUTF8Buffer { zip(name, $0).allSatisfy { $0 | 0x20 == $1 | 0x20 } }
    }

    private static let tokenBytes: [Bool] = (UInt8(0)..<0x80).map { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

extension HTTPResponse {
    /// The response as bytes that end the connection, for when libmicrohttpd does not take one any more.
    var serializedAndClosing: [UInt8] {
        var text = "HTTP/1.1 \(status) \(Self.reason(status))\r\nConnection: close\r\nContent-Length: \(body.count)\r\n"
        for (name, value) in headers where !(name + value).utf8.contains(where: { $0 < 0x20 }) {
            text += "\(name): \(value)\r\n"
        }
        return Array((text + "\r\n").utf8) + body
    }

    /// As much of it as is sent before the connection is reset.
    var serializedAndCut: [UInt8] {
        let missing = body.count - (resetsAfter ?? body.count)
        return serializedAndClosing.dropLast(max(0, missing))
    }

    /// The phrase is for people reading along; programs go by the number.
    private static func reason(_ status: Int) -> String {
        switch status {
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 503: "Service Unavailable"
        default: "Refused"
        }
    }
}
