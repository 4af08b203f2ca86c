import EntitlementAPI
import HTTPServer
import TestSupport
import Testing

@Suite("Webhooks: several at once, and one after the other", .timeLimit(.minutes(1)))
struct EndpointRaceTests {
    @Test("each of many endpoints made at once is answered, with a secret of its own that is told this once")
    func atOnce() async throws {
        let rig = try await ServiceRig.make()
        for round in 0..<8 {
            let answers = try await withThrowingTaskGroup(of: (status: Int, body: WireValue).self) { group in
                for number in 0..<16 {
                    group.addTask {
                        let answer = try await rig.createEndpoint(#""url":"http://127.0.0.1:1/\#(round)-\#(number)""#)
                        return (answer.status, try answer.json)
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.map(\.status) == Array(repeating: 200, count: 16))
            let secrets = answers.compactMap { answer -> String? in
                guard case .string(let secret)? = answer.body["secret"] else { return nil }
                return secret
            }
            #expect(Set(secrets).count == 16)
        }
    }

    @Test("what was under way when a service stopped in order is sent by the next one at once")
    func stopped() async throws {
        let rig = try await ServiceRig.make()
        let isBack = Tally(0)
        let receiver = try Receiver { _, _ in isBack.isUp ? .answer(200, "") : .silence }
        _ = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        for customer in 1...3 {
            _ = try await rig.command("grant", "c-\(customer)", #"{"entitlement":"premium","reason":"r"}"#)
        }
        try await rig.telling {
            while receiver.requests.count < 3 { try await Task.sleep(for: .milliseconds(5)) }
        }
        isBack.put(1)
        // It would be a minute, had the first one died.
        try await rig.telling { try await receiver.wait("the next service's") { $0.count == 3 } }
    }
}
