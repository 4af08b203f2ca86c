import EntitlementCore
import Foundation
import Ledger
import StoreSimulator
import Testing

@testable import rightful

/// `rightful explain` and `rightful export`, as an operator uses them.
@Suite("Explaining on the command line", .serialized)
struct ExplainCommandTests {
    @Test("the command says what HTTP says, and so does a file of the export, without a database")
    func threeWays() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        let life = StoreLife.random(seed: 5, world: installation.world, customers: 3)
        for notification in life.notifications {
            let answer = try await client.notify(installation.authority.sign(notification))
            #expect(answer.status == 200, "\(answer.text)")
        }
        let head = try await client.head()
        let elsewhere = try await Installation(isFresh: true)
        defer { elsewhere.remove() }
        for customer in life.record.customers {
            let (id, environment) = (customer.customerID, customer.environment.rawValue)
            let file = installation.directory.appending(path: "export.json").path()
            let said = try await installation.rightful("export", id, "--output", file)
            #expect(said.hasPrefix("wrote "))
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? NSNumber
            #expect(mode?.intValue == 0o600)
            let exported = try String(contentsOfFile: file, encoding: .utf8)
            for other in life.record.customers where other.customerID != id && !other.customerID.hasPrefix("apple:") {
                #expect(!exported.contains(other.customerID), "an export names somebody else")
            }
            let instants = life.record.customer(customer).boundaryInstants
            for instant in [instants.first, instants.dropFirst(instants.count / 2).first].compactMap(\.self) {
                let at = "\(Timestamp(milliseconds: instant))"
                for position in [head, head / 2] {
                    let options = ["--environment", environment, "--at", at, "--known-at", "\(position)", "--json"]
                    let online = try await client.send(
                        "GET", "/v1/customers/\(id)/explain",
                        query: ["environment": environment, "at": at, "known_at": "\(position)"])
                    #expect(online.status == 200)
                    let typed = try await installation.run(["explain", id] + options)
                    #expect(typed.output == online.text + "\n", "\(typed.errors)")
                    let offline = try await elsewhere.run(["explain", id, "--from", file] + options)
                    #expect(offline.output == online.text + "\n", "\(offline.errors)")
                }
            }
        }
        #expect(elsewhere.postmaster == nil, "a file needs no database")
        #expect(!FileManager.default.fileExists(atPath: elsewhere.dataDirectory.path()))

        let id = try #require(life.record.customers.first?.customerID)
        let file = installation.directory.appending(path: "export.json").path()
        let wrong = try await elsewhere.run(["explain", "somebody", "--from", file])
        #expect(wrong.status == 1 && wrong.errors.contains("another customer"))
        try await Self.checkEdits(
            of: file, about: try #require(life.record.customers.last), installation, elsewhere, client)
        let missing = try await elsewhere.run(["explain", id, "--from", file + ".none"])
        #expect(missing.status == 1 && missing.errors.contains("cannot be read"))
        let nobody = try await installation.run(["export", "nobody"])
        #expect(nobody.status == 1 && nobody.errors.contains("nothing is known"))
        let text = try await installation.rightful("explain", id, "nonsense")
        #expect(text.contains("nonsense: closed (unknown_entitlement)"))
        #expect(!text.contains("█"), "nothing is drawn where nobody watches")
        #expect(try await installation.run(["explain"]).status == 2)
        #expect(try await installation.run(["explain", "a", "b", "c"]).status == 2)
        #expect(try await installation.run(["explain", "a", "--from", file, "--data-dir", "x"]).status == 2)
    }

