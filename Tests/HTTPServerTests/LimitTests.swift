import HTTPServer
import Testing

@Suite("HTTP server: limits")
struct LimitTests {
    @Test("a Content-Length beyond the limit is answered with 413 before any of the body is sent")
    func contentLength() async throws {
        try await withServer(bodyLimits: ["/small": 10, "/": 100]) { _, port in
            let (refused, accepted) = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("POST /small HTTP/1.1\r\nHost: test\r\nContent-Length: 11\r\n\r\n")
                let refused = try client.readResponse()
                return (refused, try HTTPTestClient(port: port).post("/", [UInt8](repeating: 0, count: 100)))
            }
            #expect(refused.status == 413)
            #expect(refused.header("Connection") == "close")
            #expect(accepted.status == 200)
        }
    }

    @Test("a client that goes on sending a refused body still reads the 413")
    func refusedWhileSending() async throws {
        try await withServer { _, port in
            let response = try await offPool {
                let client = try HTTPTestClient(port: port)
                let size = 8 << 20
                try client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: \(size)\r\n\r\n")
                for _ in 0..<size >> 16 { try client.send([UInt8](repeating: 0, count: 1 << 16)) }
                return try client.readResponse()
            }
            #expect(response.status == 413)
        }
    }

    @Test("a chunked body is answered with 413 once it exceeds the limit, before it ends")
    func chunked() async throws {
        try await withServer(bodyLimits: ["/": 1000]) { _, port in
            let (response, rest) = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
                let chunk = "190\r\n" + String(repeating: "x", count: 400) + "\r\n"
                for _ in 0..<3 { try client.send(chunk) }
                return (try client.readResponse(), client.readToEnd())
            }
            #expect(response.status == 413)
            #expect(response.header("Content-Type") == "text/plain; charset=utf-8")
            #expect(rest.isEmpty)
        }
    }

    @Test("bodies in memory are limited over all requests")
    func bufferedBytes() async throws {
        try await withServer(configuration { $0.maxBufferedBodyBytes = 1000 }) { _, port in
            let refused = try await offPool {
                let first = try HTTPTestClient(port: port)
                try first.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 800\r\n\r\n")
                // The last 100 never come, so that the 700 are held as soon as the server has read them.
                try first.send([UInt8](repeating: 0, count: 700))
                for _ in 0..<1000 {
                    let response = try HTTPTestClient(port: port).post("/", [UInt8](repeating: 0, count: 400))
                    if response.status != 200 { return response }
                }
                return try first.readResponse()
            }
            #expect(refused.status == 503)
            #expect(refused.header("Retry-After") == "1")
        }
    }

    @Test("header fields and targets beyond their limits are answered with 431 and 414")
    func headersAndTarget() async throws {
        try await withServer { _, port in
            let statuses = try await offPool {
                let long = String(repeating: "a", count: 9000)
                return [
                    try HTTPTestClient(port: port).get("/", headers: "X-Long: \(long)\r\n").status,
                    try HTTPTestClient(port: port).get("/", headers: "X-Long: \(long)\(long)\r\n").status,
                    try HTTPTestClient(port: port).get("/", headers: "X-Huge: \(long)\(long)\(long)\(long)\(long)\r\n")
                        .status,
                    try HTTPTestClient(port: port).get("/" + long).status,
                    try HTTPTestClient(port: port).get("/?" + String(repeating: "a&", count: 4000)).status,
                ]
            }
            #expect(statuses == [200, 431, 431, 414, 414])
            let items = try await offPool {
                try [100, 101].map {
                    try HTTPTestClient(port: port).get("/?a" + String(repeating: "&a", count: $0 - 1)).text
                }
            }
            #expect(items[0] == "/" && items[1].contains("more than 100 query items"), "\(items)")
        }
    }

    @Test(
        "contradictions about the body and the sender are refused",
        arguments: [
            ("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Content-Length: 2\r\nContent-Length: 3\r\n", 400),
            ("Authorization: Bearer a\r\nauthorization: Bearer b\r\n", 400),
            ("Authorization: Bearer a\r\nAuthorization: Bearer b\r\nContent-Length: 0\r\n", 400),
            ("Authorization: Bearer a\r\nAuthorization: Bearer a\r\n", 200),
            ("Content-Length: +2\r\n", 400), ("Transfer-Encoding: gzip, chunked\r\n", 501),
            ("Content-Length : 2\r\n", 400), ("Content-Length: 99999999999999999999999\r\n", 413),
        ])
    func framing(fields: String, status: Int) async throws {
        try await withServer { _, port in
            let response = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("POST / HTTP/1.1\r\nHost: test\r\n\(fields)\r\n")
                return try client.readResponse()
            }
            #expect(response.status == status)
        }
    }

    @Test("a request beyond the handlers allowed at once is answered with 503 and told when to come back")
    func overload() async throws {
        let latch = Latch()
        let started = Latch()
        try await withServer(
            configuration {
                $0.maxHandlersInFlight = 1; $0.retryAfterSeconds = 7
            }
        ) { _ in
            await started.open()
            await latch.wait()
            return HTTPResponse(status: 200)
        } _: { _, port in
            async let first = offPool { try HTTPTestClient(port: port).get("/").status }
            await started.wait()
            let refused = try await offPool { try HTTPTestClient(port: port).get("/") }
            #expect(refused.status == 503)
            #expect(refused.header("Retry-After") == "7")
            await latch.open()
            let statuses = [try await first, try await offPool { try HTTPTestClient(port: port).get("/").status }]
            #expect(statuses == [200, 200])
        }
    }

}
