import Glibc
import HTTPServer
import Synchronization
import Testing

@Suite("HTTP server: more clients than there is room for", .timeLimit(.minutes(2)))
struct CrowdTests {
    @Test("a thousand idle sockets of one host keep nobody out, not even that host's own clients")
    func idleSockets() async throws {
        try await withServer { _, port in
            let texts = try await offPool {
                let idle = try (0..<1100).map { _ in try HTTPTestClient(port: port) }
                return try withExtendedLifetime(idle) {
                    try (0..<20).map { try HTTPTestClient(port: port).get("/\($0)").text }
                }
            }
            #expect(texts == (0..<20).map { "/\($0)" })
        }
    }

    @Test("at the limit the connection that has been idle longest makes room", arguments: [false, true])
    func longestIdle(isTrusted: Bool) async throws {
        try await withServer(configuration { $0.maxConnections = 3 }, trusts: { _ in isTrusted }) { _, port in
            let outcome = try await offPool {
                let clients = try (0..<3).map { number in
                    let client = try HTTPTestClient(port: port)
                    _ = try client.get("/\(number)")
                    return client
                }
                _ = try clients[0].get("/again")
                let new = try HTTPTestClient(port: port).get("/new").text
                return [new, clients[1].readToEnd().isEmpty ? "ended" : "", try clients[0].get("/still").text]
            }
            #expect(outcome == ["/new", "ended", "/still"])
        }
    }