    /// Whatever is changed of a file, it is refused.
    private static func checkEdits(
        of file: String, about customer: CustomerKey, _ installation: Installation, _ elsewhere: Installation,
        _ client: HTTPClient
    ) async throws {
        let published = try await client.send("GET", "/.well-known/rightful-log-key").text
            .trimmingCharacters(in: .whitespacesAndNewlines)
        func explain(_ file: String, _ options: String...) async throws -> (status: Int32, errors: String) {
            let run = try await elsewhere.run(
                [
                    "explain", customer.customerID, "--environment", customer.environment.rawValue, "--from", file,
                ] + options)
            return (run.status, run.errors)
        }
        let genuine = try await explain(file, "--log-key", published)
        #expect(genuine.status == 0 && genuine.errors.isEmpty, "\(genuine.errors)")
        #expect(try await explain(file).errors.contains("give --log-key"))

        let data = try Data(contentsOf: URL(filePath: file))
        var edits: [(name: String, change: (inout [String: Any]) -> Void)] = []
        edits.append(("an event left out", { $0["events"] = Array(($0["events"] as? [Any] ?? []).dropLast()) }))
        edits.append(
            (
                "somebody else's name",
                { document in
                    var identities = document["identities"] as? [[String: Any]] ?? []
                    identities[0]["value"] = "somebody"
                    document["identities"] = identities
                }
            ))
        edits.append(
            (
                "a later end of the log",
                { document in
                    var ledger = document["ledger"] as? [String: Any] ?? [:]
                    ledger["position"] = (ledger["position"] as? Int ?? 0) + 1000
                    document["ledger"] = ledger
                }
            ))
        edits.append(("no checkpoint", { $0["checkpoint"] = NSNull() }))
        for edit in edits {
            var document = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
            edit.change(&document)
            let changed = installation.directory.appending(path: "changed.json")
            try JSONSerialization.data(withJSONObject: document, options: .withoutEscapingSlashes).write(to: changed)
            let refused = try await explain(changed.path())
            #expect(refused.status == 1 && refused.errors.contains("changed"), "\(edit.name): \(refused.errors)")
        }
        let foreign = LogVerifier(name: "another", publicKey: [UInt8](repeating: 7, count: 32)).text
        let refused = try await explain(file, "--log-key", foreign)
        #expect(refused.status == 1 && refused.errors.contains("was not signed by the log's key"), "\(refused.errors)")
    }

    @Test("a file decides as the ledger does, and says where that may give more of a reason")
    func others() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        func order(_ customer: String, _ action: String, _ body: String) async throws -> Int {
            let answer = try await client.send(
                "POST", "/v1/customers/\(customer)/actions/\(action)", body: Array(body.utf8))
            try #require(answer.status == 200, "\(answer.text)")
            return try #require(answer.json["position"] as? Int)
        }
        _ = try await order("former", "grant", #"{"entitlement":"premium","reason":"r"}"#)
        _ = try await order("asked", "grant", #"{"entitlement":"archive","reason":"r"}"#)
        let file = installation.directory.appending(path: "export.json").path()
        func compare() async throws -> (decisions: [Bool], errors: String) {
            try? FileManager.default.removeItem(atPath: file)
            try await installation.rightful("export", "asked", "--output", file)
            let at = "\(Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)))"
            let read = try await installation.run([
                "explain", "asked", "premium", "--from", file, "--at", at, "--json",
            ])
            let asked = try await client.send(
                "GET", "/v1/customers/asked/explain", query: ["entitlement": "premium", "at": at])
            let answers = [read.output, asked.text].map { text in
                let document = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
                let decision = (document?["entitlements"] as? [[String: Any]])?.first?["decision"] as? [String: Any]
                return decision?["gives_access"] as? Bool
            }
            return (answers.compactMap(\.self), read.errors)
        }
        let before = try await compare()
        #expect(before.decisions == [false, false] && !before.errors.contains("other customers"), "\(before)")
        let link = try await order("asked", "link", #"{"customer_id":"former","reason":"r"}"#)
        let during = try await compare()
        #expect(during.decisions == [true, true] && !during.errors.contains("other customers"), "\(during)")
        _ = try await order("asked", "link", #"{"undo":\#(link),"reason":"r"}"#)
        let after = try await compare()
        #expect(after.decisions == [false, false], "\(after)")
        #expect(after.errors.contains("has no events of other customers"), "\(after)")
    }

    @Test("a timeline is drawn with its states, its ends and the instant")
    func drawing() throws {
        var log = try ToldLog(catalog: Catalog(StoreWorld.standard))
        let life = try #require(Scenario.all.first).life()
        for notification in life.notifications { try log.receive(notification) }
        let customer = try #require(life.record.customers.first)
        let history = log.history(of: customer)
        let timeline = try #require(history.facts().timelines().first)
        let first = try #require(timeline.readings.first?.start)
        let drawing = TimelineDrawing(timeline: timeline, policy: AccessPolicy(), instant: first, mark: "now")
        #expect(drawing.lines.count == 4)
        #expect(drawing.lines[0].hasPrefix("\(first)".prefix(10)))
        #expect(drawing.lines.prefix(2).allSatisfy { $0.count == TimelineDrawing.width })
        #expect(drawing.lines[1].first == "█")
        #expect(drawing.lines[2] == "▲ now")
        #expect(drawing.lines[3].hasPrefix("█ active"))
        let late = TimelineDrawing(timeline: timeline, policy: AccessPolicy(), instant: .latest, mark: "now")
        #expect(late.lines[2].hasSuffix("now ▲") || late.lines[2].hasSuffix("▲ now"))
        #expect(late.lines.allSatisfy { $0.count <= 80 })
    }
}
