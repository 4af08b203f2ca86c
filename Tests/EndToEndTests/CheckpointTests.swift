import EmbeddedPostgres
import Foundation
import PostgresClient
import Testing

/// What a checkpoint that was kept elsewhere shows, and the database alone cannot.
@Suite("Checkpoints, from the command line", .serialized)
struct CheckpointTests {
    private static func grant(_ client: HTTPClient, _ range: ClosedRange<Int>) async throws {
        for number in range {
            let answer = try await client.send(
                "POST", "/v1/customers/c-\(number)/actions/grant",
                body: Array(#"{"entitlement":"premium","reason":"r"}"#.utf8))
            #expect(answer.status == 200, "\(answer.text)")
        }
    }

    @Test("a rewritten log, a cut tail and a restored backup verify by themselves, and not against a checkpoint")
    func rewritten() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let directory = installation.dataDirectory.path()
        let files = (0..<3).map { "\(directory)/checkpoint-\($0)" }
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: directory)
        do {
            let service = try await ServiceProcess.start(installation)
            defer { service.stop() }
            let client = HTTPClient(service.url, key: key)
            _ = try await installation.rightful("checkpoint", "--output", files[0])
            // They come after the API key and the key of passes.
            try await Self.grant(client, 1...300)
            let said = try await installation.rightful("checkpoint", "--output", files[1])
            #expect(said == "wrote a checkpoint of 302 events to \(files[1])\n")
            let served = try await client.send("GET", "/v1/ledger/checkpoint")
            #expect(try served.text == String(contentsOfFile: files[1], encoding: .utf8), "the same log, the same note")
            let ledger = try #require(try await client.send("GET", "/v1/ledger").json["ledger_id"] as? String)
            #expect(served.text.hasPrefix("rightful/\(ledger)\n"))
            for file in files[0...1] {
                let verified = try await installation.rightful("verify", "--since", file)
                #expect(verified.contains("are those of the checkpoint"), "\(verified)")
            }
            try await Self.grant(client, 301...304)
            _ = try await installation.rightful("checkpoint", "--output", files[2])

            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            // Roots over what is cut off are stored by then; 20 s at most.
            for _ in 0..<200 {
                let stored = try await owner.query("SELECT checkpoint FROM projection WHERE name = 'tree'").first
                if try stored?.int(0) == 306 { break }
                try await Task.sleep(for: .milliseconds(100))
            }
            try await owner.execute(
                script: """
                    ALTER TABLE event DISABLE TRIGGER event_append_only;
                    ALTER TABLE event_name DISABLE TRIGGER event_name_append_only;
                    DELETE FROM event WHERE position > 300;
                    DELETE FROM event_name WHERE position > 300;
                    UPDATE ledger_head SET (position, recorded_at, hash) = (
                        SELECT position, recorded_at, hash FROM event ORDER BY position DESC LIMIT 1),
                        next_identity = 299;
                    DELETE FROM identity WHERE identity >= 299;
                    UPDATE projection SET checkpoint = least(checkpoint, 300);
                    DELETE FROM tree_node WHERE (number + 1) << (4 * level) > 300
                    """)
            #expect(try await installation.rightful("verify").hasPrefix("verified: "))
            let cut = try await installation.run(["verify", "--since", files[1]])
            #expect(cut.status == 1 && cut.errors.contains("its end was cut off"), "\(cut.errors)")
            // As after a restored backup, the log grows again, with other events.
            try await Self.grant(client, 401...410)
            #expect(try await installation.rightful("verify").hasPrefix("verified: "))
            _ = try await installation.rightful("verify", "--since", files[0])
            for file in files[1...2] {
                let other = try await installation.run(["verify", "--since", file])
                #expect(other.status == 1 && other.errors.contains("are not those it was made of"), "\(other.errors)")
            }
            try await cluster.release()
        } catch {
            try? await cluster.release()
            throw error
        }
    }

    @Test("a checkpoint that cannot be written says why")
    func unwritable() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let disk = installation.directory.appending(path: "disk")
        let (absent, full) = (installation.directory.appending(path: "absent/note").path(), disk.path() + "/note")
        let refused = try await installation.run(["checkpoint", "--output", absent])
        #expect(refused.errors == "rightful: \(absent): cannot be written: No such file or directory\n")
        try FileManager.default.createDirectory(at: disk, withIntermediateDirectories: true)
        guard let small = SmallDisk(mountedOver: disk) else { return }
        defer { small.unmount() }
        small.fill()
        let (status, output, errors) = try await installation.run(["checkpoint", "--output", full])
        #expect(status == 1 && output.isEmpty)
        #expect(errors == "rightful: \(full): cannot be written: No space left on device\n")
    }

    @Test("what is no checkpoint of this log is refused in words")
    func foreign() async throws {
        let (one, two) = (try await Installation(), try await Installation())
        defer {
            one.remove()
            two.remove()
        }
        let file = "\(one.dataDirectory.path())/note"
        _ = try await one.rightful("checkpoint", "--output", file)
        // Copies of one database, as the test's installations are, have one id and keys of their own.
        _ = try await two.rightful("checkpoint")
        let copy = try await two.run(["verify", "--since", file])
        #expect(copy.status == 1 && copy.errors.contains("was not signed by the log's key"), "\(copy.errors)")
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: two.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(script: "UPDATE ledger_head SET own_id = gen_random_uuid()")
        try await cluster.release()
        let foreign = try await two.run(["verify", "--since", file])
        #expect(foreign.status == 1 && foreign.errors.contains("is a checkpoint of rightful/"), "\(foreign.errors)")
        let note = try String(contentsOfFile: file, encoding: .utf8)
        try note.replacing("\n0\n", with: "\n1\n").write(toFile: file, atomically: true, encoding: .utf8)
        let edited = try await one.run(["verify", "--since", file])
        #expect(edited.status == 1 && edited.errors.contains("was not signed by the log's key"), "\(edited.errors)")
        try "nonsense\n".write(toFile: file, atomically: true, encoding: .utf8)
        let nonsense = try await one.run(["verify", "--since", file])
        #expect(nonsense.status == 1 && nonsense.errors.contains("is no checkpoint"), "\(nonsense.errors)")
        // A key that was made anew is another one; what the first one signed is checked by what was published of it.
        let keyFile = "\(one.dataDirectory.path())/log-key.pem"
        _ = try await one.rightful("checkpoint", "--output", file)
        let service = try await ServiceProcess.start(one)
        let published = try await HTTPClient(service.url, key: "").send("GET", "/.well-known/rightful-log-key").text
            .trimmingCharacters(in: .whitespacesAndNewlines)
        service.stop()
        try FileManager.default.removeItem(atPath: keyFile)
        let lost = try await one.run(["verify", "--since", file])
        #expect(lost.status == 1 && lost.errors.contains("log-key.pem"), "\(lost.errors)")
        #expect(!FileManager.default.fileExists(atPath: keyFile), "verifying writes nothing")
        _ = try await one.rightful("checkpoint")
        #expect(try await one.run(["verify", "--since", file]).errors.contains("give --log-key"))
        _ = try await one.rightful("verify", "--since", file, "--log-key", published)
        #expect(try await one.run(["verify", "--since", file, "--log-key", "nonsense"]).status == 2)
        let mode = try FileManager.default.attributesOfItem(atPath: "\(one.dataDirectory.path())/log-key.pem")
        #expect(mode[.posixPermissions] as? Int == 0o600)
    }
}
