private import CLibPQ

/// Rows for `COPY … FROM STDIN (FORMAT binary)`, in one piece of memory.
///
/// Each row's fields are appended in the order of the columns; the count of fields is the same for all rows.
package struct CopyRows: Sendable {
    private(set) var bytes: [UInt8]
    private let columns: Int16
    /// How many rows were begun.
    package private(set) var count = 0

    /// - Parameters:
    ///   - columns: fields of a row.
    ///   - capacity: bytes to make room for at once.
    package init(columns: Int, capacity: Int = 0) { self.init(columns: columns, capacity: capacity, reusing: []) }

    /// - Parameter memory: used for the rows, whatever it holds.
    init(columns: Int, capacity: Int, reusing memory: consuming [UInt8]) {
        self.columns = Int16(clamping: columns)
        bytes = memory
        bytes.removeAll(keepingCapacity: true)
        bytes.reserveCapacity(capacity + 21)
        bytes.append(contentsOf: Array("PGCOPY\n".utf8) + [0xFF] + Array("\r\n".utf8) + [0])
        // Flags and the length of the header's extension: none of either.
        append(Int32(0))
        append(Int32(0))
    }

    /// Begins the next row; its fields follow.
    package mutating func beginRow() {
        append(columns)
        count += 1
    }

    package mutating func null() { append(Int32(-1)) }

    /// `smallint`.
    package mutating func int2(_ value: Int16?) {
        guard let value else { return null() }
        append(Int32(2))
        append(value)
    }

    /// `integer`.
    package mutating func int4(_ value: Int32) {
        append(Int32(4))
        append(value)
    }

    /// `bigint`.
    package mutating func int8(_ value: Int64?) {
        guard let value else { return null() }
        append(Int32(8))
        append(value)
    }

    /// `timestamptz`, in milliseconds since 1970-01-01T00:00:00Z.
    ///
    /// - Throws: kind `invalidValue` for an instant that PostgreSQL cannot hold.
    package mutating func timestamp(_ milliseconds: Int64?) throws(PostgresError) {
        guard let milliseconds else { return null() }
        guard let wire = PostgresTimestamp.wire(milliseconds: milliseconds) else {
            throw PostgresError(kind: .invalidValue, message: "a timestamp is beyond what PostgreSQL holds")
        }
        append(Int32(8))
        append(wire)
    }

    /// `text`.
    ///
    /// - Throws: kind `invalidValue` for U+0000, which PostgreSQL refuses.
    package mutating func text(_ value: String?) throws(PostgresError) {
        guard var value else { return null() }
        let hasZero = value.withUTF8 { utf8 in
            append(Int32(utf8.count))
            bytes.append(contentsOf: utf8)
            return utf8.contains(0)
        }
        guard !hasZero else {
            throw PostgresError(kind: .invalidValue, message: "a text holds U+0000, which PostgreSQL refuses")
        }
    }

    /// `bytea`, or a type of fixed size such as `uuid`.
    package mutating func bytes(_ value: [UInt8]?) {
        guard let value else { return null() }
        append(Int32(value.count))
        bytes.append(contentsOf: value)
    }

    /// What follows the last row.
    static let trailer: [UInt8] = [0xFF, 0xFF]

    private mutating func append(_ value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }
}

extension PostgresConnection {
    /// The most bytes given to libpq at a time; it keeps a copy of what the server has not taken yet.
    ///
    /// The server counts a piece once all of it has come. So few are seen to move over a slow network, too.
    private static let copyPiece = 1 << 16

    /// How much memory of earlier rows a connection keeps.
    private static let spareBytes = 4 << 20

    /// Rows in the memory of earlier ones, if there is some: pieces of this size are dear to allocate for each batch.
    ///
    /// `giveBack` returns it once the rows are sent.
    package func makeRows(columns: Int, capacity: Int = 0) -> CopyRows {
        CopyRows(columns: columns, capacity: capacity, reusing: spareMemory.popLast() ?? [])
    }

    /// Takes the memory of rows that were sent.
    package func giveBack(_ rows: consuming CopyRows) {
        let memory = rows.bytes
        if spareMemory.reduce(memory.capacity, { $0 + $1.capacity }) <= Self.spareBytes { spareMemory.append(memory) }
    }

    /// Runs `COPY table (columns) FROM STDIN (FORMAT binary)`.
    ///
    /// - Parameters:
    ///   - target: the table and its columns, such as `event (ledger_id, position)`.
    ///   - rows: with as many fields as there are columns.
    /// - Throws: `PostgresError`; the statement is then undone, and a transaction around it has failed.
    package func copy(into target: String, _ rows: CopyRows) throws(PostgresError) {
        try copy([(target, rows)])
    }

    /// Runs `COPY table (columns) FROM STDIN (FORMAT binary)` for each target in turn.
    ///
    /// - Parameters:
    ///   - copies: each a table and its columns, such as `event (ledger_id, position)`, and rows with as many fields.
    ///   - script: runs before the first, such as `BEGIN`.
    /// - Throws: `PostgresError`; the statements are then undone, and a transaction around them has failed.
    package func copy(_ copies: [(target: String, rows: CopyRows)], after script: String? = nil) throws(PostgresError) {
        let commands = copies.map { "COPY \($0.target) FROM STDIN (FORMAT binary)" }
        let sql = ([script].compactMap(\.self) + commands).joined(separator: "; ")
        guard PQsendQuery(pointer, sql) == 1 else { throw unsent(sql) }
        try sendAll()
        do throws(PostgresError) {
            if let script { _ = try checked(nextResult(), script) }
            for (copy, command) in zip(copies, commands) { try send(copy.rows, command) }
        } catch {
            readToEnd()
            throw error
        }
        readToEnd()
    }

    /// Answers a command that waits for rows.
    private func send(_ rows: CopyRows, _ command: String) throws(PostgresError) {
        let started = try nextResult()
        guard let started, PQresultStatus(started) == PGRES_COPY_IN else {
            _ = try checked(started, command)
            throw PostgresError(kind: .other, message: "the server did not begin to copy", statement: command)
        }
        PQclear(started)
        for start in stride(from: 0, to: rows.bytes.count, by: Self.copyPiece) {
            try put(rows.bytes[start..<min(start + Self.copyPiece, rows.bytes.count)], command)
        }
        try put(CopyRows.trailer[...], command)
        guard PQputCopyEnd(pointer, nil) == 1 else { throw unsent(command) }
        _ = try checked(nextResult(), command)
    }

    private func put(_ piece: ArraySlice<UInt8>, _ command: String) throws(PostgresError) {
        let accepted = piece.withUnsafeBytes { raw in
            PQputCopyData(pointer, raw.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(raw.count))
        }
        guard accepted == 1 else { throw unsent(command) }
        try sendAll()
    }

    /// Reads the rest of a command's results, whatever they say; after an error the server skips what was to follow.
    private func readToEnd() {
        while !isBroken, let rest = try? nextResult() {
            let status = PQresultStatus(rest)
            PQclear(rest)
            // A copy that is under way would be announced again and again.
            if status == PGRES_COPY_IN, PQputCopyEnd(pointer, "not sent") != 1 { return }
            if PQstatus(pointer) == CONNECTION_BAD { return }
        }
    }

    private func unsent(_ command: String) -> PostgresError {
        PostgresError(connection: pointer, fallback: "the rows could not be sent", statement: command)
    }
}
