import Foundation
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// A store that delivers the notifications of a life, and now and then breaks off in the middle of one.
actor StoreDelivery {
    private let fleet: InstanceFleet
    private let life: StoreLife
    private let bodies: [[UInt8]]
    private let seed: UInt64
    private var random: SplitMix64
    private var pending: [Int]
    /// What was said of each notification that was acknowledged.
    private(set) var positions: [Int: Int64] = [:]
    /// How many requests were broken off.
    private(set) var brokenOff = 0

    init(_ life: StoreLife, to fleet: InstanceFleet, seed: UInt64) throws {
        self.fleet = fleet
        self.life = life
        self.seed = seed
        bodies = try life.notifications.map {
            try SimulatedAuthority.requestBody(fleet.installation.authority.sign($0))
        }
        random = SplitMix64(seed: seed &* 17)
        pending = random.shuffled(Array(bodies.indices))
    }

    /// Delivers one after the other, each until it is acknowledged and some of them twice, as long as that is wanted.
    func deliver(while isWanted: @Sendable () -> Bool) async throws {
        while isWanted() {
            try await Task.sleep(for: .milliseconds(random.number(in: 20...120)))
            guard let index = random.chance(10) ? positions.keys.sorted().first : pending.popLast() else { continue }
            try await deliver(index)
        }
    }

    /// Delivers what is left.
    func finish() async throws {
        while let index = pending.popLast() { try await deliver(index) }
    }

    private func deliver(_ index: Int) async throws {
        let end = ContinuousClock.now + .seconds(150)
        while true {
            try #require(ContinuousClock.now < end, "seed \(seed): notification \(index) is never acknowledged")
            let client = HTTPClient(fleet.service(0).url, attempts: 1)
            if let answer = try? await client.send("POST", "/v1/notifications/appstore", body: bodies[index]),
                answer.status != 503
            {
                try #require(answer.status == 200, "seed \(seed): \(answer.status) \(answer.text)")
                let position = try #require((answer.json["position"] as? NSNumber)?.int64Value)
                #expect(positions[index] ?? position == position, "seed \(seed): \(index) moved")
                positions[index] = position
                return
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    // MARK: - Clients that are lost

    /// Begins requests over sockets that end anywhere in them: by a reset, by a close, or after the last byte.
    func breakOff(_ count: Int) async throws {
        for _ in 0..<count {
            let request = request(random.pick(pending.isEmpty ? Array(bodies.indices) : pending))
            let isWhole = random.chance(30)
            let length = isWhole ? request.count : Int(random.number(in: 1...Int64(request.count - 1)))
            let isReset = random.chance(50)
            let url = fleet.service(0).url
            brokenOff += 1
            // Whether the service was there at all is not the question.
            try? await onThread {
                let socket = try RawSocket(url, limit: .seconds(2))
                if isReset { socket.resetWhenClosed() }
                try socket.send(request.prefix(length))
            }
        }
    }

    /// Kills a client program while it sends.
    func killClient() async throws {
        let file = fleet.installation.directory.appending(path: "body-\(random.next())")
        try Data(bodies[random.pick(pending.isEmpty ? Array(bodies.indices) : pending)]).write(to: file)
        let client = Process()
        client.executableURL = URL(filePath: "/usr/bin/env")
        client.arguments = [
            "curl", "--silent", "--limit-rate", "16k", "--data-binary", "@\(file.path())",
            fleet.service(0).url.appending(path: "v1/notifications/appstore").absoluteString,
        ]
        client.standardOutput = FileHandle.nullDevice
        client.standardError = FileHandle.nullDevice
        try await client.runWithAllSignals()
        try? await Task.sleep(for: .milliseconds(random.number(in: 1...900)))
        kill(client.processIdentifier, SIGKILL)
        client.waitForEnd()
        brokenOff += 1
    }

    private func request(_ index: Int) -> [UInt8] {
        let length = bodies[index].count
        let head = "POST /v1/notifications/appstore HTTP/1.1\r\nHost: test\r\nContent-Length: \(length)\r\n\r\n"
        return Array(head.utf8) + bodies[index]
    }

    // MARK: - What must be in the log

    /// What the store knows of everybody.
    nonisolated var record: Record { life.record }

    /// Holds the log against what was acknowledged.
    func expectExactLog(_ events: [[String: Any]]) {
        let positions = events.map { ($0["position"] as? NSNumber)?.intValue }
        #expect(positions == Array(1...events.count), "seed \(seed): positions are not dense")
        var previous: String? = String(repeating: "0", count: 64)
        for event in events {
            #expect(event["previous_hash"] as? String == previous, "seed \(seed): at \(event["position"] ?? "?")")
            previous = event["hash"] as? String
        }
        let uuids = events.map { ($0["notification"] as? [String: Any])?["uuid"] as? String }
        let known = uuids.compactMap(\.self)
        #expect(Set(known).count == known.count, "seed \(seed): a notification is in the log twice")
        #expect(self.positions.count == life.notifications.count, "seed \(seed)")
        for (index, position) in self.positions {
            #expect(uuids[Int(position) - 1] == life.notifications[index].uuid.lowercased(), "seed \(seed): \(index)")
        }
    }
}
