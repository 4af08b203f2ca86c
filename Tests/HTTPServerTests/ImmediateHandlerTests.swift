import Glibc
import HTTPServer
import Synchronization
import Testing

@Suite("HTTP server: immediate handler")
struct ImmediateHandlerTests {
    @Test("a request is answered at once, at the end of the turn, or by the general handler")
    func threeWays() async throws {
        let script = Script()
        try await withImmediateServer(script) { port in
            let answers = try await offPool {
                let client = try HTTPTestClient(port: port)
                return try ["/now", "/turn", "/general", "/give-up", "/now"].map { path in
                    let response = try client.get(path, headers: "X-Name: a b\r\n")
                    return "\(response.status) \(response.text) \(response.header("X-Name") ?? "-")"
                }
            }
            #expect(
                answers == [
                    "200 now a b", "200 turn a b", "200 general /general -", "200 general /give-up -", "200 now a b",
                ])
        }
    }

    @Test("a header field that stands on several lines is told from one that does not")
    func lines() async throws {
        try await withImmediateServer(Script()) { port in
            let counts = try await offPool {
                let client = try HTTPTestClient(port: port)
                return try ["", "X-Name: a\r\nX-Names: b\r\n", "X-Name: a\r\nX-Names: b\r\nx-name: c\r\n"].map {
                    try client.get("/lines", headers: $0).text
                }
            }
            #expect(counts == ["0", "1", "2"])
        }
    }

    @Test("what arrives in one turn can be answered together, when a watched descriptor says so")
    func together() async throws {
        let script = Script()
        try await withImmediateServer(script) { port in
            let texts = try await offPool {
                let clients = try (0..<64).map { _ in try HTTPTestClient(port: port) }
                for client in clients { try client.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n") }
                while script.held < 64 { usleep(1000) }
                // Others are served meanwhile, and pipelined requests wait for their turn.
                let other = try HTTPTestClient(port: port)
                let between = [try other.get("/now").text, try other.get("/general").text]
                try clients[0].send("GET /now HTTP/1.1\r\nHost: test\r\n\r\n")
                script.release()
                return try between + clients.map { try $0.readResponse().text } + [clients[0].readResponse().text]
            }
            #expect(texts == ["now", "general /general"] + Array(repeating: "held", count: 64) + ["now"])
        }
    }

    @Test("a request with a body is offered once it is here whole, and can be answered at once, later, or not at all")
    func bodies() async throws {
        let script = Script()
        try await withImmediateServer(script) { port in
            let answers = try await offPool {
                let client = try HTTPTestClient(port: port)
                let body = [UInt8](repeating: 7, count: 100_000)
                return try ["/echo", "/turn", "/give-up", "/general", "/now"].map { path in
                    try client.post(path, body).text
                }
            }
            #expect(answers == ["100000 bytes, 7", "turn", "general /give-up", "general /general", "now"])
            #expect(script.offered == 5)
        }
    }

    @Test("a HEAD and a refusable request are never offered")
    func notOffered() async throws {
        let script = Script()
        try await withImmediateServer(script) { port in
            let answers = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("HEAD /now HTTP/1.1\r\nHost: test\r\n\r\n")
                let head = try client.readResponse(hasBody: false).header("Content-Length") ?? ""
                let long = try HTTPTestClient(port: port).get("/now" + String(repeating: "a", count: 9000)).status
                try client.send("GET /now HTTP/1.1\r\nHost: test\r\nBad Name: 1\r\n\r\n")
                return [head, String(long), String(try client.readResponse().status)]
            }
            #expect(answers == ["12", "414", "400"])
            #expect(script.offered == 0)
        }
    }

    @Test("clients that go away while their request is held do no harm")
    func disconnects() async throws {
        let script = Script()
        try await withImmediateServer(script) { port in
            let text = try await offPool {
                for index in 0..<20 {
                    let client = try HTTPTestClient(port: port)
                    if index % 2 == 0 { client.resetWhenClosed() }
                    try client.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n")
                    while script.held <= index { usleep(1000) }
                }
                script.release()
                return try HTTPTestClient(port: port).get("/now").text
            }
            #expect(text == "now")
        }
    }

    @Test("64 requests that are held when the server stops are told so")
    func stop() async throws {
        let script = Script()
        let server = makeServer(script)
        try server.start()
        let port = server.boundPort ?? 0
        async let statuses = offPool {
            let clients = try (0..<64).map { _ in try HTTPTestClient(port: port) }
            for client in clients { try client.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n") }
            return try clients.map { try $0.readResponse().status }
        }
        while script.held < 64 { await Task.yield() }
        await server.stop(graceSeconds: 0.05)
        #expect(try await statuses == Array(repeating: 503, count: 64))
        #expect(script.isStopped)
    }

    private func makeServer(_ script: Script) -> HTTPServer {
        HTTPServer(
            configuration: configuration(), immediate: { _ in ScriptedHandler(script) },
            handler: { .text("general \($0.path)") })
    }

    private func withImmediateServer(
        _ script: Script, _ body: (_ port: UInt16) async throws -> Void
    ) async throws {
        let server = makeServer(script)
        try server.start()
        do {
            try await body(server.boundPort ?? 0)
        } catch {
            await server.stop(graceSeconds: 0)
            throw error
        }
        await server.stop(graceSeconds: 0)
    }
}

