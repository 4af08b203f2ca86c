private import CLibPQ

/// Looking at what names a server before it is connected to.
extension ConnectionHandle {
    /// Refuses what cannot be read, without libpq's message: it quotes the text, password included.
    static func check(_ conninfo: String) throws(PostgresError) {
        let unreadable = PostgresError(
            kind: .connection,
            message: "the database URL cannot be read; expected postgresql://user:password@host:port/database, with "
                + "reserved characters percent-encoded, or keyword=value pairs")
        var message: UnsafeMutablePointer<CChar>?
        guard let parsed = PQconninfoParse(conninfo, &message) else {
            defer { PQfreemem(message) }
            guard let name = message.flatMap({ unknownParameter(in: conninfo, by: String(cString: $0)) }) else {
                throw unreadable
            }
            let version = "\(PQlibVersion() / 10_000).\(PQlibVersion() % 10_000)"
            throw PostgresError(
                kind: .connection,
                message:
                    "the database URL has a parameter that the libpq of this machine (\(version)) does not know: \(name)"
            )
        }
        defer { PQconninfoFree(parsed) }
        var option = parsed
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val {
                // A password with a bare '@' or '/' ends up in the host or port, which error messages quote.
                let value = String(cString: value)
                switch String(cString: keyword) {
                case "host" where value.contains("@"): throw unreadable
                case "port" where value.contains { !$0.isNumber && $0 != "," }: throw unreadable
                default: break
                }
            }
            option += 1
        }
    }

    /// The parameter that libpq complains of because it knows none of that name; `nil` where it complains of something else, or
    /// where what it took for a name may be a piece of a password.
    ///
    /// A password with a bare `/`, `&` or space is split by libpq, and its rest looks like a parameter. What comes after it then
    /// still has the `@` before the host, or what comes before it names the password.
    static func unknownParameter(in conninfo: String, by complaint: String) -> String? {
        guard let opening = complaint.firstIndex(of: "\""), let closing = complaint.lastIndex(of: "\""),
            opening < closing
        else { return nil }
        let name = complaint[complaint.index(after: opening)..<closing]
        let isName = name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        guard !name.isEmpty, name.utf8.count <= 63, isName,
            let place = conninfo.ranges(of: name).first(where: { isKeyword($0, of: conninfo) }),
            !conninfo[place.upperBound...].contains("@"),
            !conninfo[..<place.lowerBound].lowercased().contains(/password\s*=/)
        else { return nil }
        return String(name)
    }

    /// Whether what stands there has a value, and nothing before it that would make it the end of another word.
    private static func isKeyword(_ place: Range<String.Index>, of conninfo: String) -> Bool {
        let isBegun = conninfo[..<place.lowerBound].last.map { "?& ".contains($0) } ?? true
        return isBegun && conninfo[place.upperBound...].drop(while: \.isWhitespace).first == "="
    }
}
