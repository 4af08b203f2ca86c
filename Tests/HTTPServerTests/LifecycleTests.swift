import HTTPServer
import Synchronization
import Testing

@Suite("HTTP server: start and stop")
struct LifecycleTests {
    @Test("a stop lets requests under way finish and takes no new connection")
    func gracefulStop() async throws {
        let started = Latch()
        let latch = Latch()
        try await withServer { _ in
            await started.open()
            await latch.wait()
            return .text("finished")
        } _: { server, port in
            async let response = offPool { try HTTPTestClient(port: port).get("/") }
            await started.wait()
            async let stopped: Void = server.stop(graceSeconds: 30)
            // Refused connections show that the stop is under way.
            try await offPool {
                while (try? HTTPTestClient(port: port)) != nil {}
            }
            await latch.open()
            let answer = try await response
            #expect(answer.text == "finished")
            #expect(answer.header("Connection") == "close")
            await stopped
        }
    }

    @Test("when the grace is over, handlers are cancelled and their clients answered with 503")
    func graceOver() async throws {
        let started = Latch()
        let cancelled = Latch()
        try await withServer { _ in
            await started.open()
            try? await Task.sleep(for: .seconds(600))
            await cancelled.open()
            return .text("too late")
        } _: { server, port in
            async let response = offPool { try HTTPTestClient(port: port).get("/") }
            await started.wait()
            await server.stop(graceSeconds: 0.05)
            await cancelled.wait()
            let answer = try await response
            #expect(answer.status == 503)
            #expect(answer.header("Retry-After") == "1")
        }
    }

    @Test(
        "a stop waits no longer for who has claimed to answer and does not, and closes the connection",
        arguments: [false, true])
    func claimedWithoutAnswer(_ isGated: Bool) async throws {
        let (started, latch) = (Latch(), Latch())
        try await withServer { request in
            _ = request.head.claim.take()
            await started.open()
            await latch.wait()
            return .text("too late")
        } gate: { head in
            guard isGated else { return .open(.shared, owner: 0) }
            return .ask(owner: 0) {
                _ = head.claim.take()
                await started.open()
                await latch.wait()
                return nil
            }
        } _: { server, port in
            let response = Task { try await offPool { try HTTPTestClient(port: port).post("/", [1]) } }
            await started.wait()
            await server.stop(graceSeconds: 0)
            await #expect(throws: (any Error).self) { try await response.value }
            await latch.open()
        }
    }

    @Test("after a stop the port is free, and everything the server held is gone")
    func nothingLeft() async throws {
        final class Token: Sendable {}
        weak var held: Token?
        var port: UInt16 = 0
        do {
            let token = Token()
            held = token
            let server = HTTPServer(configuration: HTTPServerConfiguration(port: 0)) { [token] _ in
                withExtendedLifetime(token) { .text("ok") }
            }
            try server.start()
            port = try #require(server.boundPort)
            let status = try await offPool { [port] in try HTTPTestClient(port: port).get("/").status }
            #expect(status == 200)
            async let other: Void = server.stop()
            await server.stop()
            await other
        }
        // A task lets go of what it captured a moment after its answer was sent, on a thread of its own.
        let deadline = ContinuousClock.now + .seconds(5)
        while held != nil, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
        #expect(held == nil)
        let again = HTTPServer(configuration: HTTPServerConfiguration(port: port)) { _ in .text("again") }
        try again.start()
        await again.stop()
    }

    @Test("stopping under load neither crashes nor hangs", arguments: 0..<10)
    func stopUnderLoad(round: Int) async throws {
        try await withServer { request in
            await Task.yield()
            return HTTPResponse(status: 200, body: request.body)
        } _: { server, port in
            let served = Counter()
            async let load: Void = withTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        _ = try? await offPool {
                            while true {
                                let client = try HTTPTestClient(port: port)
                                for _ in 0..<5 {
                                    _ = try client.post("/", [1, 2, 3])
                                    served.increment()
                                }
                            }
                        }
                    }
                }
            }
            while served.value < 20 + 10 * round { await Task.yield() }
            await server.stop(graceSeconds: Double(round % 3) * 0.01)
            // The load ends only because nobody answers any more.
            await load
            #expect(throws: (any Error).self, "still served after the stop") { try HTTPTestClient(port: port) }
        }
    }

    @Test("a port somebody listens on is a clear error")
    func busyPort() async throws {
        try await withServer { _, port in
            let second = HTTPServer(configuration: HTTPServerConfiguration(port: port)) { _ in .text("") }
            let error = #expect(throws: HTTPServerError.self) { try second.start() }
            #expect(error?.code == .addressInUse)
            #expect(error?.message.contains("127.0.0.1:\(port)") == true)
        }
    }

    @Test("bad addresses, bad limits and a second start are clear errors")
    func badConfigurations() async throws {
        func code(_ adjust: (inout HTTPServerConfiguration) -> Void) -> HTTPServerError.Code? {
            var configuration = HTTPServerConfiguration(port: 0)
            adjust(&configuration)
            let server = HTTPServer(configuration: configuration) { _ in .text("") }
            return #expect(throws: HTTPServerError.self) { try server.start() }?.code
        }
        #expect(code { $0.host = "192.0.2.1" } == .addressNotAvailable)
        #expect(code { $0.host = "no such host" } == .addressNotAvailable)
        #expect(code { $0.maxConnections = 0 } == .invalidConfiguration)
        #expect(code { $0.requestDeadline = .zero } == .invalidConfiguration)
        try await withServer { server, _ in
            let error = #expect(throws: HTTPServerError.self) { try server.start() }
            #expect(error?.code == .alreadyStarted)
        }
    }
}

private final class Counter: Sendable {
    private let count = Mutex(0)

    var value: Int { count.withLock { $0 } }

    func increment() { count.withLock { $0 += 1 } }
}
