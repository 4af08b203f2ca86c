/// The parameters of one statement in PostgreSQL's binary format, in one piece of memory.
struct ParameterBuffer {
    /// Far below the 1 GiB at which PostgreSQL refuses a message, so that the refusal is ours and costs nothing.
    static let maximumBytes = 512 * 1024 * 1024
    /// The protocol counts parameters in 16 bits.
    static let maximumCount = 65_535

    private(set) var types: [UInt32] = []
    private var bytes: [UInt8] = []
    private var ranges: [Range<Int>?] = []

    init(_ values: [PostgresValue]) throws(PostgresError) {
        guard values.count <= Self.maximumCount else {
            throw PostgresError(kind: .invalidValue, message: "\(values.count) parameters; \(Self.maximumCount) fit")
        }
        for value in values { try append(value) }
        guard bytes.count <= Self.maximumBytes else {
            throw PostgresError(
                kind: .invalidValue, message: "\(bytes.count) bytes of parameters; \(Self.maximumBytes) fit")
        }
        // A value of no bytes still needs an address that is not NULL.
        bytes.append(0)
    }

    /// Lends libpq's parallel arrays for the duration of the call.
    func withPointers<Result>(
        _ body: (
            _ count: Int32, _ types: UnsafePointer<UInt32>?, _ values: UnsafePointer<UnsafePointer<CChar>?>?,
            _ lengths: UnsafePointer<Int32>?, _ formats: UnsafePointer<Int32>?
        ) -> Result
    ) -> Result {
        let lengths = ranges.map { Int32($0?.count ?? 0) }
        let binary = [Int32](repeating: 1, count: ranges.count)
        return bytes.withUnsafeBytes { raw in
            let base = raw.baseAddress?.assumingMemoryBound(to: CChar.self)
            let values = ranges.map { range in range.flatMap { base?.advanced(by: $0.lowerBound) } }
            return body(Int32(ranges.count), types, values, lengths, binary)
        }
    }

    private mutating func append(_ value: PostgresValue) throws(PostgresError) {
        switch value {
        case .null: scalar(PostgresType.inferred, nil as Int64?) { $0.append(bigEndian: $1) }
        case .bool(let value): scalar(PostgresType.bool, value) { $0.append($1 ? 1 : 0) }
        case .int(let value): scalar(PostgresType.int8, value) { $0.append(bigEndian: $1) }
        case .int4(let value): scalar(PostgresType.int4, value) { $0.append(bigEndian: $1) }
        case .int2(let value): scalar(PostgresType.int2, value) { $0.append(bigEndian: $1) }
        case .double(let value): scalar(PostgresType.float8, value) { $0.append(bigEndian: $1.bitPattern) }
        case .text(let value): try scalar(PostgresType.text, value.map(Self.checked)) { $0.append(contentsOf: $1.utf8) }
        case .bytes(let value): scalar(PostgresType.bytea, value) { $0.append(contentsOf: $1) }
        case .timestamp(let value):
            try scalar(PostgresType.timestamptz, value.map(Self.wire)) { $0.append(bigEndian: $1) }
        case .intArray(let values):
            array(PostgresType.int8Array, of: PostgresType.int8, values) { $0.append(bigEndian: $1) }
        case .optionalIntArray(let values):
            array(PostgresType.int8Array, of: PostgresType.int8, values) { $0.append(bigEndian: $1) }
        case .int4Array(let values):
            array(PostgresType.int4Array, of: PostgresType.int4, values) { $0.append(bigEndian: $1) }
        case .int2Array(let values):
            array(PostgresType.int2Array, of: PostgresType.int2, values) { $0.append(bigEndian: $1) }
        case .boolArray(let values):
            array(PostgresType.boolArray, of: PostgresType.bool, values) { $0.append($1 ? 1 : 0) }
        case .textArray(let values):
            for case .some(let value) in values { _ = try Self.checked(value) }
            array(PostgresType.textArray, of: PostgresType.text, values) { $0.append(contentsOf: $1.utf8) }
        case .bytesArray(let values):
            array(PostgresType.byteaArray, of: PostgresType.bytea, values) { $0.append(contentsOf: $1) }
        case .timestampArray(let values):
            var wire: [Int64?] = []
            for value in values { wire.append(try value.map(Self.wire)) }
            array(PostgresType.timestamptzArray, of: PostgresType.timestamptz, wire) { $0.append(bigEndian: $1) }
        }
    }

    private mutating func scalar<Value>(_ type: UInt32, _ value: Value?, _ write: (inout [UInt8], Value) -> Void) {
        types.append(type)
        guard let value else { return ranges.append(nil) }
        let start = bytes.count
        write(&bytes, value)
        ranges.append(start..<bytes.count)
    }

    /// One dimension, counted from 1, as `array_recv` takes it.
    private mutating func array<Element>(
        _ type: UInt32, of elementType: UInt32, _ elements: [Element?], _ write: (inout [UInt8], Element) -> Void
    ) {
        types.append(type)
        let start = bytes.count
        bytes.append(bigEndian: Int32(elements.isEmpty ? 0 : 1))
        bytes.append(bigEndian: Int32(elements.contains { $0 == nil } ? 1 : 0))
        bytes.append(bigEndian: elementType)
        if !elements.isEmpty {
            bytes.append(bigEndian: Int32(elements.count))
            bytes.append(bigEndian: Int32(1))
        }
        for element in elements {
            guard let element else {
                bytes.append(bigEndian: Int32(-1))
                continue
            }
            let lengthAt = bytes.count
            bytes.append(bigEndian: Int32(0))
            write(&bytes, element)
            bytes.overwrite(at: lengthAt, bigEndian: Int32(bytes.count - lengthAt - 4))
        }
        ranges.append(start..<bytes.count)
    }

    private static func checked(_ text: String) throws(PostgresError) -> String {
        guard !text.utf8.contains(0) else {
            throw PostgresError(kind: .invalidValue, message: "a text parameter holds U+0000, which PostgreSQL refuses")
        }
        return text
    }

    private static func wire(_ milliseconds: Int64) throws(PostgresError) -> Int64 {
        guard let wire = PostgresTimestamp.wire(milliseconds: milliseconds) else {
            throw PostgresError(kind: .invalidValue, message: "a timestamp parameter is beyond what PostgreSQL holds")
        }
        return wire
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }

    fileprivate mutating func overwrite(at offset: Int, bigEndian value: Int32) {
        Swift.withUnsafeBytes(of: value.bigEndian) { source in
            for (index, byte) in source.enumerated() { self[offset + index] = byte }
        }
    }
}
