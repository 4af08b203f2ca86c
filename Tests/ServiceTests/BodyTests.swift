import EntitlementAPI
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("What bodies are read", .timeLimit(.minutes(5)))
struct BodyTests {
    /// Commands, a catalog, what a device sends, and what anybody may.
    private static let routes = [
        ("POST", "/v1/customers/c-1/tokens"), ("PUT", "/v1/catalog"), ("POST", "/v1/catalog/actions/try"),
        ("POST", "/v1/customers/c-1/reconcile"), ("POST", "/console/session"),
    ]

    /// Marks of two classes in the order that takes longest to sort.
    private static func marks(_ count: Int) -> String {
        String(repeating: "\u{315}", count: count / 2) + String(repeating: "\u{334}", count: count - count / 2)
    }

    private static func send(_ rig: ServiceRig, _ body: [UInt8]) async throws -> [HTTPResponse] {
        var answers: [HTTPResponse] = []
        for (method, path) in routes {
            let headers = [("Content-Type", "application/json")]
            let key = path == "/console/session" ? nil : rig.admin
            answers.append(try await rig.send(method, path, key: key, headers: headers, body: body))
        }
        return answers
    }

    @Test("what is not JSON in UTF-8 is refused, also where Foundation reads it, and so is a name twice beside it")
    func notJSON() async throws {
        let rig = try await ServiceRig.make()
        let text = #"{"products":[]}"#
        let (wide, wider) = (Array(text.utf16), text.unicodeScalars.map(\.value))
        var bodies: [[UInt8]] = [
            wide.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] },
            wide.flatMap { [UInt8($0 >> 8), UInt8(truncatingIfNeeded: $0)] },
            [0xFF, 0xFE] + wide.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] },
            wider.flatMap { [UInt8(truncatingIfNeeded: $0), 0, 0, 0] },
            wider.flatMap { [0, 0, 0, UInt8(truncatingIfNeeded: $0)] },
        ]
        let values: [[UInt8]] = [
            [0x22, 0xFF, 0x22], [0x22, 0xC0, 0xAF, 0x22], [0x22, 1, 0x22], [0x22, 0, 0x22], Array(#""\x""#.utf8),
            Array("01".utf8), Array("1.".utf8), Array("-".utf8), Array("1e".utf8), [0],
        ]
        for value in values {
            bodies.append(Array(#"{"products":[],"products":[],"x":"#.utf8) + value + Array("}".utf8))
        }
        for body in bodies {
            for answer in try await Self.send(rig, body) {
                #expect(answer.verdict == "400 malformed_request", "\(body)")
                #expect(answer.text.contains("the body is not JSON"), "\(answer.text)")
            }
        }
    }

    @Test("`null` is a body left out, where it may be, and elsewhere no object")
    func null() async throws {
        let rig = try await ServiceRig.make()
        for body in ["null", "null\n", " \t\r\nnull "] {
            for (method, path) in Self.routes + [("POST", "/v1/customers/c-1/portal")] {
                let answer = try await rig.send(
                    method, path, key: path == "/console/session" ? nil : rig.admin,
                    headers: [("Content-Type", "application/json")], body: Array(body.utf8))
                let (route, _) = try Route.find(
                    HTTPRequest(head: HTTPRequestHead(method: method, target: path, headers: [])))
                if route.operation.body?.isRequired == false {
                    #expect(!answer.text.contains("body"), "\(path): \(answer.text)")
                } else {
                    #expect(answer.verdict == "400 malformed_request", "\(path): \(answer.text)")
                    #expect(answer.text.contains("must be an object"), "\(path): \(answer.text)")
                }
            }
        }
        let token = try await rig.send("POST", "/v1/customers/c-1/tokens", key: rig.admin, body: Array("null".utf8))
        #expect(token.status == 200, "\(token.text)")
        for body in ["nul", "nullx", "null null", "NULL", " "] {
            let answer = try await rig.send(
                "POST", "/v1/customers/c-1/tokens", key: rig.admin, body: Array(body.utf8))
            #expect(answer.text.contains("is not JSON"), "\(body): \(answer.text)")
        }
    }

    @Test("a body that is encoded otherwise than as it is, is refused by the name of the encoding")
    func encoding() async throws {
        let rig = try await ServiceRig.make()
        for (coding, isTaken) in [("gzip", false), ("GZip, identity", false), ("identity", true), ("Identity", true)] {
            let answer = try await rig.send(
                "POST", "/v1/customers/c-1/tokens", key: rig.admin, headers: [("Content-Encoding", coding)],
                body: isTaken ? Array("{}".utf8) : [0x1F, 0x8B, 8, 0])
            #expect(answer.verdict == (isTaken ? "200 -" : "400 malformed_request"), "\(answer.text)")
            guard !isTaken else { continue }
            #expect(try answer.json["param"] == .string("Content-Encoding"))
            #expect(answer.text.contains(coding), "\(answer.text)")
        }
    }

    @Test("a name that one object has twice is refused by every route, also one that nobody knows")
    func repeatedNames() async throws {
        let rig = try await ServiceRig.make()
        let bodies = [
            (#"{"environment":"sandbox","environment":"production"}"#, "environment"),
            (#"{"signed_transactions":[],"signed_transactions":[]}"#, "signed_transactions"),
            (#"{"claims":[{},{"state":"active","state":"expired"}]}"#, "claims[1].state"),
            (#"{"x":1,"\u0078":2}"#, "x"),
        ]
        for (body, name) in bodies {
            for answer in try await Self.send(rig, Array(body.utf8)) {
                #expect(answer.verdict == "400 malformed_request", "\(body): \(answer.text)")
                #expect(try answer.json["param"] == .string(name), "\(body): \(answer.text)")
            }
        }
    }

    @Test("of what the App Store sends nothing is refused for a name that stands there twice: the last counts")
    func repeatedNameOfStore() async throws {
        let rig = try await ServiceRig.make()
        let signed = try Purchase().signed(by: rig.store)
        let body = Array(#"{"signedPayload":"x","y":1,"y":2,"signedPayload":"\#(signed)"}"#.utf8)
        let answer = try await rig.send("POST", "/v1/notifications/appstore", key: nil, body: body)
        #expect(answer.status == 200, "\(answer.text)")
    }

    @Test("text that takes long to compare is refused as malformed, and at once, in whichever encoding")
    func marks() async throws {
        let rig = try await ServiceRig.make()
        for answer in try await Self.send(rig, Array(#"{"a\#(Self.marks(31))":1}"#.utf8)) {
            #expect(answer.verdict == "400 malformed_request" && answer.text.contains("combining"), "\(answer.text)")
        }
        let wide = #"{"a\#(Self.marks(40_000))":1}"#.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }
        let start = ContinuousClock.now
        let answer = try await rig.send(
            "POST", "/v1/customers/c-1/reconcile", key: try await rig.publishableKey(), body: wide)
        #expect(answer.verdict == "400 malformed_request", "\(answer.text)")
        #expect(ContinuousClock.now - start < .seconds(1))
    }
}
