import HTTPServer
import Testing

@Suite("HTTP server: request targets")
struct RequestTargetTests {
    private func request(_ target: String) throws -> HTTPRequest {
        try HTTPRequest(head: HTTPRequestHead(method: "GET", target: target))
    }

    @Test(
        "path segments are decoded one by one",
        arguments: [
            ("/", []), ("/v1/customers", ["v1", "customers"]), ("/a/", ["a", ""]), ("//a", ["", "a"]),
            ("/a%2Fb/c%20d", ["a/b", "c d"]), ("/a+b", ["a+b"]), ("/%E2%82%AC", ["€"]), ("/..//%2e", ["..", "", "."]),
            ("http://host:1/a?b", ["a"]), ("http://host", []), ("/a?b/c", ["a"]), ("/:x/://y", [":x", ":", "", "y"]),
        ] as [(String, [String])])
    func segments(target: String, expected: [String]) throws {
        #expect(try request(target).pathSegments == expected)
    }

    @Test("the path stays as it was sent")
    func rawPath() throws {
        #expect(try request("/a%2Fb?c=%20").path == "/a%2Fb")
    }

    @Test("query items are decoded in order, repeated ones kept")
    func query() throws {
        let request = try request("/x?a=1&b=c%3Dd%26&a=2&&flag&empty=&at=2026-01-01T00%3A00%3A00Z&q=a+b%2B&%61b=x=y")
        let items = request.query.map { "\($0.name)→\($0.value)" }
        #expect(
            items == [
                "a→1", "b→c=d&", "a→2", "flag→", "empty→", "at→2026-01-01T00:00:00Z", "q→a b+", "ab→x=y",
            ])
        #expect(request.queryValue("a") == "1")
        #expect(request.queryValue("flag") == "")
        #expect(request.queryValue("missing") == nil)
    }

    @Test(
        "what cannot be decoded is refused",
        arguments: [
            "/%", "/%2", "/%zz", "/%C3%28", "/%ff", "/a%00b", "/%ED%A0%80", "/ok?a=%", "/ok?%ff=1", "/ok?a=%00", "a",
            "*", "", "/é", "/a b",
        ])
    func malformed(target: String) {
        #expect(throws: HTTPRefusal.self) { try self.request(target) }
    }

    @Test("a bad encoding is answered with 400 by the server, and the connection goes on")
    func badEncodingOverTheWire() async throws {
        try await withServer { _ in
            HTTPResponse(status: 200)
        } _: { _, port in
            let statuses = try await offPool {
                let client = try HTTPTestClient(port: port)
                return try ["/%zz", "/a/%ff", "/?a=%", "/\u{e9}", "/fine"].map { try client.get($0).status }
            }
            #expect(statuses == [400, 400, 400, 400, 200])
        }
    }
}
