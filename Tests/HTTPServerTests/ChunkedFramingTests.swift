import HTTPServer
import Testing

@Suite("HTTP server: the framing of chunked bodies")
struct ChunkedFramingTests {
    /// Chunked bodies that libmicrohttpd takes for complete although a proxy in front may not, and one as it should be.
    private static let forms = [
        "5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\n\n", "5;a=b\nhello\r\n0\r\n\r\n", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0;a\n\r\n", "5\r\nhello\r\n0\r\nX-After: 1\n\n", "0\n\n", "00\n\r\n",
    ]

    private static let head = "POST /first HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    private static let hidden = "GET /hidden HTTP/1.1\r\nHost: test\r\n\r\n"

    @Test("what follows a chunked body is never answered, however the chunks are framed", arguments: forms)
    func nothingAfter(form: String) async throws {
        let seen = Seen()
        try await withServer { request in
            await seen.add(request.path)
            return .text(request.path)
        } _: { _, port in
            for isSentInPieces in [false, true] {
                let answer = try await offPool {
                    let client = try HTTPTestClient(port: port)
                    if isSentInPieces {
                        // A body it refuses ends the connection in the middle of sending: the rest cannot be sent.
                        for byte in Array((Self.head + form + Self.hidden).utf8) {
                            guard (try? client.send([byte])) != nil else { break }
                        }
                    } else {
                        try client.send(Self.head + form + Self.hidden)
                    }
                    return String(decoding: client.readToEnd(), as: UTF8.self)
                }
                #expect(answer.components("HTTP/1.1 ") <= 1, "\(answer)")
                #expect(!answer.contains("/hidden"), "\(answer)")
            }
        }
        #expect(await !seen.paths.contains("/hidden"))
    }

    @Test("a chunked body that is framed as it should be is answered, and its connection closed")
    func closes() async throws {
        try await withServer(handler: { .text(String(decoding: $0.body, as: UTF8.self)) }) { _, port in
            let (answer, rest) = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send(Self.head + "5\r\nhello\r\n0\r\n\r\n")
                return (try client.readResponse(), client.readToEnd())
            }
            #expect(answer.status == 200)
            #expect(answer.text == "hello")
            #expect(answer.header("Connection")?.lowercased() == "close")
            #expect(rest.isEmpty)
        }
    }

    private actor Seen {
        var paths: [String] = []

        func add(_ path: String) { paths.append(path) }
    }
}

extension String {
    /// How often a text occurs.
    fileprivate func components(_ text: String) -> Int { ranges(of: text).count }
}
