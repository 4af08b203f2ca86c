/// Object ids of built-in types: fixed for ever by PostgreSQL's `pg_type.dat`.
enum PostgresType {
    static let inferred: UInt32 = 0
    static let bool: UInt32 = 16
    static let bytea: UInt32 = 17
    static let name: UInt32 = 19
    static let int8: UInt32 = 20
    static let int2: UInt32 = 21
    static let int4: UInt32 = 23
    static let text: UInt32 = 25
    static let oid: UInt32 = 26
    static let json: UInt32 = 114
    static let float4: UInt32 = 700
    static let float8: UInt32 = 701
    static let unknown: UInt32 = 705
    static let boolArray: UInt32 = 1000
    static let byteaArray: UInt32 = 1001
    static let int2Array: UInt32 = 1005
    static let int4Array: UInt32 = 1007
    static let textArray: UInt32 = 1009
    static let int8Array: UInt32 = 1016
    static let bpchar: UInt32 = 1042
    static let varchar: UInt32 = 1043
    static let timestamp: UInt32 = 1114
    static let timestamptz: UInt32 = 1184
    static let timestamptzArray: UInt32 = 1185
}

/// PostgreSQL counts microseconds from 2000-01-01T00:00:00Z; the ledger milliseconds from 1970.
enum PostgresTimestamp {
    private static let epochMilliseconds: Int64 = 946_684_800_000

    /// The wire's microseconds, or `nil` beyond what PostgreSQL can hold.
    static func wire(milliseconds: Int64) -> Int64? {
        let (shifted, underflow) = milliseconds.subtractingReportingOverflow(epochMilliseconds)
        let (microseconds, overflow) = shifted.multipliedReportingOverflow(by: 1000)
        // The extremes stand for infinity.
        guard !underflow, !overflow, microseconds != .min, microseconds != .max else { return nil }
        return microseconds
    }

    /// Floored to milliseconds; `nil` for infinity.
    static func milliseconds(wire: Int64) -> Int64? {
        guard wire != .min, wire != .max else { return nil }
        let floored = wire / 1000 - (wire % 1000 < 0 ? 1 : 0)
        let (milliseconds, overflow) = floored.addingReportingOverflow(epochMilliseconds)
        return overflow ? nil : milliseconds
    }
}
