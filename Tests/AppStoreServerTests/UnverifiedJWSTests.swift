import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("The syntax of a JWS")
struct UnverifiedJWSTests {
    static let header = Base64.encodeURL(#"{"alg":"ES256"}"#.utf8)
    static let payload = Base64.encodeURL(#"{"a":1}"#.utf8)
    static let signature = Base64.encodeURL([UInt8](repeating: 1, count: 64))

    @Test("a well-formed one gives its payload's bytes")
    func wellFormed() throws {
        let compact = "\(Self.header).\(Self.payload).\(Self.signature)"
        let jws = try UnverifiedJWS(compact)
        #expect(jws.payload == Array(#"{"a":1}"#.utf8))
        #expect(jws.compact == Array(compact.utf8))
        #expect(jws.signature.count == 64)
    }

    @Test(
        "what is not three strict parts around a JSON object is malformed",
        arguments: [
            "", ".", "..", "...", "a", header, "\(header).\(payload)", "\(header).\(payload).\(signature).",
            "\(header).\(payload).\(signature).\(signature)", "\(header)..\(signature)",
            "\(header).\(payload)=.\(signature)", "\(header).\(payload).\(signature)==",
            "\(header).\(payload).\(signature) ", "\(header).+\(payload).\(signature)",
            "\(header).\(payload).\(signature.dropLast())R", "é.\(payload)\u{0}.\(signature)",
            "\(header).\(Base64.encodeURL("[]".utf8)).\(signature)",
            "\(header).\(Base64.encodeURL("null".utf8)).\(signature)",
            "\(header).\(Base64.encodeURL("\"{}\"".utf8)).\(signature)",
            "\(header).\(Base64.encodeURL("{".utf8)).\(signature)",
            "\(header).\(Base64.encodeURL("{} {}".utf8)).\(signature)",
            "\(header).\(Base64.encodeURL("{'a':1}".utf8)).\(signature)",
            "\(header).\(Base64.encodeURL([0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D])).\(signature)",
        ])
    func malformed(compact: String) throws {
        do throws(JWSError) {
            _ = try UnverifiedJWS(compact)
            Issue.record("accepted: \(compact)")
        } catch {
            guard case .malformed = error else {
                Issue.record("\(compact): \(error)")
                return
            }
        }
    }

    @Test(
        "a header that is not a JSON object in strict base64url is malformed",
        arguments: [
            "", "A", "AA==", "é", Base64.encodeURL("[]".utf8), Base64.encodeURL("ES256".utf8),
            Base64.encodeURL("{\"alg\":".utf8), Base64.encodeURL("null".utf8),
        ])
    func malformedHeader(header: String) throws {
        let verifier = try TestStore().verifier()
        #expect(verifier.refusal(of: "\(header).\(Self.payload).\(Self.signature)") == .malformed)
    }

    @Test("512 KiB are looked at, and not a byte more")
    func size() throws {
        let envelope = Self.header.utf8.count + Self.signature.utf8.count + 2
        let room = (UnverifiedJWS.maximumLength - envelope) / 4 * 3
        let filler = String(repeating: "x", count: room - #"{"a":""}"#.utf8.count)
        let payload = Base64.encodeURL(#"{"a":"\#(filler)"}"#.utf8)
        let largest = "\(Self.header).\(payload).\(Self.signature)"
        #expect((UnverifiedJWS.maximumLength - 3...UnverifiedJWS.maximumLength).contains(largest.utf8.count))
        _ = try UnverifiedJWS(largest)
        let larger = largest + String(repeating: "A", count: 4)
        #expect(throws: JWSError.malformed("it is longer than 524288 bytes")) { try UnverifiedJWS(larger) }
    }

    @Test("reasons hold nothing of the payload")
    func discreet() throws {
        let store = try TestStore()
        let forged = try store.sign(#"{"secret":"hunter2"}"#, x5c: store.chain, key: .generate(.p256))
        let refusal = try #require(try store.verifier().refusal(of: forged))
        #expect(!"\(refusal)".contains("hunter2"))
    }
}
