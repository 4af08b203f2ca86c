private import CLibPQ

/// The rows that one statement returned, in binary.
///
/// Rows stay in libpq's memory until the last `PostgresResult` or `PostgresRow` of them is gone.
package final class PostgresResult: Sendable {
    // libpq documents a finished PGresult as read-only and free to pass between threads; only `deinit` clears it.
    private nonisolated(unsafe) let handle: OpaquePointer

    package let rowCount: Int
    package let columnCount: Int

    /// Takes ownership of a PGresult.
    init(owning handle: OpaquePointer) {
        self.handle = handle
        rowCount = Int(PQntuples(handle))
        columnCount = Int(PQnfields(handle))
    }

    deinit { PQclear(handle) }

    /// Rows that an INSERT, UPDATE, DELETE, MERGE, COPY or SELECT touched; 0 for other commands.
    package var affectedRows: Int {
        PQcmdTuples(handle).flatMap { Int(String(cString: $0)) } ?? 0
    }

    /// The command's tag, such as `COMMIT`, or `ROLLBACK` where a commit was refused.
    var commandTag: String { PQcmdStatus(handle).map { String(cString: $0) } ?? "" }

    package var isEmpty: Bool { rowCount == 0 }
    package var first: PostgresRow? { isEmpty ? nil : PostgresRow(result: self, index: 0) }

    /// All rows, in the order of the server.
    package var rows: some RandomAccessCollection<PostgresRow> {
        (0..<rowCount).lazy.map { PostgresRow(result: self, index: $0) }
    }

    /// One row; an index beyond `rowCount` is a programming error and throws.
    package func row(_ index: Int) throws(PostgresError) -> PostgresRow {
        guard (0..<rowCount).contains(index) else {
            throw PostgresError(kind: .invalidValue, message: "row \(index) of \(rowCount)")
        }
        return PostgresRow(result: self, index: index)
    }

    /// Lends the bytes of a field to `body`; `nil` for NULL.
    func read<Value>(
        _ row: Int, _ column: Int, of types: [UInt32],
        _ body: (_ field: UnsafeRawBufferPointer, _ type: UInt32) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value? {
        try check(row, column)
        // The optimiser may otherwise end this object's life, and the field's memory, before `body` has read it.
        defer { withExtendedLifetime(self) {} }
        let type = PQftype(handle, Int32(column))
        guard types.contains(type) else {
            throw PostgresError(
                kind: .invalidValue,
                message: "column \(column) (\(name(column))) has type \(type), wanted one of \(types)")
        }
        if PQgetisnull(handle, Int32(row), Int32(column)) == 1 { return nil }
        return try body(
            UnsafeRawBufferPointer(
                start: PQgetvalue(handle, Int32(row), Int32(column)),
                count: Int(PQgetlength(handle, Int32(row), Int32(column)))),
            type)
    }

    func isNull(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        try check(row, column)
        return PQgetisnull(handle, Int32(row), Int32(column)) == 1
    }

    private func check(_ row: Int, _ column: Int) throws(PostgresError) {
        guard (0..<rowCount).contains(row), (0..<columnCount).contains(column) else {
            throw PostgresError(
                kind: .invalidValue, message: "row \(row), column \(column) of \(rowCount) × \(columnCount)")
        }
    }

    func name(_ column: Int) -> String { PQfname(handle, Int32(column)).map { String(cString: $0) } ?? "?" }
}
