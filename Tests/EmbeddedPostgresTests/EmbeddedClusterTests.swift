import EmbeddedPostgres
import Foundation
import Glibc
import PostgresClient
import Synchronization
import Testing

@Suite("The embedded cluster")
struct EmbeddedClusterTests {
    private let options = EmbeddedCluster.Options(durability: .throwaway, startLimit: .seconds(60))
    private let impatient = EmbeddedCluster.Options(
        durability: .throwaway, startLimit: .seconds(60), silenceLimit: .seconds(1))

    @Test("a fresh start has the database, its owner, and a role that may do nothing")
    func freshStart() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch + "/data", options: options)
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            let rights = try await owner.run { connection in
                let row = try connection.query(
                    """
                    SELECT current_database()::text, current_setting('timezone'), current_setting('listen_addresses'),
                        rolsuper, current_setting('server_encoding')
                    FROM pg_roles WHERE rolname = current_user
                    """
                ).row(0)
                return (try row.text(0), try row.text(1), try row.text(2), try row.bool(3), try row.text(4))
            }
            #expect(rights == ("rightful", "UTC", "", true, "UTF8"))
            let server = try await PostgresConnection.connect(cluster.serveConninfo)
            let error = await #expect(throws: PostgresError.self) {
                try await server.run { try $0.execute(script: "CREATE TABLE public.mine ()") }
            }
            #expect(error?.kind == .insufficientPrivilege)
            try await cluster.release()
        }
    }

    @Test("durable means synced, and the server is not root's, with nobody else near its socket")
    func durableAndPrivate() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch)
            let connection = try await PostgresConnection.connect(cluster.ownerConninfo)
            let settings = try await connection.run { connection in
                try ["fsync", "synchronous_commit", "full_page_writes", "wal_compression", "data_checksums"].map {
                    try connection.query("SELECT current_setting($1)", [.text($0)]).row(0).text(0)
                }
            }
            #expect(settings[..<3] == ["on", "on", "on"])
            #expect(settings[3] != "off")
            #expect(settings[4] == "on")
            var status = stat()
            #expect(stat(socketDirectory(cluster), &status) == 0)
            #expect(status.st_mode & 0o777 == 0o700)
            #expect(status.st_uid != 0)
            #expect(stat("/proc/\(try postmaster(cluster))", &status) == 0)
            #expect(status.st_uid != 0)
            try await cluster.release()
        }
    }

    @Test("a second user shares the server; the first leaving does not stop it; the last one does")
    func sharing() async throws {
        try await withScratchDirectory { scratch in
            let first = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let started = try postmaster(first)
            // Another spelling of the same directory.
            let second = try await EmbeddedCluster.acquire(
                dataDirectory: scratch + "/../" + name(scratch), options: options)
            #expect(try postmaster(second) == started)
            #expect(first.ownerConninfo == second.ownerConninfo)
            try await first.release()
            try await first.release()
            #expect(await first.isLeftToOthers)
            #expect(try await answers(second))
            try await second.release()
            #expect(await !second.isLeftToOthers)
            #expect(try await !answers(second))
            #expect(access(socketDirectory(second), F_OK) != 0)
            #expect(kill(started, 0) != 0)
        }
    }

    @Test("what was written before a stop is there after the next start")
    func restart() async throws {
        try await withScratchDirectory { scratch in
            for round in 1...2 {
                let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
                let connection = try await PostgresConnection.connect(cluster.ownerConninfo)
                let count = try await connection.run { connection in
                    try connection.execute(script: "CREATE TABLE IF NOT EXISTS kept (n int)")
                    try connection.query("INSERT INTO kept VALUES (1)")
                    return try connection.query("SELECT count(*) FROM kept").row(0).int(0)
                }
                #expect(count == round)
                try await cluster.release()
            }
        }
    }

    @Test("a server killed outright is started again with its data, by its user or by the next")
    func killedServer() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let connection = try await PostgresConnection.connect(cluster.ownerConninfo)
            try await connection.run {
                try $0.execute(script: "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
            }
            // A session that is busy outlives its postmaster for a moment.
            let busy = try await PostgresConnection.connect(cluster.ownerConninfo)
            let work = Task {
                try await busy.run { _ = try $0.query("SELECT count(*) FROM generate_series(1, 300000)") }
            }
            try await connection.run { connection in
                let begun = ContinuousClock.now
                while try connection.query(
                    "SELECT FROM pg_stat_activity WHERE query LIKE '%300000)' AND state = 'active'"
                ).isEmpty {
                    try #require(begun.duration(to: .now) < .seconds(20), "the session was over before it was seen")
                }
            }
            let killed = try postmaster(cluster)
            kill(killed, SIGKILL)
            try await cluster.ensureRunning()
            #expect(try postmaster(cluster) != killed)
            #expect(kill(killed, 0) != 0, "its end is not collected")
            _ = await work.result

            kill(try postmaster(cluster), SIGKILL)
            let next = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let again = try await PostgresConnection.connect(next.ownerConninfo)
            #expect(try await again.run { try $0.query("SELECT n FROM kept").row(0).int(0) } == 7)
            try await cluster.release()
            try await next.release()
        }
    }

    @Test("a user that vanished leaves the server running for the next, who stops it in the end")
    func vanishedUser() async throws {
        try await withScratchDirectory { scratch in
            // Dropped without a release: its lock goes as the kernel takes a killed process's.
            var vanishing: EmbeddedCluster? = try await EmbeddedCluster.acquire(
                dataDirectory: scratch, options: options)
            let started = try postmaster(try #require(vanishing))
            vanishing = nil
            let next = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            #expect(try postmaster(next) == started)
            try await next.release()
            #expect(try await !answers(next))
        }
    }

    @Test("several that come at once share one server")
    func atOnce() async throws {
        try await withScratchDirectory { scratch in
            let clusters = try await withThrowingTaskGroup(of: EmbeddedCluster.self) { group in
                for _ in 0..<4 {
                    group.addTask { try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(try clusters.map(postmaster)).count == 1)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for cluster in clusters { group.addTask { try await cluster.release() } }
                try await group.waitForAll()
            }
            #expect(try await !answers(clusters[0]))
        }
    }

    @Test("what an interrupted start left behind is cleared away")
    func interruptedMaking() async throws {
        try await withScratchDirectory { scratch in
            let unfinished = scratch + "/postgres.unfinished/base"
            try FileManager.default.createDirectory(atPath: unfinished, withIntermediateDirectories: true)
            try Data("15\n".utf8).write(to: URL(fileURLWithPath: scratch + "/postgres.unfinished/PG_VERSION"))
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            #expect(try await answers(cluster))
            #expect(access(scratch + "/postgres.unfinished", F_OK) != 0)
            try await cluster.release()
        }
    }

    @Test("an initdb that outlives the service that started it is waited for")
    func survivingMaking() async throws {
        try await withScratchDirectory { scratch in
            let unfinished = scratch + "/postgres.unfinished"
            try FileManager.default.createDirectory(atPath: unfinished, withIntermediateDirectories: false)
            let initdb = Process()
            initdb.executableURL = URL(fileURLWithPath: "/usr/bin/flock")
            initdb.arguments = [
                unfinished, "sh", "-c",
                "i=0; while [ $i -lt 100 ]; do i=$((i + 1)); mkdir -p \"$0/base/$i\"; sleep 0.02; done", unfinished,
            ]
            try initdb.run()
            while access(unfinished + "/base/1", F_OK) != 0 { try await Task.sleep(for: .milliseconds(5)) }
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            #expect(!initdb.isRunning)
            #expect(try await answers(cluster))
            #expect(access(unfinished, F_OK) != 0)
            try await cluster.release()
        }
    }

    @Test("a stale process file that names a living stranger does not keep the server down")
    func staleProcessFile() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            try Data("\(getpid())\n/elsewhere\n".utf8).write(
                to: URL(fileURLWithPath: scratch + "/postgres/postmaster.pid"))
            let next = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            #expect(try await answers(next))
            try await next.release()
        }
    }

    @Test("a directory that is no cluster is refused by name, and left as it is")
    func foreignDirectory() async throws {
        try await withScratchDirectory { scratch in
            try FileManager.default.createDirectory(atPath: scratch + "/postgres", withIntermediateDirectories: false)
            let error = await #expect(throws: EmbeddedPostgresError.self) {
                _ = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
            #expect(error?.kind == .directory)
            #expect(error?.description.contains(scratch + "/postgres") == true)
        }
    }

    @Test("a server that cannot start says why, from its log")
    func brokenSettings() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            try Data("work_mem = nonsense\n".utf8).write(
                to: URL(fileURLWithPath: scratch + "/postgres/postgresql.conf"))
            let error = await #expect(throws: EmbeddedPostgresError.self) {
                _ = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
            #expect(error?.kind == .startFailed)
            #expect(error?.description.contains("work_mem") == true)
            #expect(error?.description.contains("/postgres/postgresql.conf") == true, "\(String(describing: error))")
            #expect(error?.description.contains("/proc/self") == false, "\(String(describing: error))")
        }
    }

    @Test("a server that runs and lets nobody in is told of within seconds, with the reason, and left as it is")
    func letsNobodyIn() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let started = try postmaster(cluster)
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            func reason() async -> String {
                let begun = ContinuousClock.now
                let error = await #expect(throws: EmbeddedPostgresError.self) {
                    _ = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: impatient)
                }
                #expect(begun.duration(to: .now) < .seconds(20))
                return error?.description ?? ""
            }
            // As for whom the server's /tmp or /run is another one.
            let socket = socketDirectory(cluster) + "/.s.PGSQL.5432"
            #expect(rename(socket, socket + ".away") == 0)
            let unseen = await reason()
            #expect(unseen.contains("(process \(started)) runs and lets nobody in (connection to server"), "\(unseen)")
            #expect(unseen.contains(socket) && unseen.contains("PrivateTmp"), "\(unseen)")
            #expect(rename(socket + ".away", socket) == 0)
            let rules = URL(fileURLWithPath: scratch + "/postgres/pg_hba.conf")
            try Data("local all all reject\n".utf8).write(to: rules)
            try await owner.execute(script: "SELECT pg_reload_conf()")
            for _ in 0..<500 {
                guard try await answers(cluster) else { break }
                try await Task.sleep(for: .milliseconds(20))
            }
            let refused = await reason()
            #expect(refused.contains("pg_hba.conf rejects connection"), "\(refused)")
            #expect(!refused.contains("PrivateTmp"), "\(refused)")
            #expect(try postmaster(cluster) == started)
            try await cluster.release()
        }
    }

    @Test("whoever waits for a server that it cannot see keeps its user from nothing, and then starts one")
    func waitingForTheUnseen() async throws {
        try await withScratchDirectory { scratch in
            let first = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let socket = socketDirectory(first) + "/.s.PGSQL.5432"
            #expect(rename(socket, socket + ".away") == 0)
            let patient = EmbeddedCluster.Options(
                durability: .throwaway, startLimit: .seconds(60), silenceLimit: .seconds(30))
            let joining = Task { try await EmbeddedCluster.acquire(dataDirectory: scratch, options: patient) }
            try await Task.sleep(for: .seconds(1))
            #expect(unlink(socket + ".away") == 0)
            let told = ContinuousClock.now
            try await first.release()
            #expect(told.duration(to: .now) < .seconds(5))
            #expect(await !first.isLeftToOthers)
            let second = try await joining.value
            #expect(try await answers(second))
            try await second.release()
        }
    }

    @Test("a server that stops is waited for, however long it takes, and then started again")
    func stopping() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let started = try postmaster(cluster)
            var session: PostgresConnection? = try await PostgresConnection.connect(cluster.ownerConninfo)
            // A smart shutdown: nobody is let in any more, and whoever is there may stay.
            kill(started, SIGTERM)
            // A machine was seen to let no process get on for seven seconds.
            let patient = EmbeddedCluster.Options(
                durability: .throwaway, startLimit: .seconds(90), silenceLimit: .seconds(12))
            let joining = Task { try await EmbeddedCluster.acquire(dataDirectory: scratch, options: patient) }
            try await Task.sleep(for: .seconds(15))
            try await session?.execute(script: "SELECT 1")
            session = nil
            let next = try await joining.value
            #expect(try postmaster(next) != started)
            #expect(try await answers(next))
            try await cluster.release()
            try await next.release()
        }
    }

    @Test("whoever holds the start lock is waited for, unless that is called off")
    func calledOff() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            let lock = open(scratch + "/postgres.start.lock", O_RDONLY | O_CLOEXEC)
            #expect(flock(lock, LOCK_EX | LOCK_NB) == 0)
            let calledOff = EmbeddedCluster.Options(durability: .throwaway, isCalledOff: { true })
            await #expect(throws: CancellationError.self) {
                _ = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: calledOff)
            }
            let joining = Task { try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options) }
            try await Task.sleep(for: .seconds(1))
            #expect(access(scratch + "/postgres/postmaster.pid", F_OK) != 0)
            close(lock)
            let next = try await joining.value
            #expect(try await answers(next))
            try await next.release()
        }
    }

    @Test("a server that was just started for what is called off is stopped again")
    func calledOffAfterStart() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            let asked = Atomic(0)
            // Nobody holds the start lock, so it is asked for the first time there, and then once the server was started.
            let calledOff = EmbeddedCluster.Options(
                durability: .throwaway, isCalledOff: { asked.add(1, ordering: .relaxed).newValue > 1 })
            await #expect(throws: CancellationError.self) {
                _ = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: calledOff)
            }
            #expect(access(scratch + "/postgres/postmaster.pid", F_OK) != 0)
        }
    }

    // MARK: - Looking from outside

    private func answers(_ cluster: EmbeddedCluster) async throws -> Bool {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.connect(cluster.serveConninfo)
            return await connection.isBroken == false
        } catch {
            guard error.kind == .connection else { throw error }
            return false
        }
    }

    private func postmaster(_ cluster: EmbeddedCluster) throws -> pid_t {
        let text = try String(contentsOfFile: cluster.dataDirectory + "/postgres/postmaster.pid", encoding: .utf8)
        return try #require(text.split(whereSeparator: \.isNewline).first.flatMap { pid_t($0) })
    }

    private func socketDirectory(_ cluster: EmbeddedCluster) -> String {
        String(cluster.ownerConninfo.drop { $0 != "=" }.dropFirst().prefix { $0 != " " })
    }

    private func name(_ path: String) -> String { String(path.split(separator: "/").last ?? "") }
}
