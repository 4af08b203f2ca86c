import HTTPServer
import Testing

@Suite("HTTP server: deadlines and disconnects")
struct DeadlineTests {
    private let short = configuration {
        $0.requestDeadline = .milliseconds(300)
        $0.responseDeadline = .milliseconds(300)
        $0.idleTimeout = .seconds(1)
    }

    @Test(
        "a client that trickles is cut at the deadline, whatever part it trickles",
        arguments: [
            "", "GET / HT", "GET / HTTP/1.1\r\nHost: test\r\nX-Slow: ",
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 9999\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
        ])
    func trickle(start: String) async throws {
        try await withServer(short) { _, port in
            let elapsed = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send(start)
                return client.trickleUntilCut("a")
            }
            #expect(elapsed > .milliseconds(200))
            #expect(elapsed < .seconds(25))
        }
    }

    @Test("a client that trickles its second request is cut too")
    func trickleAfterKeepAlive() async throws {
        try await withServer(short) { _, port in
            let elapsed = try await offPool {
                let client = try HTTPTestClient(port: port)
                _ = try client.get("/")
                return client.trickleUntilCut("a")
            }
            #expect(elapsed < .seconds(25))
        }
    }

    @Test("a client that does not read its response is cut")
    func unreadResponse() async throws {
        let body = [UInt8](repeating: 7, count: 32 << 20)
        let responded = Latch()
        try await withServer(short) { _ in
            await responded.open()
            return HTTPResponse(status: 200, body: body)
        } _: { server, port in
            let client = try HTTPTestClient(port: port)
            try client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            await responded.wait()
            // Waits for the exchange to end, which it does only because it is cut.
            let start = ContinuousClock.now
            await server.stop(graceSeconds: 110)
            #expect(ContinuousClock.now - start < .seconds(100))
            withExtendedLifetime(client) {}
        }
    }

    @Test("a handler may take longer than the request deadline")
    func slowHandler() async throws {
        try await withServer(short) { request in
            try? await Task.sleep(for: .milliseconds(900))
            return .text("done")
        } _: { _, port in
            let text = try await offPool { try HTTPTestClient(port: port).get("/").text }
            #expect(text == "done")
        }
    }

    @Test("clients that reset or close while their request is handled do no harm", arguments: [true, false])
    func disconnects(isReset: Bool) async throws {
        let latch = Latch()
        try await withServer { request in
            if request.path == "/wait" { await latch.wait() }
            return HTTPResponse(status: 200, body: [UInt8](repeating: 1, count: 1 << 20))
        } _: { server, port in
            try await offPool {
                for _ in 0..<50 {
                    let client = try HTTPTestClient(port: port)
                    if isReset { client.resetWhenClosed() }
                    try client.send("POST /wait HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc")
                }
                for _ in 0..<50 {
                    let client = try HTTPTestClient(port: port)
                    if isReset { client.resetWhenClosed() }
                    try client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 300\r\n\r\nabc")
                }
            }
            await latch.open()
            let sizes = try await offPool {
                try (0..<5).map { _ in try HTTPTestClient(port: port).get("/").body.count }
            }
            #expect(sizes == Array(repeating: 1 << 20, count: 5))
            // Ends well before the grace only if every broken exchange was ended.
            let start = ContinuousClock.now
            await server.stop(graceSeconds: 110)
            #expect(ContinuousClock.now - start < .seconds(100))
        }
    }

    @Test("a client that ends its sending side after the request still gets the response")
    func halfClose() async throws {
        try await withServer { _, port in
            let response = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("GET /half HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
                client.endSending()
                return try client.readResponse()
            }
            #expect(response.text == "/half")
        }
    }
}
