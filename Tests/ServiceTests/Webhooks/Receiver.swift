import EntitlementAPI
import Synchronization
import TestSupport
import Testing

/// A receiver of webhooks, which keeps what it took.
final class Receiver: Sendable {
    struct Message: Sendable {
        let id: String
        let type: String
        let data: WireValue
        /// The body, byte for byte.
        let text: String
        /// By their names in lower case.
        let headers: [String: String]
    }

    private final class Taken: Sendable { let messages = Mutex<[Message]>([]) }

    private let server: HostileServer
    private let taken: Taken

    /// - Parameter reply: to a request, and how many came before; one that is answered 200 is taken.
    init(
        _ reply: @escaping @Sendable (HostileServer.Request, Int) -> HostileServer.Reply = { _, _ in .answer(200, "") }
    ) throws {
        let taken = Taken()
        self.taken = taken
        server = try HostileServer { request, number in
            let answer = reply(request, number)
            if case .answer(200, _, _) = answer, let message = Message(request) {
                taken.messages.withLock { $0.append(message) }
            }
            return answer
        }
    }

    deinit { server.stop() }

    var url: String { server.url + "/hook" }

    /// What was taken, in its order.
    var messages: [Message] { taken.messages.withLock { $0 } }

    /// What was sent, taken or not.
    var requests: [HostileServer.Request] { server.requests }

    /// Waits until what was taken is as told.
    func wait(_ what: Comment, until isMet: ([Message]) -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(20)
        while !isMet(messages) {
            guard ContinuousClock.now < end else {
                Issue.record("\(what): there came \(messages.map(\.text))")
                return
            }
            try await Task.sleep(for: .milliseconds(5))
        }
    }
}

extension Receiver.Message {
    fileprivate init?(_ request: HostileServer.Request) {
        guard let body = try? WireJSON.decode(WireValue.self, from: Array(request.body.utf8)),
            case .string(let type)? = (body["event"] ?? body)["type"], let id = request.headers["webhook-id"],
            let data = body["event"] ?? body["data"]
        else { return nil }
        self.init(id: id, type: type, data: data, text: request.body, headers: request.headers)
    }
}
