private import CLibPQ

/// Sole owner of a PGconn: made connected, finished when it goes out of existence.
struct ConnectionHandle: ~Copyable {
    let pointer: OpaquePointer

    deinit { PQfinish(pointer) }

    /// Connects, blocking for at most the connect timeout per address.
    init(conninfo: String, options: ConnectionOptions) throws(PostgresError) {
        try Self.check(conninfo)
        // `dbname` is expanded where it stands: what the URL says holds over what comes before it.
        let settings = [
            ("application_name", options.applicationName),
            ("connect_timeout", String(options.connectPatienceSeconds)),
            // A host that vanished is noticed within a minute, waiting or sending.
            ("keepalives_idle", "30"),
            ("keepalives_interval", "10"),
            ("keepalives_count", "3"),
            ("tcp_user_timeout", "60000"),
            ("dbname", conninfo),
            ("client_encoding", "UTF8"),
        ]
        guard let pointer = Self.connect(settings) else {
            throw PostgresError(kind: .connection, message: "no memory for a connection")
        }
        guard PQstatus(pointer) == CONNECTION_OK else {
            let error = PostgresError(connection: pointer, fallback: "no connection")
            PQfinish(pointer)
            throw error
        }
        // The default processor writes notices to standard error.
        _ = PQsetNoticeProcessor(pointer, { _, _ in }, nil)
        // So that nothing blocks but what waits with a deadline, closing included.
        guard PQsetnonblocking(pointer, 1) == 0 else {
            let error = PostgresError(connection: pointer, fallback: "no connection that does not block")
            PQfinish(pointer)
            throw error
        }
        self.pointer = pointer
    }

    private static func connect(_ settings: [(String, String)]) -> OpaquePointer? {
        passing(settings) { PQconnectdbParams($0, $1, 1) }
    }

    /// Whether the server says that it takes no connections for now (57P03), blocking as long as connecting does.
    static func isRefusedForNow(conninfo: String, options: ConnectionOptions) throws(PostgresError) -> Bool {
        try check(conninfo)
        let settings = [("connect_timeout", String(options.connectPatienceSeconds)), ("dbname", conninfo)]
        return passing(settings) { PQpingParams($0, $1, 1) } == PQPING_REJECT
    }

    /// Gives libpq keywords and their values, each list with a null pointer at its end.
    private static func passing<Value>(
        _ settings: [(String, String)], to call: ([UnsafePointer<CChar>?], [UnsafePointer<CChar>?]) -> Value
    ) -> Value {
        func withCStrings(
            _ rest: ArraySlice<String>, _ done: [UnsafePointer<CChar>?], _ body: ([UnsafePointer<CChar>?]) -> Value
        ) -> Value {
            guard let first = rest.first else { return body(done + [nil]) }
            return first.withCString { withCStrings(rest.dropFirst(), done + [$0], body) }
        }
        return withCStrings(settings.map(\.0)[...], []) { keywords in
            withCStrings(settings.map(\.1)[...], []) { values in call(keywords, values) }
        }
    }
}

extension PostgresError {
    /// The connection's own last error.
    init(connection: OpaquePointer, fallback: String, statement: String? = nil) {
        let text = PQerrorMessage(connection).map { String(cString: $0) } ?? ""
        self.init(
            kind: .connection, message: Self.oneLine(text.isEmpty ? fallback : text), statement: statement)
    }

    /// The server's error in a result.
    init(result: OpaquePointer, statement: String?) {
        func field(_ code: Character) -> String? {
            code.asciiValue.flatMap { PQresultErrorField(result, Int32($0)) }.map { String(cString: $0) }
        }
        // PG_DIAG_*: C SQLSTATE, M primary message, D detail, H hint, R the server's function that reports it.
        let sqlState = field("C")
        let message = field("M") ?? PQresultErrorMessage(result).map { String(cString: $0) } ?? ""
        let detail = [field("D"), field("H")].compactMap { $0 }.joined(separator: " ")
        var kind = sqlState.map(Kind.init(sqlState:)) ?? .connection
        // feature_not_supported is also how the server says that a cached plan's columns have changed, in the language of its
        // messages; the name of the function is never translated.
        if sqlState == "0A000", field("R") == "RevalidateCachedQuery" { kind = .stalePlan }
        // program_limit_exceeded is mostly about what was asked for, and also what the server says that has no number left for a
        // transaction.
        if sqlState == "54000", ["GetNewTransactionId", "GetNewMultiXactId"].contains(field("R")) {
            kind = .outOfService
        }
        self.init(
            kind: kind, sqlState: sqlState, message: Self.oneLine(message), detail: detail.isEmpty ? nil : detail,
            statement: statement)
    }

    private static func oneLine(_ text: String) -> String {
        text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}