    @Test("requests that are worked on are not given up: further connections wait until one ends")
    func busy() async throws {
        let latch = Latch()
        try await withServer(configuration { $0.maxConnections = 2 }) { request in
            if request.path != "/new" { await latch.wait() }
            return .text(request.path)
        } _: { _, port in
            async let held = offPool {
                let clients = try (0..<2).map { _ in try HTTPTestClient(port: port) }
                for client in clients { try client.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n") }
                return try clients.map { try $0.readResponse().text }
            }
            try await Task.sleep(for: .milliseconds(200))
            async let new = offPool { try HTTPTestClient(port: port).get("/new").text }
            try await Task.sleep(for: .milliseconds(200))
            await latch.open()
            #expect(try await held == ["/held", "/held"])
            #expect(try await new == "/new")
        }
    }

    @Test("clients that trickle their requests make room too, once they have had a second")
    func trickling() async throws {
        try await withServer(configuration { $0.maxConnections = 4 }) { _, port in
            let text = try await offPool {
                let slow = try (0..<4).map { _ in try HTTPTestClient(port: port) }
                for client in slow {
                    try client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf")
                }
                return try withExtendedLifetime(slow) { try HTTPTestClient(port: port).get("/new").text }
            }
            #expect(text == "/new")
        }
    }

    private static let long = [UInt8](repeating: 7, count: 32 << 20)

    /// A client whose answer is under way, and is more than the sockets between hold.
    private static func askingForLong(_ port: UInt16) throws -> HTTPTestClient {
        let client = try HTTPTestClient(port: port)
        try client.send("GET /long HTTP/1.1\r\nHost: test\r\n\r\n")
        // By then the server is sending, and no longer reading the request.
        usleep(200_000)
        return client
    }

    @Test("clients that read no answers make room too, once they have had a few seconds")
    func unreading() async throws {
        try await withServer(
            configuration { $0.maxConnections = 4 },
            handler: { $0.path == "/long" ? HTTPResponse(status: 200, body: Self.long) : .text($0.path) }
        ) { _, port in
            let text = try await offPool {
                let slow = try (0..<4).map { _ in try Self.askingForLong(port) }
                return try withExtendedLifetime(slow) { try HTTPTestClient(port: port).get("/new").text }
            }
            #expect(text == "/new")
        }
    }

    @Test("whoever reads slowly goes after those who send nothing")
    func slowReader() async throws {
        try await withServer(
            configuration { $0.maxConnections = 2 },
            handler: { $0.path == "/long" ? HTTPResponse(status: 200, body: Self.long) : .text($0.path) }
        ) { _, port in
            let outcome = try await offPool {
                let slow = try Self.askingForLong(port)
                sleep(4)
                let idle = try HTTPTestClient(port: port)
                _ = try idle.get("/idle")
                let new = try HTTPTestClient(port: port).get("/new").text
                return [
                    new, idle.readToEnd().isEmpty ? "ended" : "",
                    try slow.readResponse().body.count == Self.long.count ? "whole" : "cut",
                ]
            }
            #expect(outcome == ["/new", "ended", "whole"])
        }
    }

    @Test("one address has its limit, unless it is a trusted proxy's", arguments: [false, true])
    func oneAddress(isTrusted: Bool) async throws {
        let latch = Latch()
        let held = Mutex(0)
        try await withServer(
            configuration { $0.maxConnectionsPerAddress = 2 },
            handler: { request in
                if request.path == "/held" {
                    held.withLock { $0 += 1 }
                    await latch.wait()
                }
                return .text(request.path)
            }, trusts: { _ in isTrusted }
        ) { _, port in
            async let answers = offPool {
                let clients = try (0..<2).map { _ in try HTTPTestClient(port: port) }
                for client in clients { try client.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n") }
                return try clients.map { try $0.readResponse().text }
            }
            while held.withLock({ $0 }) < 2 { try await Task.sleep(for: .milliseconds(1)) }
            let third = try await offPool { try? HTTPTestClient(port: port).get("/third").text }
            #expect(third == (isTrusted ? "/third" : nil))
            await latch.open()
            #expect(try await answers == ["/held", "/held"])
        }
    }

    @Test("bodies that stand still make room for others, those of whoever has the most of them first")
    func standingBodies() async throws {
        let owners = ["/greedy": 1, "/modest": 2]
        try await withServer(
            configuration { $0.maxBufferedBodyBytes = 10_000 },
            gate: { .open(.shared, owner: owners[$0.path] ?? 3) }
        ) { _, port in
            let (statuses, greedy, modest) = try await offPool {
                func stall(_ path: String) throws -> HTTPTestClient {
                    let client = try HTTPTestClient(port: port)
                    try client.send("POST \(path) HTTP/1.1\r\nHost: test\r\nContent-Length: 1001\r\n\r\n")
                    try client.send([UInt8](repeating: 0, count: 1000))
                    return client
                }
                let modest = try stall("/modest")
                let greedy = try (0..<9).map { _ in try stall("/greedy") }
                usleep(200_000)
                let statuses = try (0..<3).map { _ in
                    try HTTPTestClient(port: port).post("/", [UInt8](repeating: 0, count: 3000)).status
                }
                try modest.send([0])
                return (statuses, try greedy[0].readResponse(), try modest.readResponse())
            }
            #expect(statuses == [200, 200, 200])
            #expect(greedy.status == 503)
            #expect(greedy.header("Retry-After") == "1")
            #expect(modest.status == 200)
        }
    }

    @Test("the reserved memory is nobody else's")
    func reservedMemory() async throws {
        try await withServer(
            configuration { $0.maxBufferedBodyBytes = 1000 },
            gate: { .open($0.path == "/store" ? .reserved : .shared, owner: 0) }
        ) { _, port in
            let statuses = try await offPool {
                let body = [UInt8](repeating: 0, count: 2000)
                return [
                    try HTTPTestClient(port: port).post("/", body).status,
                    try HTTPTestClient(port: port).post("/store", body).status,
                ]
            }
            #expect(statuses == [503, 200])
        }
    }

    @Test("a body is refused or let come from the head alone, at once or once somebody was asked")
    func gate() async throws {
        let gate: @Sendable (HTTPRequestHead) -> BodyGate = { head in
            switch head.path {
            case "/refused": .refuse(.text(status: 401, "no"))
            case "/asked":
                .ask(owner: 0) {
                    try? await Task.sleep(for: .milliseconds(20))
                    return nil
                }
            case "/asked-refused":
                .ask(owner: 0) {
                    try? await Task.sleep(for: .milliseconds(20))
                    return .text(status: 403, "asked")
                }
            default: .open(.shared, owner: 0)
            }
        }
        try await withServer(handler: { .text("\($0.body.count)") }, gate: gate) { _, port in
            let (early, asked, late) = try await offPool {
                let early = try ["/refused", "/asked-refused"].map { path in
                    let client = try HTTPTestClient(port: port)
                    try client.send("POST \(path) HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n")
                    let answer = try client.readResponse()
                    return "\(answer.status) \(answer.text) \(answer.header("Connection") ?? "-")"
                }
                let client = try HTTPTestClient(port: port)
                let asked = try (0..<3).map { _ in try client.post("/asked", [UInt8](repeating: 1, count: 70_000)).text
                }
                // The client sends its body all the same, and reads the answer then.
                let late = try HTTPTestClient(port: port).post("/asked-refused", [UInt8](repeating: 1, count: 300_000))
                return (early, asked, late.status)
            }
            #expect(early == ["401 no close", "403 asked close"])
            #expect(asked == ["70000", "70000", "70000"])
            #expect(late == 403)
        }
    }

    @Test("a stop does not wait for a gate that never opens")
    func stop() async throws {
        let latch = Latch()
        let asking = Latch()
        let gate: @Sendable (HTTPRequestHead) -> BodyGate = { _ in
            .ask(owner: 0) {
                await asking.open()
                await latch.wait()
                return nil
            }
        }
        try await withServer(handler: { .text($0.path) }, gate: gate) { server, port in
            async let answer = offPool { try HTTPTestClient(port: port).post("/", [1]).status }
            await asking.wait()
            await server.stop(graceSeconds: 0.1)
            let status = try await answer
            #expect(status == 503)
            await latch.open()
        }
    }
}
