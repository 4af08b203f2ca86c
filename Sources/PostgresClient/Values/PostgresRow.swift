/// One row of a result; columns count from 0.
///
/// Every getter throws `PostgresError` of kind `invalidValue` when the column has another type, and those without
/// `optional` in their name when it is NULL.
package struct PostgresRow: Sendable {
    let result: PostgresResult
    let index: Int

    /// `smallint`, `integer`, `bigint` or `oid`.
    package func int(_ column: Int) throws(PostgresError) -> Int64 { try present(optionalInt(column), column) }
    package func bool(_ column: Int) throws(PostgresError) -> Bool { try present(optionalBool(column), column) }
    /// `real` or `double precision`.
    package func double(_ column: Int) throws(PostgresError) -> Double { try present(optionalDouble(column), column) }
    /// `text`, `varchar`, `char`, `name` or `json`.
    package func text(_ column: Int) throws(PostgresError) -> String { try present(optionalText(column), column) }
    /// `bytea`.
    package func bytes(_ column: Int) throws(PostgresError) -> [UInt8] { try present(optionalBytes(column), column) }
    /// Lends the bytes of a `bytea` where they lie, without a copy; they must not be kept beyond the call.
    package func withBytes(_ column: Int, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        let done = try result.read(index, column, of: [PostgresType.bytea]) { field, _ throws(PostgresError) in
            Result { try body(field) }
        }
        try present(done, column).get()
    }

    /// `timestamptz` or `timestamp`, floored to milliseconds since 1970-01-01T00:00:00Z; infinity throws.
    package func timestamp(_ column: Int) throws(PostgresError) -> Int64 {
        try present(optionalTimestamp(column), column)
    }

    /// Whether the column is NULL, of whatever type it is.
    package func isNull(_ column: Int) throws(PostgresError) -> Bool { try result.isNull(index, column) }

    package func optionalInt(_ column: Int) throws(PostgresError) -> Int64? {
        try result.read(
            index, column, of: [PostgresType.int8, PostgresType.int4, PostgresType.int2, PostgresType.oid]
        ) { field, type in
            switch type {
            case PostgresType.int8: field.bigEndian(Int64.self)
            case PostgresType.int4: Int64(field.bigEndian(Int32.self))
            case PostgresType.oid: Int64(field.bigEndian(UInt32.self))
            default: Int64(field.bigEndian(Int16.self))
            }
        }
    }

    package func optionalBool(_ column: Int) throws(PostgresError) -> Bool? {
        try result.read(index, column, of: [PostgresType.bool]) { field, _ in field.first == 1 }
    }

    package func optionalDouble(_ column: Int) throws(PostgresError) -> Double? {
        try result.read(index, column, of: [PostgresType.float8, PostgresType.float4]) { field, type in
            type == PostgresType.float8
                ? Double(bitPattern: field.bigEndian(UInt64.self))
                : Double(Float(bitPattern: field.bigEndian(UInt32.self)))
        }
    }

    package func optionalText(_ column: Int) throws(PostgresError) -> String? {
        try result.read(
            index, column,
            of: [
                PostgresType.text, PostgresType.varchar, PostgresType.bpchar, PostgresType.name, PostgresType.json,
                PostgresType.unknown,
            ]
        ) { field, _ in String(decoding: field, as: UTF8.self) }
    }

    package func optionalBytes(_ column: Int) throws(PostgresError) -> [UInt8]? {
        try result.read(index, column, of: [PostgresType.bytea]) { field, _ in Array(field) }
    }

    package func optionalTimestamp(_ column: Int) throws(PostgresError) -> Int64? {
        try result.read(
            index, column, of: [PostgresType.timestamptz, PostgresType.timestamp]
        ) { field, _ throws(PostgresError) in
            guard let milliseconds = PostgresTimestamp.milliseconds(wire: field.bigEndian(Int64.self)) else {
                throw PostgresError(kind: .invalidValue, message: "column \(column) holds an infinite timestamp")
            }
            return milliseconds
        }
    }

    private func present<Value>(_ value: Value?, _ column: Int) throws(PostgresError) -> Value {
        guard let value else {
            throw PostgresError(
                kind: .invalidValue, message: "column \(column) (\(result.name(column))) is NULL")
        }
        return value
    }
}

extension PostgresRow {
    /// `bigint[]` or `integer[]` of one dimension; NULL elements are `nil`.
    package func intArray(_ column: Int) throws(PostgresError) -> [Int64?] {
        try array(column, of: [PostgresType.int8Array, PostgresType.int4Array]) { field in
            field.count == 8 ? field.bigEndian(Int64.self) : Int64(field.bigEndian(Int32.self))
        }
    }

    /// `text[]` of one dimension; NULL elements are `nil`.
    package func textArray(_ column: Int) throws(PostgresError) -> [String?] {
        try array(column, of: [PostgresType.textArray]) { String(decoding: $0, as: UTF8.self) }
    }

    /// `bytea[]` of one dimension; NULL elements are `nil`.
    package func bytesArray(_ column: Int) throws(PostgresError) -> [[UInt8]?] {
        try array(column, of: [PostgresType.byteaArray]) { Array($0) }
    }

    private func array<Element>(
        _ column: Int, of types: [UInt32], _ element: (UnsafeRawBufferPointer) -> Element
    ) throws(PostgresError) -> [Element?] {
        let elements = try result.read(index, column, of: types) { field, _ throws(PostgresError) in
            guard let elements = Self.elements(of: field, element) else {
                throw PostgresError(kind: .invalidValue, message: "column \(column) is not an array of one dimension")
            }
            return elements
        }
        return try present(elements, column)
    }

    /// Reads what `array_send` wrote; `nil` unless it has one dimension (or none: empty).
    private static func elements<Element>(
        of field: UnsafeRawBufferPointer, _ element: (UnsafeRawBufferPointer) -> Element
    ) -> [Element?]? {
        var reader = ArrayReader(field)
        guard let dimensions = reader.int32(), reader.int32() != nil, reader.int32() != nil else { return nil }
        if dimensions == 0 { return [] }
        guard dimensions == 1, let count = reader.int32(), count >= 0, reader.int32() != nil else { return nil }
        var elements: [Element?] = []
        elements.reserveCapacity(min(Int(count), field.count))
        for _ in 0..<count {
            guard let length = reader.int32() else { return nil }
            if length < 0 {
                elements.append(nil)
            } else if let bytes = reader.take(Int(length)) {
                elements.append(element(bytes))
            } else {
                return nil
            }
        }
        return elements
    }
}

private struct ArrayReader {
    private var rest: UnsafeRawBufferPointer

    init(_ field: UnsafeRawBufferPointer) { rest = field }

    mutating func int32() -> Int32? { take(4)?.bigEndian(Int32.self) }

    mutating func take(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count <= rest.count else { return nil }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count)) }
        return UnsafeRawBufferPointer(rebasing: rest.prefix(count))
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func bigEndian<Value: FixedWidthInteger>(_ type: Value.Type) -> Value {
        Value(bigEndian: loadUnaligned(as: type))
    }
}
