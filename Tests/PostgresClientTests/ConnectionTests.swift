import Testing

@testable import PostgresClient

@Suite("One connection")
struct ConnectionTests {
    private struct Interruption: Error {}

    @Test("a transaction commits when its body returns")
    func commit() async throws {
        let connection = try await TestDatabase.connect()
        let (affected, count) = try await connection.run { connection in
            try connection.execute(script: "CREATE TEMP TABLE item (n bigint)")
            let affected = try connection.transaction {
                try $0.query("INSERT INTO item SELECT generate_series(1, 3)").affectedRows
            }
            return (affected, try connection.query("SELECT count(*) FROM item").row(0).int(0))
        }
        #expect(affected == 3)
        #expect(count == 3)
    }

    @Test("a session begins as this program needs it, whatever the role's default for the isolation of transactions")
    func isolation() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.execute(
            script: """
                DROP ROLE IF EXISTS strict_role; CREATE ROLE strict_role LOGIN;
                ALTER ROLE strict_role SET default_transaction_isolation = serializable
                """)
        let connection = try await PostgresConnection.connect(try TestDatabase.conninfo() + " user=strict_role")
        let row = try await connection.run { connection in
            let row = try connection.query(
                "SELECT current_setting('transaction_isolation'), current_setting('search_path')"
            ).row(0)
            return (try row.text(0), try row.text(1))
        }
        #expect(row == ("read committed", "public, pg_temp"))
    }

    @Test("a transaction whose body throws leaves nothing, and the connection goes on")
    func rollback() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { try $0.execute(script: "CREATE TEMP TABLE item (n bigint)") }
        await #expect(throws: Interruption.self) {
            try await connection.run { connection in
                try connection.transaction {
                    try $0.query("INSERT INTO item VALUES ($1)", [.int(1)])
                    throw Interruption()
                }
            }
        }
        let count = try await connection.run { try $0.query("SELECT count(*) FROM item").row(0).int(0) }
        #expect(count == 0)
    }

    @Test("a body that swallows a failed statement does not get its commit")
    func swallowedFailure() async throws {
        let connection = try await TestDatabase.connect()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { connection in
                try connection.transaction { _ = try? $0.query("SELECT 1 / 0") }
            }
        }
        #expect(error?.sqlState == "25P02")
        #expect(await connection.isInTransaction == false)
    }

    @Test("transactions do not nest")
    func nesting() async throws {
        let connection = try await TestDatabase.connect()
        await #expect(throws: PostgresError.self) {
            try await connection.run { connection in
                try connection.transaction { outer in try outer.transaction { _ in } }
            }
        }
        #expect(await connection.isInTransaction == false)
    }

    @Test("a read-only transaction refuses to write")
    func readOnly() async throws {
        let connection = try await TestDatabase.connect()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { connection in
                try connection.transaction(.repeatableReadReadOnly) { try $0.execute(script: "CREATE TABLE never ()") }
            }
        }
        #expect(error?.sqlState == "25006")
    }

    @Test("a script runs all its statements, or none")
    func script() async throws {
        let connection = try await TestDatabase.connect()
        await #expect(throws: PostgresError.self) {
            try await connection.run {
                try $0.execute(script: "CREATE TEMP TABLE a (n bigint); INSERT INTO a VALUES (1); SELECT nonsense")
            }
        }
        let exists = try await connection.run { try $0.query("SELECT to_regclass('a') IS NOT NULL").row(0).bool(0) }
        #expect(!exists)
    }

    @Test("errors are sorted by what a caller can do about them")
    func kinds() async throws {
        let connection = try await TestDatabase.connect()
        let hurried = try await TestDatabase.connect(ConnectionOptions(statementTimeoutMilliseconds: 100))
        let table: [(String, PostgresError.Kind, String)] = [
            ("SELECT pg_sleep(10)", .statementTimeout, "57014"),
            ("INSERT INTO k VALUES (1)", .uniqueViolation, "23505"),
            ("DO $$ BEGIN RAISE insufficient_privilege; END $$", .insufficientPrivilege, "42501"),
            ("DO $$ BEGIN RAISE serialization_failure; END $$", .serialization, "40001"),
            ("DO $$ BEGIN RAISE deadlock_detected; END $$", .deadlock, "40P01"),
            ("SELECT nonsense", .other, "42703"),
        ]
        try await connection.run {
            try $0.execute(script: "CREATE TEMP TABLE k (n int PRIMARY KEY); INSERT INTO k VALUES (1)")
        }
        for (sql, kind, sqlState) in table {
            let asked = kind == .statementTimeout ? hurried : connection
            let error = await #expect(throws: PostgresError.self) { try await asked.run { _ = try $0.query(sql) } }
            #expect(error?.kind == kind, "\(sql)")
            #expect(error?.sqlState == sqlState, "\(sql)")
            #expect(error?.statement == sql)
        }
    }

    @Test("a lock that is not granted in time is a lock timeout")
    func lockTimeout() async throws {
        let holder = try await TestDatabase.connect()
        let waiter = try await TestDatabase.connect(ConnectionOptions(lockTimeoutMilliseconds: 50))
        try await holder.run { try $0.execute(script: "SELECT pg_advisory_lock(77)") }
        let error = await #expect(throws: PostgresError.self) {
            try await waiter.run { _ = try $0.query("SELECT pg_advisory_lock(77)") }
        }
        #expect(error?.kind == .lockTimeout)
        #expect(error?.isRetryable == true)
    }

    @Test("an error's description shows neither values nor passwords")
    func blandErrors() async throws {
        let connection = try await TestDatabase.connect()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { _ = try $0.query("SELECT $1::text::bigint", [.text("secret-value")]) }
        }
        #expect(error?.sqlState == "22P02")
        #expect(error?.description.contains("secret-value") == false)
        for url in ["postgresql://me:se@cret@host/db", "postgresql://me:se/cret@host/db", "host=a cret"] {
            let error = await #expect(throws: PostgresError.self) { _ = try await PostgresConnection.connect(url) }
            #expect(error?.kind == .connection)
            #expect(error?.description.contains("cret") == false, "\(url)")
            #expect(error?.debugDescription.contains("cret") == false, "\(url)")
        }
    }

    @Test(
        "a parameter that libpq does not know is named, unless it may be a piece of a password",
        arguments: [
            ("postgres://me@127.0.0.1:1/d?sslmod=require", "sslmod"),
            ("postgres://me:passw0rd@127.0.0.1:1/d?sslmode=require&conect_timeout=1", "conect_timeout"),
            ("host=127.0.0.1 sslmod=require password=cret", "sslmod"), ("host=127.0.0.1 sslmod = require", "sslmod"),
            ("postgresql://me:se/cr?cret=et@host/db", nil), ("postgresql://me@host/db?password=a&cret=t", nil),
            ("host=a password=my cret=x", nil), ("host=a password = my cret=x", nil), ("cret=t@host/d", nil),
            ("postgresql://me@host/db?cr%65t=1", nil), ("postgresql://me@host/db?cret", nil),
        ])
    func unknownParameter(url: String, name: String?) async throws {
        let error = await #expect(throws: PostgresError.self) { _ = try await PostgresConnection.connect(url) }
        #expect(error?.description.contains("cret") == false, "\(String(describing: error))")
        if let name {
            let words =
                /the database URL has a parameter that the libpq of this machine \([0-9.]+\) does not know: (.*)/
            #expect(try words.wholeMatch(in: error?.message ?? "").map { String($0.1) } == name)
        } else {
            #expect(error?.message.contains("cannot be read") == true, "\(String(describing: error))")
        }
    }

    @Test("what the URL says holds over the defaults")
    func urlWins() async throws {
        let named = ConnectionOptions(applicationName: "default", lockTimeoutMilliseconds: 1234)
        for (suffix, expected) in [("", "default"), (" application_name=mine", "mine")] {
            let conninfo = try TestDatabase.conninfo()
            // A URL given for the tests is not of this form.
            guard !conninfo.contains("://") else { return }
            let connection = try await PostgresConnection.connect(conninfo + suffix, options: named)
            let shown = try await connection.run { connection in
                let row = try connection.query(
                    "SELECT current_setting('application_name'), current_setting('lock_timeout')"
                ).row(0)
                return [try row.text(0), try row.text(1)]
            }
            #expect(shown == [expected, "1234ms"])
        }
    }

    @Test("a commit waits for the disk where the server would not have it wait, and for no less than the server has it")
    func durability() async throws {
        let conninfo = try TestDatabase.conninfo()
        // A URL given for the tests is not of this form.
        guard !conninfo.contains("://") else { return }
        for (setting, expected) in [
            ("off", "local"), ("local", "local"), ("remote_write", "remote_write"), ("on", "on"),
            ("remote_apply", "remote_apply"),
        ] {
            let connection = try await PostgresConnection.connect(
                "\(conninfo) options='-c synchronous_commit=\(setting)'")
            let shown = try await connection.run { try $0.query("SHOW synchronous_commit").row(0).text(0) }
            #expect(shown == expected)
        }
    }

    @Test("neither a server that serves nor one that is not there says that it takes nobody for now")
    func refusedForNow() async throws {
        #expect(try await !PostgresConnection.isRefusedForNow(TestDatabase.conninfo()))
        #expect(try await !PostgresConnection.isRefusedForNow("host=/nonexistent dbname=x"))
        await #expect(throws: PostgresError.self) { _ = try await PostgresConnection.isRefusedForNow("host=a cret") }
    }

    @Test("a server that is not there is a connection error")
    func noServer() async throws {
        let error = await #expect(throws: PostgresError.self) {
            _ = try await PostgresConnection.connect("host=/nonexistent dbname=x")
        }
        #expect(error?.kind == .connection)
    }

    @Test("a terminated session is a connection error, and the connection knows it is broken")
    func terminated() async throws {
        let connection = try await TestDatabase.connect()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { _ = try $0.query("SELECT pg_terminate_backend(pg_backend_pid())") }
        }
        #expect(error?.kind == .connection)
        #expect(await connection.isBroken)
    }

    @Test("the session keeps no more prepared statements than its limit, here and on the server")
    func cacheBound() async throws {
        let connection = try await TestDatabase.connect(ConnectionOptions(statementCacheLimit: 4))
        try await connection.run { connection in
            for round in 0..<2 {
                for number in 0..<10 {
                    let row = try connection.query("SELECT \(number)::bigint + $1", [.int(1)]).row(0)
                    #expect(try row.int(0) == Int64(number + 1), "round \(round)")
                }
            }
            #expect(connection.statements.count == 4)
            let onServer = try connection.query("SELECT count(*) FROM pg_prepared_statements").row(0).int(0)
            #expect(onServer == 4)
        }
    }

    @Test("a statement used again is prepared once")
    func cacheHit() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            for number in 0..<5 { try connection.query("SELECT $1", [.int(Int64(number))]) }
            #expect(connection.statements.count == 1)
        }
    }

    @Test("a statement whose table has changed is prepared anew, and so is one that was discarded")
    func stalePlans() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            try connection.execute(script: "CREATE TEMP TABLE t (a bigint); INSERT INTO t VALUES (1)")
            #expect(try connection.query("SELECT * FROM t").columnCount == 1)
            try connection.execute(script: "ALTER TABLE t ADD b text")
            #expect(try connection.query("SELECT * FROM t").columnCount == 2)
            try connection.execute(script: "DEALLOCATE ALL")
            #expect(try connection.query("SELECT * FROM t").columnCount == 2)
        }
    }

    @Test("a statement whose table has changed is known by what the server did, not by its words")
    func translatedStalePlan() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            // Where the machine has the locale, and the server the translation.
            try? connection.execute(script: "SET lc_messages = 'de_DE.utf8'")
            try connection.execute(script: "CREATE TEMP TABLE t (a bigint); INSERT INTO t VALUES (1)")
            #expect(try connection.query("SELECT * FROM t").columnCount == 1)
            try connection.execute(script: "ALTER TABLE t ADD b text")
            #expect(try connection.query("SELECT * FROM t").columnCount == 2)
            let error = #expect(throws: PostgresError.self) {
                try connection.execute(
                    script: """
                        DO $$ BEGIN
                            RAISE EXCEPTION 'cached plan must not change result type' USING ERRCODE = '0A000';
                        END $$
                        """)
            }
            #expect(error?.kind == .other)
        }
    }

    @Test(
        "sessions call a statement by one name, and unlike ones by unlike names, as a pooler's clients share sessions")
    func statementNames() async throws {
        let names = "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT $1%' ORDER BY statement"
        func prepared(_ statements: [String]) async throws -> [String] {
            try await TestDatabase.connect().run { connection in
                for statement in statements { try connection.query(statement, [.int(1)]) }
                return try connection.query(names).rows.map { try $0.text(0) }
            }
        }
        let first = try await prepared(["SELECT $1", "SELECT $1 + 1", "SELECT $1 + 2"])
        let second = try await prepared(["SELECT $1 + 2", "SELECT $1 + 1", "SELECT $1"])
        #expect(first == second)
        #expect(Set(first).count == 3)
    }

    @Test("a statement that another client has prepared in the session is prepared anew")
    func preparedByAnother() async throws {
        let name = try await TestDatabase.connect().run { connection in
            try connection.query("SELECT $1 + 3", [.int(1)])
            return try connection.query(
                "SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT $1 + 3'"
            ).row(0).text(0)
        }
        try await TestDatabase.connect().run { connection in
            try connection.execute(script: "PREPARE \(name) AS SELECT 'another''s'")
            #expect(try connection.query("SELECT $1 + 3", [.int(1)]).row(0).int(0) == 4)
        }
    }

    @Test("a statement that is missing time and again is said to come of a pooler, and what to do about that")
    func missingStatement() async throws {
        let connection = try await TestDatabase.connect()
        for script in ["EXECUTE missing", "PREPARE twice AS SELECT 1; PREPARE twice AS SELECT 2"] {
            let error = await #expect(throws: PostgresError.self) { try await connection.execute(script: script) }
            let text = "\(try #require(error))"
            #expect(text.contains("a pooler in transaction mode that knows no prepared statements"), "\(text)")
            #expect(text.contains("max_prepared_statements") && text.contains("let it pool sessions"), "\(text)")
        }
    }

    @Test("a stale statement inside a transaction is left to whoever can start it over")
    func stalePlanInTransaction() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.run { connection in
            try connection.execute(script: "CREATE TEMP TABLE t (a bigint)")
            try connection.query("SELECT * FROM t")
            try connection.execute(script: "ALTER TABLE t ADD b text")
            let error = #expect(throws: PostgresError.self) {
                try connection.transaction { _ = try $0.query("SELECT * FROM t") }
            }
            #expect(error?.kind == .stalePlan)
            #expect(error?.isRetryable == true)
            #expect(try connection.transaction { try $0.query("SELECT * FROM t").columnCount } == 2)
        }
    }
}
