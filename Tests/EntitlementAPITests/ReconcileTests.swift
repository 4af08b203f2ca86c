import EntitlementCore
import Testing

@testable import EntitlementAPI

@Suite("The contract of reconcile")
struct ReconcileTests {
    private func parse(_ text: String) throws(CommandBodyError) -> ReconcileRequest {
        try ReconcileRequest(parsing: Array(text.utf8))
    }

    @Test("a request is read, unknown members and nulls besides")
    func reading() throws {
        let request = try parse(
            """
            {"app":"com.example.app","environment":"sandbox","signed_transactions":["a.b.c",""],"colour":{"red":1},
            "signed_renewal_infos":["d.e.f"],"app_transaction":"g.h.i","claims":[
            {"product_id":"p","state":"in_grace_period","until":"2026-11-20T19:00:00Z","x":[1]},
            {"product_id":"q","state":"active","until":null},{"product_id":"r","state":"revoked"}]}
            """)
        #expect(
            request
                == ReconcileRequest(
                    app: "com.example.app", environment: .sandbox, signedTransactions: ["a.b.c", ""],
                    signedRenewalInfos: ["d.e.f"], appTransaction: "g.h.i",
                    claims: [
                        .init(
                            productID: "p", state: .inGracePeriod, until: Timestamp(rfc3339: "2026-11-20T19:00:00.000Z")
                        ),
                        .init(productID: "q", state: .active), .init(productID: "r", state: .revoked),
                    ]))
        #expect(try parse("{}") == ReconcileRequest())
        #expect(
            try parse(
                #"{"app":null,"environment":null,"signed_transactions":null,"claims":null,"app_transaction":null}"#)
                == ReconcileRequest())
    }

    @Test("a claim in a word that this version does not know is passed over by itself")
    func newerDevice() throws {
        let request = try parse(
            """
            {"app":"a","signed_transactions":["x"],"claims":[{"product_id":"p","state":"active"},
            {"product_id":"q","state":"paused","until":7},{"product_id":"r","state":"expired"}]}
            """)
        #expect(request.claims == [.init(productID: "p", state: .active), .init(productID: "r", state: .expired)])
        #expect(request.signedTransactions == ["x"])
    }

    @Test("what a device writes the server reads")
    func roundTrip() throws {
        let requests = [
            ReconcileRequest(),
            ReconcileRequest(
                app: "a", environment: .production, signedTransactions: ["x"], signedRenewalInfos: ["y", "z"],
                appTransaction: "w",
                claims: EntitlementState.allCases.map {
                    .init(productID: "é", state: $0, until: Timestamp(milliseconds: 1))
                }),
        ]
        for request in requests {
            #expect(try ReconcileRequest(parsing: WireJSON.encode(request)) == request)
        }
    }

    @Test(
        "what is wrong is named by its path",
        arguments: [
            ("", ""), ("x", ""), ("[]", ""), ("null", ""), (#"{"app":"a""#, ""), (#"{"app":1}"#, "app"),
            (#"{"app":""}"#, "app"), (#"{"app":"a\u0000"}"#, "app"), (#"{"environment":"Production"}"#, "environment"),
            (#"{"environment":true}"#, "environment"), (#"{"signed_transactions":"a"}"#, "signed_transactions"),
            (#"{"signed_transactions":{}}"#, "signed_transactions"),
            (#"{"signed_transactions":["a",2]}"#, "signed_transactions[1]"),
            (#"{"signed_transactions":[null]}"#, "signed_transactions[0]"),
            (#"{"signed_renewal_infos":["a","b",["c"]]}"#, "signed_renewal_infos[2]"),
            (#"{"app_transaction":["a"]}"#, "app_transaction"), (#"{"claims":1}"#, "claims"),
            (#"{"claims":["a"]}"#, "claims[0]"), (#"{"claims":[{}]}"#, "claims[0].product_id"),
            (#"{"claims":[{"product_id":"p"}]}"#, "claims[0].state"),
            (#"{"claims":[{"product_id":"p","state":null}]}"#, "claims[0].state"),
            (#"{"claims":[{"product_id":"p","state":1}]}"#, "claims[0].state"),
            (#"{"claims":[{"product_id":"","state":"active"}]}"#, "claims[0].product_id"),
            (#"{"claims":[{"product_id":"p","state":"active","until":5}]}"#, "claims[0].until"),
            (#"{"claims":[{"product_id":"p","state":"active","until":"soon"}]}"#, "claims[0].until"),
            (
                #"{"claims":[{"product_id":"p","state":"active"},{"product_id":2,"state":"active"}]}"#,
                "claims[1].product_id"
            ),
        ])
    func paths(_ text: String, _ path: String) throws {
        let error = try #require(throws: CommandBodyError.self) { try parse(text) }
        #expect(error.path == path, "\(error)")
        #expect(error.kind == .malformed, "\(error)")
        #expect(error.description.hasPrefix(path.isEmpty ? "the body " : path + " "))
    }

    @Test("a refusal says what would be right")
    func words() throws {
        func words(_ text: String) throws -> String {
            try #require(throws: CommandBodyError.self) { try parse(text) }.description
        }
        #expect(try words(#"{"claims":[{"product_id":"p"}]}"#) == "claims[0].state is missing")
        #expect(try words(#"{"environment":""}"#) == "environment must be one of: production, sandbox, auto")
        #expect(try words("[]") == "the body must be an object")
        #expect(try words("{") == "the body is not JSON")
    }

    @Test("a list beyond its limit is too large, whatever it holds")
    func limits() throws {
        let lists = [
            ("signed_transactions", #""a""#, ReconcileRequest.transactionLimit),
            ("signed_renewal_infos", #""a""#, ReconcileRequest.renewalLimit),
            ("claims", #"{"product_id":"p","state":"active"}"#, ReconcileRequest.claimLimit),
        ]
        for (name, entry, limit) in lists {
            func body(_ entry: String, _ count: Int) -> String {
                "{\"\(name)\":[\(Array(repeating: entry, count: count).joined(separator: ","))]}"
            }
            #expect(throws: Never.self) { try parse(body(entry, limit)) }
            for entry in [entry, "0"] {
                let error = try #require(throws: CommandBodyError.self) { try parse(body(entry, limit + 1)) }
                #expect(error.kind == .tooLarge)
                #expect(error.path == name)
                #expect(error.reason.contains("at most \(limit)"), "\(error)")
            }
        }
        let long = String(repeating: "a", count: 256)
        #expect(throws: Never.self) { try parse("{\"app\":\"\(long.dropLast())\"}") }
        #expect(throws: CommandBodyError.self) { try parse("{\"app\":\"\(long)\"}") }
        #expect(throws: CommandBodyError.self) {
            try parse("{\"claims\":[{\"product_id\":\"\(long)\",\"state\":\"active\"}]}")
        }
    }
}
