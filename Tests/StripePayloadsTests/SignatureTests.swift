import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import StripePayloads

@Suite("The signature of a webhook")
struct SignatureTests {
    private static let body = #"{"id":"evt_test_1","object":"event","type":"invoice.paid"}"#
    private static let a = "3e3e661992c26c45d9105cbea450acc1a34f8c6dbafbd891f858c6fd9054fe3e"
    private static let c1 = "28719165ba4776d145b05ce2561d33fb3e45cb265de3e8f8026403bda688e8e8"
    private static let c2 = "0321c681e4b22d2d7b04e003bf029f61f6d87e4bfc0fad98763627f9528eeab8"

    private func verify(
        _ header: String, of body: String = body, _ secrets: [String], at seconds: Int64
    ) throws(StripeSignatureFailure) -> Int {
        try StripeSignature(header: header).verify(
            body: Array(body.utf8), secrets: secrets, now: Timestamp(milliseconds: seconds * 1000))
    }

    private func failure(
        _ header: String, _ body: String = body, _ secrets: [String] = ["whsec_test_secret"],
        at seconds: Int64 = 1_700_000_000
    ) -> StripeSignatureFailure? {
        do {
            _ = try verify(header, of: body, secrets, at: seconds)
            return nil
        } catch {
            return error
        }
    }

    @Test("vectors that other implementations agree on")
    func vectors() throws {
        #expect(Self.body.utf8.count == 58)
        #expect(try verify("t=1700000000,v1=\(Self.a)", ["whsec_test_secret"], at: 1_700_000_000) == 0)
        let text =
            "{\n  \"id\": \"evt_test_2\",\n  \"object\": \"event\",\n  \"data\": {\"object\": {\"name\": \"Zoë – 日本\"}}\n}"
        #expect(text.utf8.count == 96)
        let code = "4b15cc88212f2f22f260dfe1ffe6221b6e00e0e76876c706d493aa7a9c3876cf"
        #expect(
            try verify(
                "t=1763750400,v1=\(code)", of: text, ["whsec_abcdefghijklmnopqrstuvwxyz012345"], at: 1_763_750_400) == 0
        )
        #expect(try verify("t=1763750400,v1=\(Self.c1)", ["whsec_old"], at: 1_763_750_400) == 0)
        #expect(try verify("t=1763750400,v1=\(Self.c2)", ["whsec_new"], at: 1_763_750_400) == 0)
    }

    @Test("while a secret is rolled either of the two suffices, and it is told which it was")
    func roll() throws {
        let header = "t=1763750400,v1=\(Self.c1),v1=\(Self.c2),v0=dead"
        #expect(try verify(header, ["whsec_old"], at: 1_763_750_400) == 0)
        #expect(try verify(header, ["whsec_new"], at: 1_763_750_400) == 0)
        #expect(try verify(header, ["whsec_x", "whsec_new"], at: 1_763_750_400) == 1)
        #expect(try verify("t=1763750400, v1=\(Self.c2)", ["", "whsec_new"], at: 1_763_750_400) == 1)
        #expect(failure(header, Self.body, ["whsec_other"], at: 1_763_750_400) == .mismatch)
        #expect(failure(header, Self.body, [], at: 1_763_750_400) == .mismatch)
    }

    @Test("no t, no v1, or only v0 is refused")
    func incomplete() {
        #expect(failure("v1=\(Self.a)") == .malformed)
        #expect(failure("t=1700000000") == .unsigned)
        #expect(failure("t=1700000000,v0=\(Self.a)") == .unsigned)
        #expect(failure("") == .malformed)
        #expect(failure("t=,v1=\(Self.a)") == .malformed)
        #expect(failure("t=17e8,v1=\(Self.a)") == .malformed)
        #expect(failure("t=+1700000000,v1=\(Self.a)") == .malformed)
        #expect(failure("t=1700000000,t=1700000000,v1=\(Self.a)") == .malformed)
        #expect(failure("t=99999999999999999999,v1=\(Self.a)") == .malformed)
        #expect(failure("t=1700000000,v1=\(Self.a)" + String(repeating: ",v0=x", count: 2000)) == .malformed)
    }

    @Test("a changed byte of the body, the instant or the code is refused")
    func changed() {
        #expect(failure("t=1700000000,v1=\(Self.a)", Self.body + " ") == .mismatch)
        #expect(failure("t=1700000001,v1=\(Self.a)") == .mismatch)
        #expect(failure("t=01700000000,v1=\(Self.a)") == .mismatch, "the text of t is signed")
        #expect(failure("t=1700000000,v1=\(Self.a.dropLast())") == .mismatch)
        #expect(failure("t=1700000000,v1=\(Self.a.dropLast())f") == .mismatch)
        #expect(failure("t=1700000000,v1=\(Self.a)0") == .mismatch)
        #expect(failure("t=1700000000,v1=\(String(repeating: "g", count: 64))") == .mismatch)
    }

    @Test("it is believed for 300 seconds, and one from the future as well; a forged one is no stale one")
    func tolerance() {
        let header = "t=1700000000,v1=\(Self.a)"
        #expect(failure(header, at: 1_700_000_300) == nil)
        #expect(failure(header, at: 1_700_000_301) == .stale(seconds: 301))
        #expect(failure(header, at: 1_600_000_000) == nil)
        #expect(failure("t=1600000000,v1=\(Self.a)", at: 1_700_000_000) == .mismatch)
    }

    @Test("any t that is a number is believed as one of the future, and who signed is told whatever it is")
    func future() throws {
        let header = try signed(.max)
        for now in [Timestamp.earliest, Timestamp(milliseconds: -1), .latest] {
            #expect(throws: Never.self) {
                try StripeSignature(header: header).verify(
                    body: Array(Self.body.utf8), secrets: ["whsec_test_secret"], now: now)
            }
        }
        for seconds in [0, 1_700_000_000, Int64.max] {
            let signature = try StripeSignature(header: signed(seconds))
            #expect(try signature.signer(of: Array(Self.body.utf8), secrets: ["whsec_x", "whsec_test_secret"]) == 1)
        }
    }

    private func signed(_ seconds: Int64) throws -> String {
        let code = HMACSHA256.code(
            of: Array("\(seconds).\(Self.body)".utf8), key: Array("whsec_test_secret".utf8))
        let digits = Array("0123456789abcdef")
        return "t=\(seconds),v1=" + code.map { "\(digits[Int($0 >> 4)])\(digits[Int($0 & 15)])" }.joined()
    }

    @Test("no more codes are compared than a bound")
    func bound() {
        let padding = String(repeating: "v1=\(Self.c1),", count: StripeSignature.codeLimit)
        #expect(failure("t=1700000000,\(padding)v1=\(Self.a)") == .mismatch)
    }
}
