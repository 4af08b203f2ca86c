import CMicroHTTPD
import Glibc

/// One request and its response.
///
/// Lives from the request line (`handleRequestLine` retains it for libmicrohttpd) to the end of the exchange
/// (`handleCompletion` releases it), and is used by the event loop's thread alone.
package final class Exchange {
    /// The loop's own number for it.
    let id: UInt64
    private unowned let loop: EventLoop
    private let client: ClientConnection
    private let target: [UInt8]
    private let receivedAt: ContinuousClock.Instant
    private var phase = ExchangePhase.receivingHead
    private var body: [UInt8] = []
    /// Where the body is counted, and as whose.
    private(set) var bodyMemory = BodyGate.Memory.shared
    private(set) var bodyOwner = 0
    /// Since when a handler, or the gate, has been at work, without the time in which nothing could work.
    var handledSince = ContinuousClock.Instant.now
    private var prepared: ImmediateResponse?
    /// Whether the body comes in chunks.
    ///
    /// The connection is then closed after the answer. libmicrohttpd 0.9.75 ends the lines between chunks also at a bare
    /// line feed, which a proxy in front may take for a part of the body; what follows, hidden in that body, would be
    /// answered as the connection's next request.
    private var isChunked = false

    init(loop: EventLoop, client: ClientConnection, target: [UInt8]) {
        id = loop.nextExchangeID()
        self.loop = loop
        self.client = client
        self.target = target
        receivedAt = loop.now
        client.note(isIdle: false, at: receivedAt)
        client.expectRequest(atLatestBy: receivedAt + loop.core.configuration.requestDeadline)
    }

    // MARK: - Receiving

    /// Refuses a request at its request line when reading on would go wrong.
    ///
    /// libmicrohttpd stores every query item beside the header fields, and stalls when there is no room left.
    func examineRequestLine() {
        guard target.count >= ServerCore.maxQueryItems,
            target.count(where: { $0 == UInt8(ascii: "&") }) >= ServerCore.maxQueryItems
        else { return }
        cut(.targetTooLong(limit: loop.core.configuration.maxTargetBytes), unreadHead)
        client.expectRequest(atLatestBy: receivedAt)
    }

    /// Goes on after head or body was read, and whenever libmicrohttpd asks for the answer; `false` closes the connection.
    func proceed(_ connection: MHDConnection, method: UnsafePointer<CChar>) -> Bool {
        switch phase {
        case .receivingHead:
            return receiveHead(connection, method: method)
        case .complete(let declined):
            return begin(connection, method: method, isOffered: !declined)
        case .held:
            return true
        case .prepared:
            loop.heldExchangeEnded()
            return sendPrepared(on: connection, method: method)
        case .receivingBody(let head, let target, _):
            if offer(connection, method: method, FramedRequest(head: head, target: target)) {
                return proceedHeld(connection, method: method)
            }
            return work(head, target, connection)
        case .gatePassed(let head, let target, let limit):
            phase = .receivingBody(head, target, limit: limit)
            return true
        case .declined(let head, let target):
            return work(head, target, connection)
        case .refused(let refusal, let head):
            return refuse(refusal, head, on: connection)
        case .handled(let response, let head):
            loop.hasProgress = true
            return answer(response, to: head, on: connection)
        case .handling, .gated, .cut, .ended:
            return false
        }
    }

    /// Takes a piece of the body; `false` closes the connection.
    func receive(_ piece: UnsafeRawBufferPointer) -> Bool {
        if case .cut = phase { return false }
        if case .gatePassed(let head, let target, let limit) = phase {
            phase = .receivingBody(head, target, limit: limit)
        }
        guard case .receivingBody(let head, _, let limit) = phase else { return true }
        guard body.count + piece.count <= limit else {
            cut(.bodyTooLarge(limit: limit), head)
            return false
        }
        guard loop.reserveBody(piece.count, for: self) else {
            cut(loop.core.overloaded, head)
            return false
        }
        body.append(contentsOf: piece)
        return true
    }

    /// Ends the exchange, whatever became of it.
    func end() {
        switch phase {
        case .handling(let task, _, _):
            task.cancel()
            loop.handlerEnded(self)
        case .gated(let task, _, _, _, _):
            task.cancel()
            loop.gateEnded(self)
        case .held, .prepared: loop.heldExchangeEnded()
        default: break
        }
        phase = .ended
        prepared = nil
        let configuration = loop.core.configuration
        client.expectRequest(by: loop.now + configuration.idleTimeout + configuration.requestDeadline)
        client.note(isIdle: true, at: loop.now)
        loop.exchangeEnded(self)
        body = []
    }

    private func receiveHead(_ connection: MHDConnection, method: UnsafePointer<CChar>) -> Bool {
        guard !connection.isPlainlyBodiless else {
            // The rest can wait until libmicrohttpd takes an answer that leaves the connection open.
            phase = .complete(declined: false)
            return true
        }
        var known = unreadHead
        do throws(HTTPRefusal) {
            let head = head(method: try connection.name(of: method), headers: try connection.safeHeaders)
            known = head
            let framing = try HTTPFraming(head)
            isChunked = framing.contentLength == nil
            do throws(HTTPRefusal) {
                let (target, limit) = try examine(head, connection)
                if let length = framing.contentLength, length > limit { throw .bodyTooLarge(limit: limit) }
                if framing.hasBody { return passGate(head, target, limit: limit, connection) }
                phase = .receivingBody(head, target, limit: limit)
            } catch {
                guard !framing.hasBody else { throw error }
                phase = .refused(error, head)
            }
            return true
        } catch {
            // Answered before the body is read; libmicrohttpd then closes the connection.
            client.lingerWhenClosed()
            return refuse(error, known, on: connection)
        }
    }

    /// Lets the body come, refuses it, or has that decided while the connection sleeps.
    private func passGate(
        _ head: HTTPRequestHead, _ target: RequestTarget, limit: Int, _ connection: MHDConnection
    ) -> Bool {
        switch loop.core.gate(head) {
        case .open(let memory, let owner):
            bodyMemory = memory
            bodyOwner = owner
            phase = .receivingBody(head, target, limit: limit)
        case .refuse(let response):
            // Answered before the body is read; libmicrohttpd then closes the connection.
            client.lingerWhenClosed()
            return answer(response, to: head, on: connection)
        case .ask(let owner, let ask):
            bodyOwner = owner
            handledSince = loop.now
            client.expectNothing()
            connection.suspend()
            let task = Task { [mailbox = loop.mailbox, id] in
                mailbox.post(.gated(exchange: id, await ask()))
            }
            phase = .gated(task, head, target, limit: limit, connection)
            loop.gateBegan(self)
        }
        return true
    }

    /// Offers a request without a body to the immediate handler, then takes the general way.
    private func begin(_ connection: MHDConnection, method: UnsafePointer<CChar>, isOffered: Bool) -> Bool {
        if isOffered, offer(connection, method: method, nil) { return proceedHeld(connection, method: method) }
        var known = unreadHead
        do throws(HTTPRefusal) {
            known = head(method: try connection.name(of: method), headers: try connection.safeHeaders)
            let (target, _) = try examine(known, connection)
            if let refusal = handle(known, target, connection) { throw refusal }
            return true
        } catch {
            return refuse(error, known, on: connection)
        }
    }

    private func work(_ head: HTTPRequestHead, _ target: RequestTarget, _ connection: MHDConnection) -> Bool {
        guard let refusal = handle(head, target, connection) else { return true }
        return refuse(refusal, head, on: connection)
    }

    private func proceedHeld(_ connection: MHDConnection, method: UnsafePointer<CChar>) -> Bool {
        guard case .prepared = phase else { return true }
        loop.heldExchangeEnded()
        return sendPrepared(on: connection, method: method)
    }

    /// Offers a whole request to the immediate handler.
    ///
    /// - Parameter framed: `nil` for a request without a body, whose head has not been examined yet.
    private func offer(_ connection: MHDConnection, method: UnsafePointer<CChar>, _ framed: FramedRequest?) -> Bool {
        guard let immediate = loop.immediate else { return false }
        if framed == nil,
            (try? loop.core.examine(targetBytes: target.count, headerBytes: cmhd_header_size(connection.pointer)))
                == nil
        {
            return false
        }
        let method = UnsafeBufferPointer(
            start: UnsafeRawPointer(method).assumingMemoryBound(to: UInt8.self), count: strlen(method))
        guard !method.elementsEqual("HEAD".utf8) else { return false }
        phase = .held(framed)
        loop.heldExchangeBegan()
        client.expectNothing()
        let isTaken = target.withUnsafeBufferPointer { target in
            body.withUnsafeBufferPointer { body in
                immediate.receive(
                    ImmediateRequest(
                        method: method, target: target, body: body, head: framed?.head, receivedAt: receivedAt,
                        connection: connection), self)
            }
        }
        if !isTaken { putBack(framed) }
        return isTaken
    }

    private func examine(
        _ head: HTTPRequestHead, _ connection: MHDConnection
    ) throws(HTTPRefusal) -> (target: RequestTarget, bodyLimit: Int) {
        try loop.core.examine(targetBytes: target.count, headerBytes: cmhd_header_size(connection.pointer))
        let target = try RequestTarget(head.target)
        return (target, loop.core.bodyLimit(head.method, target.path))
    }

    /// Of a request that is refused before its head is read.
    private var unreadHead: HTTPRequestHead { head(method: "", headers: []) }

    private func head(method: String, headers: [(name: String, value: String)]) -> HTTPRequestHead {
        // No target holds anything but ASCII, and what does is refused: before that nobody compares it as text.
        let isPlain = target.allSatisfy { $0 < 0x80 }
        let target =
            isPlain ? String(decoding: target, as: UTF8.self) : String(decoding: target, as: Unicode.ASCII.self)
        return HTTPRequestHead(
            method: method, target: target, headers: headers,
            remoteAddress: client.remoteAddress, receivedAt: receivedAt)
    }

    // MARK: - Answering

    /// Suspends the connection and starts the handler.
    ///
    /// - Returns: why not, if not.
    private func handle(
        _ head: HTTPRequestHead, _ target: RequestTarget, _ connection: MHDConnection
    ) -> HTTPRefusal? {
        client.expectNothing()
        if let refusal = loop.admit(self) { return refusal }
        handledSince = loop.now
        let request = HTTPRequest(head: head, target: target, body: body)
        connection.suspend()
        let task = Task { [core = loop.core, mailbox = loop.mailbox, id] in
            mailbox.post(.finished(exchange: id, await core.handler(request)))
        }
        phase = .handling(task, head, connection)
        return nil
    }

    private func refuse(_ refusal: HTTPRefusal, _ head: HTTPRequestHead, on connection: MHDConnection) -> Bool {
        answer(loop.core.response(to: refusal, head), to: head, on: connection)
    }

    private func answer(_ response: HTTPResponse, to head: HTTPRequestHead, on connection: MHDConnection) -> Bool {
        client.expectReading(by: loop.now + loop.core.configuration.responseDeadline)
        phase = .ended
        if response.resetsAfter != nil { return client.reset(after: response.serializedAndCut) }
        if connection.queue(response, closing: closesAfterAnswer) { return true }
        let refusal = HTTPRefusal.unsendableResponse(
            reason: "status \(response.status), fields \(response.headers.map(\.0).joined(separator: ", "))")
        return connection.queue(loop.core.response(to: refusal, head), closing: closesAfterAnswer)
            || connection.queue(refusal.plainResponse, closing: closesAfterAnswer)
    }

    private func sendPrepared(on connection: MHDConnection, method: UnsafePointer<CChar>) -> Bool {
        guard let response = prepared.take() else { return false }
        client.expectReading(by: loop.now + loop.core.configuration.responseDeadline)
        phase = .ended
        loop.hasProgress = true
        return response.queue(on: connection, closing: closesAfterAnswer)
    }

    private var closesAfterAnswer: Bool { loop.isDraining || isChunked }

    private func cut(_ refusal: HTTPRefusal, _ head: HTTPRequestHead) { cut(loop.core.response(to: refusal, head)) }

    /// Answers past libmicrohttpd and ends the exchange.
    private func cut(_ response: HTTPResponse) {
        phase = .cut
        client.sendDirectly(response.serializedAndClosing)
    }

    // MARK: - Making room and the gate

    var bodyCount: Int { body.count }

    var isReceivingBody: Bool { if case .receivingBody = phase { true } else { false } }

    func giveUpBody() {
        guard case .receivingBody(let head, _, _) = phase else { return }
        cut(loop.core.overloaded, head)
        body = []
        client.endNow()
    }

    /// Takes the gate's decision.
    func finishGate(_ refusal: HTTPResponse?) {
        guard case .gated(_, let head, let target, let limit, let connection) = phase else { return }
        loop.gateEnded(self)
        phase = .gatePassed(head, target, limit: limit)
        if let refusal { cut(refusal) }
        client.expectRequest(by: loop.now + loop.core.configuration.requestDeadline)
        loop.hasAnswers = true
        connection.resume()
    }

    // MARK: - The immediate handler's

    /// Answers a request that the immediate handler took; nothing happens when its client has gone away.
    package func answer(_ response: consuming ImmediateResponse) {
        guard case .held = phase else { return }
        prepared = consume response
        phase = .prepared
        loop.hasAnswers = true
    }

    /// Gives a request that the immediate handler took to the general handler.
    package func decline() {
        guard case .held(let framed) = phase else { return }
        putBack(framed)
        loop.hasAnswers = true
    }

    private func putBack(_ framed: FramedRequest?) {
        loop.heldExchangeEnded()
        phase = framed.map { .declined($0.head, $0.target) } ?? .complete(declined: true)
    }

    // MARK: - The general handler's

    /// Takes the handler's response.
    func finish(_ response: HTTPResponse) { resume { _ in response } }

    /// Cancels the handler, or the gate's question, and answers in its place, unless that has just claimed to answer: what it
    /// says is then about to come.
    func abandon(_ refusal: HTTPRefusal) {
        if case .gated(let task, let head, _, _, _) = phase {
            guard head.claim.take() else { return }
            task.cancel()
            finishGate(loop.core.response(to: refusal, head))
        } else if case .handling(_, let head, _) = phase, head.claim.take() {
            resume { loop.core.response(to: refusal, $0) }
        }
    }

    /// Ends the exchange without an answer: whoever has claimed to give one has not given it, and nobody can wait any longer.
    func giveUp() {
        switch phase {
        case .handling(let task, _, let connection):
            task.cancel()
            loop.handlerEnded(self)
            phase = .cut
            connection.resume()
        case .gated(let task, _, _, _, let connection):
            task.cancel()
            loop.gateEnded(self)
            phase = .cut
            connection.resume()
        default: break
        }
    }

    private func resume(with response: (HTTPRequestHead) -> HTTPResponse) {
        guard case .handling(let task, let head, let connection) = phase else { return }
        phase = .handled(response(head), head)
        task.cancel()
        loop.handlerEnded(self)
        loop.hasAnswers = true
        connection.resume()
    }
}
