import EntitlementAPI
import HTTPServer
import Testing

@Suite("Webhooks: endpoints made at once", .timeLimit(.minutes(1)))
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
}