/// What a test and the handler on the loop's thread tell each other.
private final class Script: Sendable {
    let descriptors: [Int32]
    private let counts = Mutex((held: 0, offered: 0, isStopped: false))

    init() {
        var pair: [Int32] = [-1, -1]
        pipe(&pair)
        descriptors = pair
    }

    deinit { for descriptor in descriptors { close(descriptor) } }

    var held: Int { counts.withLock { $0.held } }
    var offered: Int { counts.withLock { $0.offered } }
    var isStopped: Bool { counts.withLock { $0.isStopped } }

    func noteHeld() { counts.withLock { $0.held += 1 } }
    func noteOffered() { counts.withLock { $0.offered += 1 } }
    func noteStop() { counts.withLock { $0.isStopped = true } }

    /// Lets the handler answer what it holds.
    func release() { _ = write(descriptors[1], "x", 1) }
}

/// Does what the path says.
private final class ScriptedHandler: ImmediateHandler {
    private let script: Script
    private var held: [Exchange] = []
    private var ofTurn: [(Exchange, isGivenUp: Bool)] = []

    init(_ script: Script) { self.script = script }

    func receive(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> Bool {
        script.noteOffered()
        switch String(decoding: request.target, as: UTF8.self) {
        case "/now":
            guard let response = Self.response("now") else { return false }
            if let name = request.header("x-name") {
                String(decoding: name, as: UTF8.self).withCString { response.addHeader("X-Name", $0) }
            }
            exchange.answer(response)
        case "/echo":
            let text = "\(request.body.count) bytes, \(request.body.last.map { "\($0)" } ?? "none")"
            guard let response = Self.response(text) else { return false }
            exchange.answer(response)
        case "/lines":
            guard let response = Self.response("\(request.count(of: "X-Name"))") else { return false }
            exchange.answer(response)
        case "/turn": ofTurn.append((exchange, isGivenUp: false))
        case "/give-up": ofTurn.append((exchange, isGivenUp: true))
        case "/held":
            held.append(exchange)
            script.noteHeld()
        default: return false
        }
        return true
    }

    func endOfTurn() {
        for (exchange, isGivenUp) in ofTurn {
            if !isGivenUp, let response = Self.response("turn") {
                "a b".withCString { response.addHeader("X-Name", $0) }
                exchange.answer(response)
            } else {
                exchange.decline()
            }
        }
        ofTurn = []
    }

    var watched: (descriptor: Int32, awaitsWriting: Bool)? { (script.descriptors[0], false) }

    func watchedIsReady() {
        var byte: UInt8 = 0
        _ = read(script.descriptors[0], &byte, 1)
        for exchange in held {
            if let response = Self.response("held") { exchange.answer(response) }
        }
        held = []
    }

    var expectsSoon: Bool { !held.isEmpty }

    var nextDeadline: ContinuousClock.Instant? { nil }

    func stop() {
        for exchange in held { exchange.decline() }
        held = []
        script.noteStop()
    }

    private static func response(_ text: String) -> ImmediateResponse? {
        let text = Array(text.utf8)
        return ImmediateResponse(status: 200, bodyCount: text.count) { $0.copyBytes(from: text) }
    }
}
