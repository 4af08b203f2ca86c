import Foundation
import StoreSimulator
import Synchronization
import TestSupport
import Testing

/// What endpoints of webhooks are told, while everything fails: the receiver, and the services that tell it.
///
/// How promptly time is told is measured at the end, when nobody is killed any more, at the receiver that never fails, beside
/// the other one: from the instant that a message names to its arrival, by the same clock. What a plain read of the services
/// took meanwhile beyond a twentieth of a second is allowed on top, for then the machine was at something else.
@Suite("Webhooks while everything fails", .serialized)
struct WebhookCampaignTests {
    private static let worlds = 3
    private static let steps = 45
    /// Things that end in the quiet at the end.
    private static let promptEnds = 16

    @Test(
        "no endpoint misses a change, each message goes on where the one before ended, in order, and time is told within a second",
        .timeLimit(.minutes(10)), arguments: 1...UInt64(Campaign.factor))
    func campaign(seed: UInt64) async throws {
        let stage = try await WebhookStage.start(seed: seed)
        defer { stage.end() }
        stage.troubled.trouble(true)
        let worlds = (0..<Self.worlds).map { WebhookWorld(stage, number: $0) }
        let names = Set(worlds.flatMap(\.names))

        let disturbance = Task { try await stage.disturb() }
        let outcome = await Task {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, world) in worlds.enumerated() {
                    group.addTask {
                        var world = world
                        try await world.live(steps: Self.steps, changesCatalog: index == 0)
                    }
                }
                try await group.waitForAll()
            }
            // However fast the machine is.
            while stage.fleet.kills < 3 { try await Task.sleep(for: .milliseconds(100)) }
        }.result
        disturbance.cancel()
        try await disturbance.value
        try outcome.get()

        try await expectPromptness(stage)
        try await settle(stage, names)
        for endpoint in [stage.everything, stage.app, stage.healthy] {
            let told = try stage.told(endpoint)
            told.expectChains("\(stage.context) \(endpoint.path)")
            try await expectAnswers(told, endpoint, stage, names)
        }
        try await expectEvents(stage)
        try expectTested(stage)
        for index in 0..<stage.fleet.count { #expect(stage.fleet.service(index).stop() == 0, "\(stage.context)") }
    }

    // MARK: - In the end

    /// Waits until nothing waits any more, and everybody's last message is what they are answered.
    private func settle(_ stage: WebhookStage, _ names: Set<CustomerKey>) async throws {
        let end = ContinuousClock.now + .seconds(180)
        while ContinuousClock.now < end {
            let list = try await stage.send("GET", "/v1/webhook_endpoints")
            let items = try #require(list.json["items"] as? [[String: Any]], "\(stage.context): \(list.text)")
            let waiting = items.compactMap { ($0["waiting"] as? NSNumber)?.intValue }.reduce(0, +)
            if waiting == 0, try await areAnswersTold(stage, names) { return }
            try await Task.sleep(for: .milliseconds(200))
        }
        let list = try await stage.send("GET", "/v1/webhook_endpoints")
        Issue.record("\(stage.context): not everything was told after three minutes: \(list.text)")
    }

    private func areAnswersTold(_ stage: WebhookStage, _ names: Set<CustomerKey>) async throws -> Bool {
        for endpoint in [stage.everything, stage.app, stage.healthy] {
            let told = try stage.told(endpoint)
            for line in told.lines.keys {
                guard try await stage.entitlements(of: line, by: endpoint.readingKey) == told.last(line) else {
                    return false
                }
            }
        }
        return true
    }

    /// The last message of each customer is what they are answered; of whom nothing was told, there is nothing to tell, unless
    /// it is told of the customer whom they are linked to.
    private func expectAnswers(
        _ told: ToldLines, _ endpoint: WebhookStage.Endpoint, _ stage: WebhookStage, _ names: Set<CustomerKey>
    ) async throws {
        let asked = names.filter { endpoint.environments.contains($0.environment) }.map {
            ToldLines.Line(customer: $0.customerID, environment: $0.environment.rawValue)
        }
        for line in Set(asked).union(told.lines.keys) {
            let answered = try await stage.entitlements(of: line, by: endpoint.readingKey)
            if told.lines[line] != nil {
                #expect(told.last(line) == answered, "\(stage.context) \(endpoint.path): \(line)")
            } else if answered != canonical([String]()) {
                let others = told.lines.keys.filter { $0.environment == line.environment }
                #expect(
                    others.contains { told.last($0) == answered },
                    "\(stage.context) \(endpoint.path): nobody was told \(answered) of \(line)")
            }
        }
    }

    /// Every event after the endpoint's own was told once, as the log lists it.
    private func expectEvents(_ stage: WebhookStage) async throws {
        let endpoint = try await stage.send("GET", "/v1/webhook_endpoints/\(stage.healthy.id)")
        let made = try #require((endpoint.json["position"] as? NSNumber)?.int64Value, "\(endpoint.text)")
        let events = try await HTTPClient(stage.fleet.service(0).url, key: stage.admin).events(after: made)
        let told = try stage.told(stage.healthy).others.filter { $0.type == "event.recorded" }
        let positions = events.compactMap { ($0["position"] as? NSNumber)?.int64Value }
        #expect(told.compactMap(\.position).sorted() == positions, "\(stage.context)")
        let listed = Dictionary(zip(positions, events)) { first, _ in first }
        for message in told {
            guard let event = message.position.flatMap({ listed[$0] }) else { continue }
            #expect(canonical(message.data) == canonical(event), "\(stage.context): \(message.id)")
        }
    }

    /// The campaign met what it is about.
    private func expectTested(_ stage: WebhookStage) throws {
        let arrivals = stage.troubled.arrivals(at: stage.everything.path)
        let told = try stage.told(stage.everything)
        let causes = told.lines.values.flatMap(\.self).compactMap {
            ($0.data["cause"] as? [String: Any])?["kind"] as? String
        }
        for cause in ["event", "catalog", "time"] {
            #expect(causes.contains(cause), "\(stage.context): nothing was changed by \(cause)")
        }
        #expect(Set(told.lines.keys.map(\.environment)) == ["production", "sandbox"], "\(stage.context)")
        #expect(told.lines.count > 5 && causes.count > 60, "\(stage.context): \(causes.count) changes")
        #expect(try stage.told(stage.app).lines.count > 2, "\(stage.context)")
        let failures = arrivals.count { !$0.manner.isTaken }
        #expect(failures > 10 && told.repetitions > 10, "\(stage.context): \(failures) failures")
        #expect(stage.fleet.kills >= 3, "\(stage.context)")
    }

    // MARK: - Promptness

    /// Ends a number of things, and holds each message about it to a second after that.
    private func expectPromptness(_ stage: WebhookStage) async throws {
        var world = WebhookWorld(stage, number: Self.worlds)
        let people = (0..<Self.promptEnds).map { CustomerKey($0 % 2 == 0 ? .production : .sandbox, "prompt-\($0)") }
        let watch = MachineWatch()
        let watching = Task { try await watch.run(stage) }
        for (index, person) in people.enumerated() {
            try await world.grantForSeconds(person, 2.5 + 0.13 * Double(index))
        }
        let told = try await ends(of: Set(people.map(\.customerID)), stage)
        watching.cancel()
        try await watching.value
        #expect(told.count == people.count, "\(stage.context): only \(told.count) ends were told within a minute")
        for message in told {
            guard let instant = message.timeOfChange else { continue }
            let late = message.arrivedAt - instant
            let excused = watch.delay(from: instant, to: message.arrivedAt)
            #expect(
                late >= 0 && late <= 1000 + excused,
                "\(stage.context): \(message.id) came \(late) ms after its instant, of which the machine took \(excused)"
            )
        }
    }

    /// The messages about some people's ends, once there is one for each.
    private func ends(of people: Set<String>, _ stage: WebhookStage) async throws -> [ToldLines.Message] {
        let end = ContinuousClock.now + .seconds(60)
        while true {
            let told = try stage.told(stage.healthy).lines.filter { people.contains($0.key.customer) }.values
                .flatMap(\.self).filter { $0.timeOfChange != nil }
            if told.count >= people.count || ContinuousClock.now > end { return told }
            try await Task.sleep(for: .milliseconds(200))
        }
    }
}

/// How long plain reads of the services take, which is how long the machine is at something else.
private final class MachineWatch: Sendable {
    /// What such a read may take, in milliseconds.
    private static let usual: Int64 = 50

    private let reads = Mutex<[(begin: Int64, end: Int64)]>([])

    /// Reads until it is cancelled.
    func run(_ stage: WebhookStage) async throws {
        while !Task.isCancelled {
            let begin = WebhookWorld.now
            // The wait is not cut short by the end of the watch.
            _ = try await Task { try await stage.send("GET", "/v1/ledger") }.value
            reads.withLock { $0.append((begin, WebhookWorld.now)) }
            try? await Task.sleep(for: .milliseconds(20))
        }
    }

    /// What reads took beyond the usual between two instants, in milliseconds.
    func delay(from begin: Int64, to end: Int64) -> Int64 {
        reads.withLock { reads in
            reads.filter { $0.begin < end && $0.end > begin }.map { max(0, $0.end - $0.begin - Self.usual) }.reduce(
                0, +)
        }
    }
}
