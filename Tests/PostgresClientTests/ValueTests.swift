import PostgresClient
import Testing

@Suite("Values to the server and back")
struct ValueTests {
    @Test("every scalar comes back as it went")
    func scalars() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            let row = try #require(
                try connection.query(
                    "SELECT $1, $2, $3, $4, $5, $6, $7",
                    [
                        .bool(true), .int(.min), .int4(-7), .double(-0.25), .text("grüße, 世界 👩‍👩‍👧 \u{1F4B6}"),
                        .bytes([0, 255, 1, 0]), .timestamp(1_794_000_000_123),
                    ]
                ).first)
            #expect(try row.bool(0))
            #expect(try row.int(1) == .min)
            #expect(try row.int(2) == -7)
            #expect(try row.double(3) == -0.25)
            #expect(try row.text(4) == "grüße, 世界 👩‍👩‍👧 \u{1F4B6}")
            #expect(try row.bytes(5) == [0, 255, 1, 0])
            #expect(try row.timestamp(6) == 1_794_000_000_123)
        }
    }

    @Test("a typed nil is NULL, and its getters say so")
    func nulls() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            let row = try #require(
                try connection.query(
                    "SELECT $1, $2, $3, $4, $5, $6, $7::bigint",
                    [.bool(nil), .int(nil), .double(nil), .text(nil), .bytes(nil), .timestamp(nil), .null]
                ).first)
            #expect(try row.optionalBool(0) == nil)
            #expect(try row.optionalInt(1) == nil)
            #expect(try row.optionalDouble(2) == nil)
            #expect(try row.optionalText(3) == nil)
            #expect(try row.optionalBytes(4) == nil)
            #expect(try row.optionalTimestamp(5) == nil)
            #expect(try row.isNull(6))
            let error = #expect(throws: PostgresError.self) { try row.int(1) }
            #expect(error?.kind == .invalidValue)
        }
    }

    @Test("empty is not NULL")
    func empties() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            let row = try #require(
                try connection.query("SELECT $1, $2, $3", [.text(""), .bytes([]), .intArray([])]).first)
            #expect(try row.text(0) == "")
            #expect(try row.bytes(1) == [])
            #expect(try row.intArray(2) == [])
        }
    }

    @Test("arrays come back as they went, NULLs in place")
    func arrays() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            let row = try #require(
                try connection.query(
                    "SELECT $1, $2, $3, $4, $5, $6::text, $7::text",
                    [
                        .intArray([1, -2, .max]), .optionalIntArray([nil, 5]), .int4Array([-1, 2]),
                        .textArray(["a,\"b\"", nil, "ü", ""]), .bytesArray([[1, 0], nil, []]),
                        .timestampArray([0, nil]), .boolArray([true, nil]),
                    ]
                ).first)
            #expect(try row.intArray(0) == [1, -2, .max])
            #expect(try row.intArray(1) == [nil, 5])
            #expect(try row.intArray(2) == [-1, 2])
            #expect(try row.textArray(3) == ["a,\"b\"", nil, "ü", ""])
            #expect(try row.bytesArray(4) == [[1, 0], nil, []])
            #expect(try row.text(5) == "{\"1970-01-01 00:00:00+00\",NULL}")
            #expect(try row.text(6) == "{t,NULL}")
        }
    }

    @Test("unnest makes rows of parallel arrays")
    func unnest() async throws {
        let connection = try await TestDatabase.connect()
        let pairs = try await connection.run { connection in
            try connection.query(
                "SELECT n, t FROM unnest($1, $2) AS pair(n, t) ORDER BY n",
                [.intArray([2, 1]), .textArray(["b", nil])]
            ).rows.map { row in "\(try row.int(0))\(try row.optionalText(1) ?? "-")" }
        }
        #expect(pairs == ["1-", "2b"])
    }

    @Test("timestamps are floored to milliseconds, before 1970 and 2000 too")
    func timestampFloor() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            let row = try #require(
                try connection.query(
                    """
                    SELECT '1999-12-31 23:59:59.9999Z'::timestamptz, '1969-12-31 23:59:59.9995Z'::timestamptz,
                        '2026-11-20 19:00:00.123999Z'::timestamptz, 'infinity'::timestamptz
                    """
                ).first)
            #expect(try row.timestamp(0) == 946_684_799_999)
            #expect(try row.timestamp(1) == -1)
            #expect(try row.timestamp(2) == 1_795_201_200_123)
            #expect(throws: PostgresError.self) { try row.timestamp(3) }
        }
    }

    @Test("a bytea of 32 MiB survives the trip")
    func largeValue() async throws {
        let bytes = (0..<(32 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let connection = try await TestDatabase.connect()
        let back = try await connection.run { try $0.query("SELECT $1", [.bytes(bytes)]).row(0).bytes(0) }
        #expect(back == bytes)
    }

    @Test(
        "values that PostgreSQL cannot hold are refused before they are sent",
        arguments: [PostgresValue.text("a\u{0}b"), .textArray(["\u{0}"]), .timestamp(.max), .timestampArray([.min])])
    func refused(value: PostgresValue) async throws {
        let connection = try await TestDatabase.connect()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { _ = try $0.query("SELECT $1", [value]) }
        }
        #expect(error?.kind == .invalidValue)
        #expect(error?.sqlState == nil)
    }

    @Test("a column of another type is an error that names it")
    func typeMismatch() async throws {
        let connection = try await TestDatabase.connect()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { try $0.query("SELECT 1.5::numeric AS price").row(0).int(0) }
        }
        #expect(error?.kind == .invalidValue)
        #expect(error?.description.contains("price") == true)
        await #expect(throws: PostgresError.self) {
            try await connection.run { try $0.query("SELECT 1").row(0).int(1) }
        }
        await #expect(throws: PostgresError.self) {
            try await connection.run { try $0.query("SELECT 1").row(1).int(0) }
        }
    }
}
