import EntitlementCore
import Foundation
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
        let key = try await installation.rightful("keys", "create", "--name", "test", "--scopes", "admin")
            .trimmingCharacters(in: .whitespacesAndNewlines)
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
