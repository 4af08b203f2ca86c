import EntitlementCore
import Foundation
import SeededRandom
import Testing

@testable import AppStorePayloads

/// Holds the JSON reader against Foundation's, which took the same texts before it.
@Suite("The JSON reader beside Foundation's")
struct JSONComparisonTests {
    @Test(
        "single values are read alike",
        arguments: [
            "0", "-0", "1", "-1", "01", "-01", "00", "1.", ".5", "-", "+1", "1.5", "1e5", "1E5", "1e+5", "1e-5", "1e",
            "1e+",
            "0e0", "0.0", "-0.0", "1.0e10", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
            "123456789012345678901234567890", "0.1", "0x10", "NaN", "Infinity", "1_000", "true", "false", "null",
            "True",
            "tru", "truee", "nul", "\"\"", "\"a\"", "'a'", "\"\\\"\"", "\"\\\\\"", "\"\\/\"", "\"\\b\\f\\n\\r\\t\"",
            "\"\\u0041\"", "\"\\u00e9\"", "\"\\u20AC\"", "\"\\ud83d\\ude00\"", "\"\\u\"", "\"\\u12\"", "\"\\u12g4\"",
            "\"\\x41\"", "\"\\0\"", "\"\\'\"", "\"\\u0000\"", "\"\t\"", "\"\n\"", "\"\u{7f}\"", "\"\u{0}\"", "\"é€😀\"",
            "\"a", "a\"", "\"a\\\"", "[]", "[ ]", "[1]", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1", "1]", "{}", "{ }",
            "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{\"a\":1 \"b\":2}", "{a:1}", "{1:1}", "[}", "{]", "[[]",
            "{\"a\":[}]",
            "\u{a0}1", "1\u{b}", "//", "1//c", "/**/1", "[1]]", "\r\n\t 1 \r\n\t", "\"12345678\\n12345678é\"",
            "\"\\ud83d\\u0041\"", "\"\\ude00\\ud83d\"", "1e400", "-1e400", "1e-400",
        ])
    func values(text: String) {
        Self.expectSame(Array(#"{"v":\#(text)}"#.utf8), "\(text)")
        Self.expectSame(Array(#"{"\#(text)":1}"#.utf8), "name \(text)")
        Self.expectSame(Array(text.utf8), "alone \(text)")
        Self.expectSame(Array(#" {"v":[1,\#(text),{"w":\#(text)}]} "#.utf8), "inside \(text)")
    }

    @Test("every byte before such as matter to JSON or UTF-8, inside quotes and outside", arguments: 0..<16)
    func twoBytes(upper: Int) {
        let seconds = Array("\u{0}\u{1f} \",.0[\\]bnu{}\u{7f}".utf8) + [0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF]
        for lower in 0..<16 {
            let first = UInt8(upper * 16 + lower)
            for second in seconds {
                let text = [first, second]
                Self.expectSame(Array(#"{"v":""#.utf8) + text + Array(#""}"#.utf8), "quoted \(text)")
                Self.expectSame(Array(#"{"v":1"#.utf8) + text + Array("}".utf8), "bare \(text)")
            }
        }
    }

    @Test("UTF-8 of three and four bytes is taken where it is well formed")
    func utf8() {
        let edges: [UInt8] = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
        for first in [0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF] as [UInt8] {
            for second in edges {
                for third in edges {
                    for last in [[], [0x7F], [0x80], [0xBF], [0xC0]] as [[UInt8]] {
                        let text = [first, second, third] + last
                        Self.expectSame(Array(#"{"v":""#.utf8) + text + Array(#""}"#.utf8), "\(text)")
                    }
                }
            }
        }
    }

    @Test("a byte order mark of UTF-8 may stand before the text, and nothing else of its kind")
    func byteOrderMark() throws {
        let text = Array(#"{"v":1}"#.utf8)
        Self.expectSame([0xEF, 0xBB, 0xBF] + text, "once")
        #expect(try JSONObject(parsing: [0xEF, 0xBB, 0xBF] + text)["v"]?.int64 == 1)
        Self.expectSame([0xEF, 0xBB, 0xBF, 0xEF, 0xBB, 0xBF] + text, "twice")
        Self.expectSame([0xEF, 0xBB] + text, "cut")
    }

    @Test("nesting is allowed as deep, and no deeper", arguments: [1, 100, 509, 510, 511, 512, 513, 514, 2000])
    func depth(levels: Int) {
        let arrays = String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
        Self.expectSame(Array(#"{"v":\#(arrays)}"#.utf8), "\(levels) arrays")
        let objects = String(repeating: #"{"v":"#, count: levels) + "1" + String(repeating: "}", count: levels)
        Self.expectSame(Array(objects.utf8), "\(levels) objects")
    }

    @Test("mutated payloads are read alike", arguments: (200 as UInt64)..<208)
    func mutated(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let odd: Members = ["text": "\"\\/\u{8}é😀\u{1}", "list": [1.5, -2, true, NSNull(), [], [:]] as [Any]]
        let samples = try [Samples.transaction, Samples.renewal, Samples.notification, odd].map { try bytes($0) }
        let pieces = Array(#"{}[]",:-+.0123eE\ud83d\"tfn/ "#.utf8) + [0x80, 0xC3, 0xA9, 0xED, 0xF0, 0x00, 0x09]
        for round in 0..<250 {
            var text = try #require(samples.randomElement(using: &generator))
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let index = Int.random(in: text.indices, using: &generator)
                let piece = pieces[Int.random(in: pieces.indices, using: &generator)]
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: text[index] = piece
                case 1: text.remove(at: index)
                default: text.insert(piece, at: index)
                }
            }
            Self.expectSame(text, "seed \(seed), round \(round)")
        }
    }

    /// What one takes the other takes, and reads the same.
    ///
    /// Only what no Foundation value can hold, a number beyond `Double` or half of a surrogate pair, is taken by ours
    /// alone; that it is read well is said by other tests.
    private static func expectSame(_ text: [UInt8], _ name: @autoclosure () -> String) {
        let theirs = (try? JSONSerialization.jsonObject(with: Data(text))) as? Members
        let ours = try? JSONObject(parsing: text)
        guard let theirs, let ours else {
            guard theirs != nil || ours != nil else { return }
            let shown = String(decoding: text, as: UTF8.self)
            let holdsOddity = shown.contains("\\u") || shown.lowercased().contains("e") || text.count > 300
            if theirs != nil || !holdsOddity {
                Issue.record("\(name()): only \(ours == nil ? "they" : "we") take \(shown)")
            }
            return
        }
        #expect(isSame(JSONValue(document: ours.document, index: 0), theirs), "\(name())")
    }

    private static func isSame(_ ours: JSONValue, _ theirs: Any) -> Bool {
        if theirs is NSNull {
            return ours.object == nil && ours.array == nil && ours.string == nil && ours.bool == nil
                && ours.timestamp == nil
        }
        if let text = theirs as? String { return ours.string.map { Array($0.utf8) == Array(text.utf8) } ?? false }
        if let list = theirs as? [Any] {
            guard let elements = ours.array, elements.count == list.count else { return false }
            return zip(elements, list).allSatisfy { isSame($0, $1) }
        }
        if let members = theirs as? Members {
            guard let object = ours.object else { return false }
            var names: Set<String> = []
            object.forEachMember { name, _ in names.insert(object.document.text(of: name) ?? "") }
            return names == Set(members.keys)
                && members.allSatisfy { name, value in
                    value is NSNull
                        ? object.contains(name) && object[name] == nil
                        : object[name].map { isSame($0, value) } ?? false
                }
        }
        guard let number = theirs as? NSNumber else { return false }
        if number.objCType.pointee == CChar(bitPattern: UInt8(ascii: "c")) { return ours.bool == number.boolValue }
        let milliseconds = number.doubleValue.rounded(.down)
        let nearby = (ours.timestamp?.milliseconds).map { abs(Double($0) - milliseconds) <= abs(milliseconds) * 1e-15 }
        let isBeyond = abs(milliseconds) > 6e13
        return ours.bool == nil && (nearby == true || isBeyond && ours.timestamp != nil)
            && (ours.int64 == nil || Double(ours.int64 ?? 0) == number.doubleValue)
    }
}
