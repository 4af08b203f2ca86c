import Foundation
import Testing

@testable import HTTPServer

@Suite("HTTP server: text that takes long to compare")
struct StreamSafeTextTests {
    /// Marks of two classes in the order that takes longest to sort.
    private static func marks(_ count: Int) -> String {
        String(repeating: "\u{315}", count: count / 2) + String(repeating: "\u{334}", count: count - count / 2)
    }

    @Test(
        "what people write is safe",
        arguments: [
            "", "plain", "naïve", "nai\u{308}ve", "Tiếng Việt", "שָׁלוֹם עֲלֵיכֶם", "हिन्दी", "각",
            "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}",
            "Z\u{351}\u{36B}\u{343}a\u{36E}\u{33A}l\u{321}\u{353}", "日本語の文章", marks(30),
            "a" + marks(30) + "b" + marks(30),
        ])
    func safe(text: String) {
        #expect(StreamSafeText.isSafe(text))
        #expect(StreamSafeText.isSafe(Array("{\"\(text)\":1}".utf8), readsEscapes: true))
    }

    @Test("more than thirty marks in a row are not, wherever they stand and however they are written")
    func unsafe() {
        let escaped = String(repeating: #"\u0315"#, count: 31)
        // U+1D165, a mark beyond the first plane.
        let pairs = String(repeating: #"\ud834\udd65"#, count: 31)
        for start in ["", "a", "12345678", "1234567", "日本", "\u{1F468}"] {
            #expect(!StreamSafeText.isSafe(start + Self.marks(31)), "\(start)")
            #expect(!StreamSafeText.isSafe(start + Self.marks(31) + "b"), "\(start)")
            for text in [
                Self.marks(31), String(repeating: "\u{F73}", count: 31), escaped, pairs, #"\u0315"# + Self.marks(30),
            ] {
                #expect(!StreamSafeText.isSafe(Array((start + text).utf8), readsEscapes: true), "\(start)")
            }
            #expect(StreamSafeText.isSafe(start + escaped), "it is plain text there")
        }
        let broken = String(repeating: #"\u0315"#, count: 30) + #"\n\u0315\u03\u"#
        #expect(StreamSafeText.isSafe(Array(broken.utf8), readsEscapes: true))
        #expect(StreamSafeText.isSafe([UInt8](repeating: 0xCC, count: 100)), "it is no text")
    }

    @Test("a mark is what Unicode reorders, in every plane, and what stands for nothing else")
    func everyScalar() {
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            var first = scalar
            // Whatever begins with a mark once it is taken apart is among these.
            if scalar.properties.isFullCompositionExclusion {
                first = String(scalar).decomposedStringWithCanonicalMapping.unicodeScalars.first ?? scalar
            }
            let isMark = first.properties.canonicalCombiningClass != .notReordered
            if StreamSafeText.isMark(scalar) != isMark { Issue.record("U+\(String(value, radix: 16))") }
        }
    }

    @Test("a target of them is told to nobody as it is")
    func targets() async throws {
        let server = HTTPServer(
            configuration: configuration(),
            refuse: { .text(status: $0.status, "\(StreamSafeText.isSafe($1.target))") }, handler: { .text($0.path) })
        try server.start()
        let port = server.boundPort ?? 0
        let marks = Self.marks(4000)
        for (target, status) in [("/\(marks)", 400), ("/?" + String(repeating: "&", count: 100) + marks, 414)] {
            let answer = try await offPool {
                let client = try HTTPTestClient(port: port)
                try client.send("GET \(target) HTTP/1.1\r\nHost: test\r\n\r\n")
                return try client.readResponse()
            }
            #expect(answer.status == status && answer.text == "true")
        }
        await server.stop(graceSeconds: 0)
    }

    @Test("a request that holds them in its method, target or header fields is answered 400, and at once")
    func requests() async throws {
        try await withServer { _, port in
            let marks = Self.marks(4000)
            let encoded = marks.utf8.map { "%" + String($0, radix: 16) }.joined()
            let requests = [
                "X\(marks) / HTTP/1.1\r\nHost: test\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(marks)\r\n\r\n",
                "GET /\(encoded.prefix(6000)) HTTP/1.1\r\nHost: test\r\n\r\n",
                "GET /?\(encoded.prefix(6000))=1 HTTP/1.1\r\nHost: test\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\(marks)\r\n\r\n",
            ]
            for request in requests {
                let start = ContinuousClock.now
                let response = try await offPool {
                    let client = try HTTPTestClient(port: port)
                    try client.send(request)
                    return try client.readResponse()
                }
                #expect(response.status == 400, "\(request.prefix(40))")
                #expect(ContinuousClock.now - start < .seconds(5), "\(request.prefix(40))")
            }
        }
    }
}
