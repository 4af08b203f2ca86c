import AppStorePayloads
import EntitlementCore
import Testing

@Suite("Lenient JSON")
struct JSONObjectTests {
    @Test(
        "an instant is a number, floored to a millisecond and clamped to what has a date",
        arguments: [
            ("1698148900000", 1_698_148_900_000), ("1698148900000.9", 1_698_148_900_000),
            ("1698148900000.0", 1_698_148_900_000), ("1.6981489e12", 1_698_148_900_000), ("0", 0), ("-0", 0),
            ("-0.25", -1), ("-1.5", -2), ("-62135596800001", -62_135_596_800_000),
            ("253402300799999", 253_402_300_799_999), ("253402300800000", 253_402_300_799_999),
            ("9223372036854775807", 253_402_300_799_999), ("-9223372036854775808", -62_135_596_800_000),
            ("9223372036854775808", 253_402_300_799_999), ("18446744073709551615", 253_402_300_799_999),
            ("18446744073709551616", 253_402_300_799_999), ("1e300", 253_402_300_799_999),
            ("-1e300", -62_135_596_800_000), ("1e-300", 0),
        ])
    func instants(text: String, milliseconds: Int64) throws {
        #expect(try json(text: #"{"t":\#(text)}"#)["t"]?.timestamp?.milliseconds == milliseconds)
    }

    @Test(
        "a whole number is read exactly, and only where 64 bits hold it",
        arguments: [
            ("9223372036854775807", Int64.max), ("9007199254740993", 9_007_199_254_740_993), ("-7", -7),
            ("2.0", 2), ("1e3", 1000), ("-9223372036854775808", Int64.min), ("2.5", nil),
            ("9223372036854775808", nil), ("1e300", nil),
        ] as [(String, Int64?)])
    func integers(text: String, value: Int64?) throws {
        #expect(try json(text: #"{"n":\#(text)}"#)["n"]?.int64 == value)
    }

    @Test("an object inside of a text is had as it stands there, byte for byte")
    func innerText() throws {
        let inner = #"{ "a" : [1, {"b":"}\""}] ,"c":{} }"#
        let object = try json(text: "\u{FEFF} {\"x\": [0, \(inner)] , \"y\":{}} ")
        #expect(object["x"]?.array?.last?.object?.text == Array(inner.utf8))
        #expect(object["y"]?.object?.text == Array("{}".utf8))
        #expect(object["x"]?.array?.last?.object?["c"]?.object?.text == Array("{}".utf8))
        #expect(object.text.first == UInt8(ascii: "{") && object.text.last == UInt8(ascii: "}"))
    }

    @Test("whoever expects more may read more than a megabyte, up to its own limit")
    func limit() throws {
        let bytes = Array(#"{"a":"\#(String(repeating: "x", count: 1 << 20))"}"#.utf8)
        #expect(throws: PayloadError.self) { try JSONObject(parsing: bytes) }
        #expect(try JSONObject(parsing: bytes, limit: bytes.count)["a"]?.string?.utf8.count == 1 << 20)
        #expect(throws: PayloadError.self) { try JSONObject(parsing: bytes, limit: bytes.count - 1) }
    }

    @Test("booleans and numbers are not taken for each other")
    func booleansAreNotNumbers() throws {
        let object = try json(text: #"{"yes":true,"no":false,"one":1,"zero":0,"word":"true"}"#)
        #expect(object["yes"]?.bool == true)
        #expect(object["no"]?.bool == false)
        for name in ["one", "zero", "word"] { #expect(object[name]?.bool == nil, "\(name)") }
        for name in ["yes", "no", "word"] {
            #expect(object[name]?.int64 == nil, "\(name)")
            #expect(object[name]?.timestamp == nil, "\(name)")
        }
    }

    @Test("null reads as absent, and every other type as nothing but itself")
    func types() throws {
        let object = try json(text: #"{"null":null,"text":"a","list":[1,"b"],"object":{"k":[]}}"#)
        #expect(object["null"] == nil)
        #expect(object["absent"] == nil)
        #expect(object["text"]?.string == "a")
        #expect(object["text"]?.array == nil)
        #expect(object["text"]?.object == nil)
        #expect(object["list"]?.array?.map(\.string) == [nil, "b"])
        #expect(object["list"]?.string == nil)
        #expect(object["object"]?.object?["k"]?.array?.isEmpty == true)
        #expect(object["object"]?.array == nil)
    }

    @Test("an identifier can be a key of the database")
    func identifiers() throws {
        let longest = String(repeating: "x", count: 512)
        let object = try json([
            "plain": "a", "empty": "", "nul": "a\u{0}b", "longest": longest, "longer": longest + "x",
        ])
        #expect(object["plain"]?.identifier == "a")
        #expect(object["longest"]?.identifier == longest)
        for name in ["empty", "nul", "longer"] { #expect(object[name]?.identifier == nil, "\(name)") }
    }

    @Test(
        "what is not one JSON object is malformed",
        arguments: ["", " ", "{", "[]", "3", "null", "\"x\"", "{\"a\":1}x", "{\"a\":}", "{\"a\":\"\u{1}"])
    func malformed(text: String) {
        #expect(throws: PayloadError.malformed("the payload is not a JSON object")) { try json(text: text) }
    }

    @Test("size and depth are bounded")
    func limits() throws {
        let padding = String(repeating: " ", count: JSONObject.maximumByteCount - 2)
        #expect(throws: Never.self) { try json(text: "{\(padding)}") }
        #expect(throws: PayloadError.self) { try json(text: "{\(padding) }") }
        let nested = { (depth: Int) in
            "{\"a\":" + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
        }
        #expect(throws: Never.self) { try json(text: nested(100)) }
        #expect(throws: PayloadError.self) { try json(text: nested(100_000)) }
    }

    @Test(
        "what JSON can say and Swift cannot hold costs nothing else of the payload",
        arguments: [
            (#"{"a":1,"odd":1e400}"#, nil), (#"{"odd":-1e999,"a":1}"#, nil), (#"{"odd":[[1E+4000]],"a":1}"#, nil),
            (#"{"odd":"x\ud83dy","a":1}"#, "x\u{fffd}y"), (#"{"odd":"\udc00","a":1}"#, "\u{fffd}"),
            (#"{"odd":"\ud83d\ud83d\ude00","a":1}"#, "\u{fffd}😀"),
            (#"{"odd":"1e400 \\ud83d\ud83d","a":1}"#, #"1e400 \ud83d\#u{fffd}"#),
            (#"{"\ud83d":2,"a":1,"odd":"\"1e400\""}"#, "\"1e400\""),
        ] as [(String, String?)])
    func unrepresentable(text: String, odd: String?) throws {
        let object = try json(text: text)
        #expect(object["a"]?.int64 == 1)
        #expect(object["odd"]?.string == odd)
    }

    @Test("an instant beyond Double is the latest there is, and of one name said twice the last counts")
    func beyond() throws {
        #expect(try json(text: #"{"t":1e400}"#)["t"]?.timestamp == .latest)
        #expect(try json(text: #"{"t":-1e400}"#)["t"]?.timestamp == .earliest)
        #expect(try json(text: #"{"t":1e400}"#)["t"]?.int64 == nil)
        #expect(try json(text: #"{"t":1,"t":2}"#)["t"]?.int64 == 2)
    }

    @Test("bytes that are not UTF-8 are malformed")
    func invalidUTF8() {
        #expect(throws: PayloadError.self) {
            try JSONObject(parsing: Array("{\"a\":\"".utf8) + [0xFF, 0xFE] + Array("\"}".utf8))
        }
    }
}
