import HTTPServer
import Testing

@Suite("HTTP server: serving")
struct ServingTests {
    @Test("the handler sees method, target, fields, body and peer, and its response arrives")
    func echo() async throws {
        try await withServer { request in
            let lines = [
                request.method, request.path, request.queryValue("q") ?? "-", request.header("x-ONE") ?? "-",
                request.headerValues("X-Two").joined(separator: "|"), request.remoteAddress,
                String(decoding: request.body, as: UTF8.self),
            ]
            return HTTPResponse(
                status: 201, headers: [("X-Back", "yes")], body: Array(lines.joined(separator: "\n").utf8))
        } _: { _, port in
            let response = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send(
                    "PUT /a%20b?q=1 HTTP/1.1\r\nHost: test\r\nX-One: \t1 \t \r\nX-Two: a\r\nx-two: b\r\nContent-Length: 5\r\n\r\n"
                )
                try client.send("hello")
                return try client.readResponse()
            }
            #expect(response.status == 201)
            #expect(response.text == "PUT\n/a%20b\n1\n1\na|b\n127.0.0.1\nhello")
            #expect(response.header("X-Back") == "yes")
            #expect(response.header("Content-Length") == "\(response.body.count)")
            #expect(response.header("Date") != nil)
        }
        try await withServer { _ in
            HTTPResponse(status: 200, headers: [("Date", "Fri, 20 Nov 2026 12:00:00 GMT")])
        } _: { _, port in
            let response = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
                return try client.readResponse()
            }
            #expect(response.headers.filter { $0.name == "Date" }.map(\.value) == ["Fri, 20 Nov 2026 12:00:00 GMT"])
        }
    }

    @Test("200 requests are handled at the same time")
    func concurrency() async throws {
        let arrivals = Arrivals(expected: 200)
        try await withServer { request in
            await arrivals.arrive()
            return HTTPResponse(status: 200, body: request.body)
        } _: { _, port in
            let mismatches = try await offPool {
                let clients = try (0..<200).map { _ in try HTTPTestClient(port: port) }
                let bodies = (0..<200).map { [UInt8](repeating: UInt8($0), count: 1 + $0 * 400) }
                for (client, body) in zip(clients, bodies) {
                    try client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: \(body.count)\r\n\r\n")
                    try client.send(body)
                }
                return try zip(clients, bodies).filter { try $0.readResponse().body != $1 }.count
            }
            #expect(mismatches == 0)
        }
    }

    @Test("a connection serves many requests, also when they are sent ahead")
    func keepAlive() async throws {
        try await withServer { _, port in
            let answers = try await offPool {
                let client = try HTTPTestClient(port: port)
                var answers = try (0..<20).map { try client.get("/\($0)").text }
                let requests = (20..<40).map { "GET /\($0) HTTP/1.1\r\nHost: test\r\n\r\n" }
                try client.send(requests.joined())
                answers += try (20..<40).map { _ in try client.readResponse().text }
                return answers
            }
            #expect(answers == (0..<40).map { "/\($0)" })
        }
    }

    @Test("HEAD is handled as GET and answered without the body")
    func head() async throws {
        try await withServer {
            .text("\($0.method) \($0.head.isHead)")
        } _: { _, port in
            let (head, get) = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n")
                return (try client.readResponse(hasBody: false), try client.get("/"))
            }
            #expect(head.status == 200)
            #expect(head.header("Content-Length") == "\("GET true".utf8.count)")
            #expect(get.text == "GET false")
        }
    }

    @Test("204 and 304 carry no body, and the connection goes on", arguments: [204, 304])
    func bodilessStatus(status: Int) async throws {
        try await withServer { request in
            request.path == "/"
                ? .text("whole") : HTTPResponse(status: status, headers: [("ETag", "W/\"1\"")], body: [1, 2, 3, 4, 5])
        } _: { _, port in
            let (empty, whole) = try await offPool {
                let client = try HTTPTestClient(port: port)
                return (try client.get("/empty"), try client.get("/"))
            }
            #expect(empty.status == status)
            #expect(empty.header("ETag") == "W/\"1\"")
            #expect(empty.header("Content-Length") == (status == 304 ? "5" : nil))
            #expect(whole.text == "whole")
        }
    }

    @Test("a client that asks first is told to continue")
    func expectContinue() async throws {
        try await withServer {
            HTTPResponse(status: 200, body: $0.body)
        } _: { _, port in
            let (interim, final) = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send(
                    "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
                let interim = try client.readResponse(hasBody: false)
                try client.send("ok")
                return (interim, try client.readResponse())
            }
            #expect(interim.status == 100)
            #expect(final.text == "ok")
        }
    }

    @Test("a chunked body arrives whole")
    func chunked() async throws {
        try await withServer {
            HTTPResponse(status: 200, body: $0.body)
        } _: { _, port in
            let response = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
                try client.send("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
                return try client.readResponse()
            }
            #expect(response.text == "abcde")
        }
    }

    @Test("IPv6 loopback is served")
    func ipv6() async throws {
        try await withServer(configuration { $0.host = "::1" }) {
            .text($0.remoteAddress)
        } _: { _, port in
            let response = try await offPool { try HTTPTestClient(port: port, ipv6: true).get("/") }
            #expect(response.text == "::1")
        }
    }

    @Test("the unspecified IPv6 address serves IPv4 too, and names the peer as IPv4")
    func dualStack() async throws {
        try await withServer(configuration { $0.host = "::" }) {
            .text($0.remoteAddress)
        } _: { _, port in
            let response = try await offPool { try HTTPTestClient(port: port).get("/") }
            #expect(response.text == "127.0.0.1")
        }
    }

    @Test(
        "a response that HTTP does not allow is answered with 500",
        arguments: [("X-Bad", "a\r\nX-Smuggled: b"), ("Bad Name", "a"), ("X-Nul", "a\0b")])
    func unsendable(field: (String, String)) async throws {
        try await withServer { _ in
            HTTPResponse(status: 200, headers: [field])
        } _: { _, port in
            let response = try await offPool { try HTTPTestClient(port: port).get("/") }
            #expect(response.status == 500)
            #expect(response.header("X-Smuggled") == nil)
        }
    }
}

/// Lets everybody go on when all have come.
private actor Arrivals {
    private let expected: Int
    private var waiters: [CheckedContinuation<Void, Never>] = []

    init(expected: Int) { self.expected = expected }

    func arrive() async {
        await withCheckedContinuation { continuation in
            waiters.append(continuation)
            guard waiters.count == expected else { return }
            for waiter in waiters { waiter.resume() }
        }
    }
}
