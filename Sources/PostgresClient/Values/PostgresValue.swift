/// A parameter of a statement, sent in binary with an explicit type.
///
/// `nil` payloads are typed NULLs: prefer them to `null`, which leaves the type for the server to infer and makes
/// another prepared statement of the same text.
package enum PostgresValue: Sendable, Equatable {
    /// NULL of whatever type the server infers.
    case null
    /// `boolean`.
    case bool(Bool?)
    /// `bigint`.
    case int(Int64?)
    /// `integer`.
    case int4(Int32?)
    /// `smallint`.
    case int2(Int16?)
    /// `double precision`.
    case double(Double?)
    /// `text`. U+0000 is not representable in PostgreSQL and is refused.
    case text(String?)
    /// `bytea`.
    case bytes([UInt8]?)
    /// `timestamptz`, in milliseconds since 1970-01-01T00:00:00Z.
    case timestamp(Int64?)
    /// `bigint[]`.
    case intArray([Int64])
    /// `bigint[]` with NULLs.
    case optionalIntArray([Int64?])
    /// `integer[]`.
    case int4Array([Int32])
    /// `smallint[]`, with NULLs.
    case int2Array([Int16?])
    /// `boolean[]`, with NULLs.
    case boolArray([Bool?])
    /// `text[]`, with NULLs.
    case textArray([String?])
    /// `bytea[]`, with NULLs.
    case bytesArray([[UInt8]?])
    /// `timestamptz[]`, in milliseconds since 1970-01-01T00:00:00Z, with NULLs.
    case timestampArray([Int64?])
}

/// One statement of a pipeline: SQL with `$1`… and its parameters.
package struct PostgresStatement: Sendable {
    package let sql: String
    package let parameters: [PostgresValue]

    package init(_ sql: String, _ parameters: [PostgresValue] = []) {
        self.sql = sql
        self.parameters = parameters
    }

    /// What errors call the statement: its first line, shortened.
    var label: String { Self.label(of: sql) }

    static func label(of sql: String) -> String {
        let first = sql.split(whereSeparator: \.isNewline).first { !$0.allSatisfy(\.isWhitespace) } ?? ""
        let trimmed = first.drop(while: \.isWhitespace)
        return trimmed.count > 80 ? trimmed.prefix(80) + "…" : String(trimmed)
    }
}
