import EntitlementAPI
import HTTPServer
import Synchronization
import Testing

@testable import Service

extension ServiceRig {
    /// Runs what tells the endpoints while the body runs.
    func telling(_ body: () async throws -> Void) async throws {
        let work = Task { await webhookWork.run() }
        do {
            try await body()
        } catch {
            work.cancel()
            await work.value
            throw error
        }
        work.cancel()
        await work.value
    }

    func createEndpoint(_ members: String, key: String? = nil) async throws -> HTTPResponse {
        try await send("POST", "/v1/webhook_endpoints", key: key ?? admin, body: Array("{\(members)}".utf8))
    }

    func endpoint(_ receiver: Receiver, _ more: String = "") async throws -> WireValue {
        let answer = try await createEndpoint(#""url":"\#(receiver.url)"\#(more)"#)
        #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
        return try answer.json
    }

    /// Of an answer that shows an endpoint.
    static func id(_ endpoint: WireValue) throws -> String {
        guard case .string(let id)? = endpoint["id"] else { throw CancellationError() }
        return id
    }
}

/// A number that threads take from.
final class Tally: Sendable {
    private let count: Mutex<Int>

    init(_ count: Int) { self.count = Mutex(count) }

    var isUp: Bool { count.withLock { $0 > 0 } }

    func put(_ value: Int) { count.withLock { $0 = value } }

    func take() -> Bool {
        count.withLock { count in
            guard count > 0 else { return false }
            count -= 1
            return true
        }
    }
}
