import Testing

@testable import PostgresClient

@Suite("Pipelines")
struct PipelineTests {
    @Test("results come in the order of the statements, prepared or not")
    func order() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            try connection.query("SELECT $1 + 1", [.int(0)])
            for _ in 0..<2 {
                let results = try connection.pipeline([
                    PostgresStatement("SELECT $1 + 1", [.int(1)]),
                    PostgresStatement("SELECT $1", [.text("between")]),
                    PostgresStatement("SELECT $1 + 1", [.int(2)]),
                    PostgresStatement("SELECT 1 WHERE false"),
                ])
                #expect(results.count == 4)
                #expect(try results[0].row(0).int(0) == 2)
                #expect(try results[1].row(0).text(0) == "between")
                #expect(try results[2].row(0).int(0) == 3)
                #expect(results[3].isEmpty)
            }
            #expect(connection.statements.count == 3)
        }
    }

    @Test("the first error is thrown, nothing of the pipeline remains, and the connection goes on")
    func errors() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            try connection.execute(script: "CREATE TEMP TABLE item (n bigint PRIMARY KEY)")
            for _ in 0..<2 {
                let error = #expect(throws: PostgresError.self) {
                    try connection.pipeline([
                        PostgresStatement("INSERT INTO item VALUES ($1)", [.int(1)]),
                        PostgresStatement("INSERT INTO item VALUES ($1)", [.int(1)]),
                        PostgresStatement("SELECT nonsense"),
                    ])
                }
                #expect(error?.kind == .uniqueViolation)
                #expect(error?.statement == "INSERT INTO item VALUES ($1)")
                #expect([connection.isBroken, connection.isInTransaction] == [false, false])
                #expect(try connection.query("SELECT count(*) FROM item").row(0).int(0) == 0)
            }
        }
    }

    @Test("a statement that cannot be prepared fails the pipeline, not the connection")
    func preparationError() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            let error = #expect(throws: PostgresError.self) {
                try connection.pipeline([PostgresStatement("SELECT 1"), PostgresStatement("SELECT nonsense")])
            }
            #expect(error?.sqlState == "42703")
            #expect(connection.statements.count == 1)
            let next = try connection.pipeline([PostgresStatement("SELECT 2")])
            #expect(try next[0].row(0).int(0) == 2)
        }
    }

    @Test("inside a transaction, a pipeline that fails takes the transaction with it")
    func insideTransaction() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            try connection.execute(script: "CREATE TEMP TABLE item (n bigint PRIMARY KEY)")
            #expect(throws: PostgresError.self) {
                try connection.transaction {
                    _ = try $0.pipeline([PostgresStatement("INSERT INTO item VALUES (1)")])
                    _ = try $0.pipeline([PostgresStatement("SELECT 1 / 0")])
                }
            }
            #expect(try connection.query("SELECT count(*) FROM item").row(0).int(0) == 0)
        }
    }

    @Test("many MiB both ways do not deadlock")
    func large() async throws {
        let connection = try await TestDatabase.connect()
        let bytes = [UInt8](repeating: 7, count: 1 << 20)
        let total = try await connection.run { connection in
            let batch = (0..<48).map { _ in PostgresStatement("SELECT $1", [.bytes(bytes)]) }
            return try connection.pipeline(batch).reduce(0) { try $0 + $1.row(0).bytes(0).count }
        }
        #expect(total == 48 << 20)
    }

    @Test("more new statements than the cache has room for push the old ones out, not each other")
    func cachePressure() async throws {
        let connection = try await TestDatabase.connect(ConnectionOptions(statementCacheLimit: 3))
        try await connection.run { connection in
            for number in 0..<3 { try connection.query("SELECT \(number)") }
            let results = try connection.pipeline([
                PostgresStatement("SELECT 2"), PostgresStatement("SELECT 10"), PostgresStatement("SELECT 11"),
            ])
            #expect(try results.map { try $0.row(0).int(0) } == [2, 10, 11])
            #expect(connection.statements.count == 3)
            let error = #expect(throws: PostgresError.self) {
                try connection.pipeline((20..<24).map { PostgresStatement("SELECT \($0)") })
            }
            #expect(error?.kind == .invalidValue)
        }
    }

    @Test("a session that ends within a pipeline is a connection error")
    func terminated() async throws {
        let connection = try await TestDatabase.connect()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run {
                _ = try $0.pipeline([
                    PostgresStatement("SELECT pg_terminate_backend(pg_backend_pid())"), PostgresStatement("SELECT 1"),
                ])
            }
        }
        #expect(error?.kind == .connection)
        #expect(await connection.isBroken)
    }

    @Test("a stale statement fails once and is then prepared anew")
    func stalePlan() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            try connection.execute(script: "CREATE TEMP TABLE t (a bigint)")
            let batch = [PostgresStatement("SELECT * FROM t")]
            _ = try connection.pipeline(batch)
            try connection.execute(script: "ALTER TABLE t ADD b text")
            let error = #expect(throws: PostgresError.self) { try connection.pipeline(batch) }
            #expect(error?.kind == .stalePlan)
            #expect(try connection.pipeline(batch)[0].columnCount == 2)
            #expect(try connection.query("SELECT count(*) FROM pg_prepared_statements").row(0).int(0) == 2)
        }
    }
}
