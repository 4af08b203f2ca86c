import Testing

@testable import rightful

@Suite("What is written to a terminal")
struct PrintableTextTests {
    @Test(
        "control characters are written as escapes, but for those that make lines",
        arguments: [
            ("e\u{9B}31m", #"e\u009b31m"#), ("a\u{7F}\u{1B}[0m", #"a\u007f\u001b[0m"#), ("a\tb\r\nc\n", "a\tb\r\nc\n"),
            ("é\u{A0}«»…\u{9F}", "é\u{A0}«»…\\u009f"), (#"{"id":"premium"}"#, #"{"id":"premium"}"#),
        ])
    func escapes(text: String, written: String) {
        #expect(String(decoding: Array(text.utf8).printable, as: UTF8.self) == written)
    }
}
