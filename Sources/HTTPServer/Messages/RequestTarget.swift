/// A request target, taken apart and percent-decoded.
struct RequestTarget: Sendable {
    let path: String
    let segments: [String]
    let query: [(name: String, value: String)]

    /// Reads origin form (`/a?b`) and absolute form (`http://host/a?b`).
    init(_ target: String) throws(HTTPRefusal) {
        guard target.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .malformed(reason: "the target has characters that must be percent-encoded")
        }
        var rest = target[...]
        if !rest.hasPrefix("/"), let scheme = rest.utf8.firstRange(of: "://".utf8) {
            let authority = rest[scheme.upperBound...]
            rest = authority.firstIndex { $0 == "/" || $0 == "?" }.map { authority[$0...] } ?? ""
            if !rest.hasPrefix("/") { rest = "/" + rest }
        }
        guard rest.hasPrefix("/") else { throw .malformed(reason: "the target is not a path") }

        let queryStart = rest.utf8.firstIndex(of: UInt8(ascii: "?"))
        let path = rest[..<(queryStart ?? rest.endIndex)]
        self.path = String(path)

        var segments: [String] = []
        if path.utf8.count > 1 {
            for segment in path.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
                segments.append(try Self.decode(segment, plusIsSpace: false, part: "path"))
            }
        }
        self.segments = segments

        var query: [(name: String, value: String)] = []
        if let queryStart {
            for item in rest.utf8[queryStart...].dropFirst().split(separator: UInt8(ascii: "&")) {
                let equals = item.firstIndex(of: UInt8(ascii: "=")) ?? item.endIndex
                query.append(
                    (
                        name: try Self.decode(item[..<equals], plusIsSpace: true, part: "query"),
                        value: try Self.decode(item[equals...].dropFirst(), plusIsSpace: true, part: "query")
                    ))
            }
        }
        self.query = query
    }

    /// Undoes percent-encoding; strict, because what is guessed here becomes somebody's identifier.
    private static func decode(
        _ encoded: Substring.UTF8View, plusIsSpace: Bool, part: StaticString
    ) throws(HTTPRefusal) -> String {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(encoded.count)
        var index = encoded.startIndex
        while index < encoded.endIndex {
            let byte = encoded[index]
            index = encoded.index(after: index)
            switch byte {
            case UInt8(ascii: "%"):
                guard let end = encoded.index(index, offsetBy: 2, limitedBy: encoded.endIndex),
                    let high = hexValue(encoded[index]), let low = hexValue(encoded[encoded.index(after: index)])
                else { throw .malformed(reason: "the \(part) has a % without two hexadecimal digits") }
                // No identifier has a NUL in it, and neither C strings nor PostgreSQL text can hold one.
                guard high | low != 0 else { throw .malformed(reason: "the \(part) has an encoded NUL") }
                decoded.append(high << 4 | low)
                index = end
            case UInt8(ascii: "+") where plusIsSpace: decoded.append(UInt8(ascii: " "))
            default: decoded.append(byte)
            }
        }
        guard let text = String(validating: decoded, as: UTF8.self) else {
            throw .malformed(reason: "the \(part) is not UTF-8 once percent-decoded")
        }
        guard StreamSafeText.isSafe(decoded) else { throw .tooManyMarks }
        return text
    }

    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
