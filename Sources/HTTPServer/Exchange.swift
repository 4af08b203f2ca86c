import CMicroHTTPD
import Synchronization

/// One request and its response.
///
/// Lives from the request line (`handleRequestLine` retains it for libmicrohttpd) to the end of the exchange
/// (`handleCompletion` releases it). libmicrohttpd calls it on the connection's thread, one call at a time; the
/// handler's task and a stopping server come in through `finish` and `abandon`.
final class Exchange: Sendable {
    private enum Phase {
        case receivingHead
        case receivingBody(HTTPRequestHead, RequestTarget, limit: Int)
        /// Refused, but with nothing unread: answered when libmicrohttpd asks, so that the connection can go on.
        case refused(HTTPRefusal, HTTPRequestHead)
        /// The connection is suspended until `finish` or `abandon` resumes it.
        case handling(Task<Void, Never>, HTTPRequestHead, MHDConnection)
        case handled(HTTPResponse, HTTPRequestHead)
        case ended
    }

    private struct State {
        var phase = Phase.receivingHead
        var body: [UInt8] = []
    }

    private let server: ServerCore
    private let client: ClientConnection
    private let target: String
    private let receivedAt: ContinuousClock.Instant
    private let state = Mutex(State())

    init(server: ServerCore, client: ClientConnection, target: String) {
        self.server = server
        self.client = client
        self.target = target
        self.receivedAt = .now
        client.expectRequest(atLatestBy: receivedAt + server.configuration.requestDeadline)
    }

    // MARK: - On libmicrohttpd's thread

    /// Refuses a request at its request line when reading on would go wrong.
    ///
    /// libmicrohttpd stores every query item beside the header fields, and stalls when there is no room left.
    func examineRequestLine() {
        guard target.utf8.count(where: { $0 == UInt8(ascii: "&") }) >= server.maxQueryItems else { return }
        let head = HTTPRequestHead(
            method: "", target: target, remoteAddress: client.remoteAddress, receivedAt: receivedAt)
        cut(.targetTooLong(limit: server.configuration.maxTargetBytes), head)
        client.expectRequest(atLatestBy: receivedAt)
    }

    /// Goes on after the head was read, after the body was read, and after the connection was resumed.
    ///
    /// - Returns: `false` to close the connection.
    func proceed(_ connection: MHDConnection, method: String) -> Bool {
        switch state.withLock({ $0.phase }) {
        case .receivingHead:
            return receiveHead(connection, method: method)
        case .receivingBody(let head, let target, _):
            guard let refusal = handle(head, target, connection) else { return true }
            return refuse(refusal, head, on: connection)
        case .refused(let refusal, let head):
            return refuse(refusal, head, on: connection)
        case .handled(let response, let head):
            return answer(response, to: head, on: connection)
        case .handling: return true
        case .ended: return false
        }
    }

    /// Takes a piece of the body.
    ///
    /// - Returns: `false` to close the connection.
    func receive(_ piece: UnsafeRawBufferPointer) -> Bool {
        let refused: (HTTPRefusal, HTTPRequestHead)? = state.withLock { state in
            guard case .receivingBody(let head, _, let limit) = state.phase else { return nil }
            guard state.body.count + piece.count <= limit else { return (.bodyTooLarge(limit: limit), head) }
            guard server.reserveBody(piece.count) else { return (server.overloaded, head) }
            state.body.append(contentsOf: piece)
            return nil
        }
        guard let refused else { return true }
        cut(refused.0, refused.1)
        return false
    }

    /// Ends the exchange, whatever became of it.
    func end() {
        let (phase, bodyBytes) = state.withLock { state in
            defer { state = State(phase: .ended) }
            return (state.phase, state.body.count)
        }
        if case .handling(let task, _, _) = phase { task.cancel() }
        let configuration = server.configuration
        client.expectRequest(by: .now + configuration.idleTimeout + configuration.requestDeadline)
        server.exchangeEnded(self, bodyBytes: bodyBytes)
    }

    private func receiveHead(_ connection: MHDConnection, method: String) -> Bool {
        let head = HTTPRequestHead(
            method: method, target: target, headers: connection.headers, remoteAddress: client.remoteAddress,
            receivedAt: receivedAt)
        do throws(HTTPRefusal) {
            let framing = try HTTPFraming(head)
            do throws(HTTPRefusal) {
                try server.examine(head, headerBytes: cmhd_header_size(connection.pointer))
                let target = try RequestTarget(head.target)
                let limit = server.bodyLimit(head.method, target.path)
                if let length = framing.contentLength, length > limit { throw .bodyTooLarge(limit: limit) }
                state.withLock { state in
                    state.phase = .receivingBody(head, target, limit: limit)
                    state.body.reserveCapacity(min(framing.contentLength ?? 0, 64 << 10))
                }
            } catch {
                guard !framing.hasBody else { throw error }
                state.withLock { $0.phase = .refused(error, head) }
            }
            return true
        } catch {
            // Answered before the body is read; libmicrohttpd then closes the connection.
            client.lingerWhenClosed()
            return refuse(error, head, on: connection)
        }
    }

    /// Suspends the connection and starts the handler.
    ///
    /// - Returns: why not, if not.
    private func handle(
        _ head: HTTPRequestHead, _ target: RequestTarget, _ connection: MHDConnection
    ) -> HTTPRefusal? {
        client.expectNothing()
        return state.withLock { state in
            if let refusal = server.admit(self) { return refusal }
            let request = HTTPRequest(head: head, target: target, body: state.body)
            connection.suspend()
            let task = Task {
                let response = await server.handler(request)
                self.finish(response)
            }
            state.phase = .handling(task, head, connection)
            return nil
        }
    }

    private func refuse(_ refusal: HTTPRefusal, _ head: HTTPRequestHead, on connection: MHDConnection) -> Bool {
        answer(server.response(to: refusal, head), to: head, on: connection)
    }

    private func answer(_ response: HTTPResponse, to head: HTTPRequestHead, on connection: MHDConnection) -> Bool {
        client.expectReading(by: .now + server.configuration.responseDeadline)
        state.withLock { $0.phase = .ended }
        let closing = server.isDraining
        if connection.queue(response, closing: closing) { return true }
        let refusal = HTTPRefusal.unsendableResponse(
            reason: "status \(response.status), fields \(response.headers.map(\.0).joined(separator: ", "))")
        return connection.queue(server.response(to: refusal, head), closing: closing)
            || connection.queue(refusal.plainResponse, closing: closing)
    }

    /// Answers past libmicrohttpd and ends the exchange.
    private func cut(_ refusal: HTTPRefusal, _ head: HTTPRequestHead) {
        state.withLock { $0.phase = .ended }
        client.sendDirectly(server.response(to: refusal, head).serializedAndClosing)
    }

    // MARK: - From elsewhere

    /// Takes the handler's response, unless the exchange was abandoned before.
    private func finish(_ response: HTTPResponse) {
        resume { _ in response }
    }

    /// Cancels the handler and answers in its place.
    func abandon() {
        resume { head in server.response(to: server.shuttingDown, head) }
    }

    private func resume(with response: (HTTPRequestHead) -> HTTPResponse) {
        state.withLock { state in
            guard case .handling(let task, let head, let connection) = state.phase else { return }
            state.phase = .handled(response(head), head)
            task.cancel()
            server.handlerEnded(self)
            // Under the lock, so that a server which stops finds this connection either suspended or resumed.
            connection.resume()
        }
    }
}
