import EntitlementCore
import Testing

@testable import EntitlementAPI

@Suite("The contract of commands")
struct CommandTests {
    private func check<Body: CommandBody>(_ bodies: [(text: String, body: Body)]) throws {
        for (text, body) in bodies {
            #expect(try Body(parsing: Array(text.utf8)) == body, "\(text)")
            #expect(try Body(parsing: WireJSON.encode(body)) == body, "\(text)")
        }
    }

    private func path<Body: CommandBody>(of text: String, as type: Body.Type) -> String? {
        do throws(CommandBodyError) {
            _ = try Body(parsing: Array(text.utf8))
            return nil
        } catch {
            return error.path
        }
    }

    private func kind<Body: CommandBody>(of text: String, as type: Body.Type) -> CommandBodyError.Kind? {
        do throws(CommandBodyError) {
            _ = try Body(parsing: Array(text.utf8))
            return nil
        } catch {
            return error.kind
        }
    }

    @Test("a member of another type is malformed wherever it stands; a number out of bounds cannot be processed")
    func wrongTypes() {
        for wrong in ["\"7\"", "true", "[7]", "{}", "7.5"] {
            let bodies = [
                kind(of: #"{"expires_in":\#(wrong)}"#, as: CustomerTokenRequestDocument.self),
                kind(of: #"{"days":\#(wrong),"reason_code":"other","reason":"r"}"#, as: ExtensionRequest.self),
                kind(of: #"{"keep_old_seconds":\#(wrong)}"#, as: SecretRotationRequest.self),
                kind(of: #"{"failed":true,"after":\#(wrong)}"#, as: RedeliveryRequest.self),
                kind(of: #"{"undo":\#(wrong)}"#, as: LinkRequest.self),
            ]
            #expect(bodies == Array(repeating: .malformed, count: 5), "\(wrong)")
        }
        for number in ["0", "-7", "1e30", "99999999999999999999"] {
            #expect(
                kind(of: #"{"expires_in":\#(number)}"#, as: CustomerTokenRequestDocument.self) == .unprocessable,
                "\(number)")
        }
        for text in [#"{"entitlement":1,"reason":"r"}"#, #"{"entitlement":"e","reason":"r","until":1}"#] {
            #expect(kind(of: text, as: GrantRequest.self) == .malformed, "\(text)")
        }
    }

    private func customer(_ id: String) throws -> CustomerID { try #require(CustomerID(id)) }

    @Test("requests are read, and read back as written")
    func requests() throws {
        let uuid = "7E3FB20B-4CDB-47CC-936D-99D65F608138"
        try check([
            (#"{"app_account_token":"\#(uuid)","x":1}"#, LinkRequest(.accountToken(try customer(uuid)))),
            (#"{"app_account_token":"User-7"}"#, LinkRequest(.accountToken(try customer("User-7")))),
            (
                #"{"app_transaction_id":"704","environment":"sandbox"}"#,
                LinkRequest(.appTransaction(try customer("apple:704")), environment: .sandbox)
            ),
            (#"{"customer_id":"\#(uuid)","undo":null}"#, LinkRequest(.customer(try customer(uuid)))),
            (#"{"undo":12}"#, LinkRequest(.undo(12))),
        ])
        let move = TransferRequest.Change.move(originalTransactionID: "100", to: try customer("c-2"))
        try check([
            (#"{"original_transaction_id":"100","to":"c-2"}"#, TransferRequest(move)),
            (
                #"{"original_transaction_id":"100","to":"c-2","dry_run":true,"environment":"production"}"#,
                TransferRequest(move, isDryRun: true, environment: .production)
            ),
            (#"{"undo":3,"dry_run":false}"#, TransferRequest(.undo(3))),
            (#"{"undo":3,"dry_run":true}"#, TransferRequest(.undo(3), isDryRun: true)),
        ])
        let end = try #require(Timestamp(rfc3339: "2027-01-01T00:00:00.000Z"))
        try check([
            (
                #"{"entitlement":"premium","until":"2027-01-01T00:00:00Z","reason":"a\nb"}"#,
                GrantRequest(entitlement: "premium", until: end, reason: "a\nb")
            ),
            (
                #"{"entitlement":"premium","until":null,"reason":"r","environment":"sandbox"}"#,
                GrantRequest(entitlement: "premium", until: nil, reason: "r", environment: .sandbox)
            ),
        ])
        try check([
            (#"{"grant_id":"g","reason":"r"}"#, RevokeGrantRequest(grantID: "g", reason: "r")),
            (
                #"{"grant_id":"g","reason":"r","environment":"sandbox"}"#,
                RevokeGrantRequest(grantID: "g", reason: "r", environment: .sandbox)
            ),
        ])
    }

    @Test(
        "what is wrong with a link is named by its path",
        arguments: [
            ("{}", ""), ("[]", ""), (#"{"app_account_token":null}"#, ""),
            (#"{"app_account_token":1}"#, "app_account_token"),
            (#"{"app_account_token":""}"#, "app_account_token"), (#"{"app_transaction_id":[]}"#, "app_transaction_id"),
            (#"{"customer_id":"a\nb"}"#, "customer_id"), (#"{"customer_id":7}"#, "customer_id"),
            (#"{"undo":0}"#, "undo"), (#"{"undo":-1}"#, "undo"), (#"{"undo":1.5}"#, "undo"), (#"{"undo":"1"}"#, "undo"),
            (#"{"undo":true}"#, "undo"), (#"{"undo":99999999999999999999}"#, "undo"),
            (#"{"app_account_token":"a","customer_id":"b"}"#, "customer_id"),
            (#"{"app_transaction_id":"a","undo":1}"#, "undo"),
            (#"{"undo":1,"environment":"Sandbox"}"#, "environment"),
        ])
    func link(_ text: String, _ expected: String) {
        #expect(path(of: text, as: LinkRequest.self) == expected)
    }

    @Test(
        "what is wrong with a transfer is named by its path",
        arguments: [
            ("{}", ""), (#"{"dry_run":true}"#, ""), (#"{"to":"c"}"#, "original_transaction_id"),
            (#"{"original_transaction_id":"1"}"#, "to"),
            (#"{"original_transaction_id":1,"to":"c"}"#, "original_transaction_id"),
            (#"{"original_transaction_id":"1","to":""}"#, "to"),
            (#"{"original_transaction_id":"1","to":"c","dry_run":1}"#, "dry_run"),
            (#"{"original_transaction_id":"1","to":"c","dry_run":"true"}"#, "dry_run"),
            (#"{"original_transaction_id":"1","undo":2}"#, "original_transaction_id"),
            (#"{"to":"c","undo":2}"#, "to"), (#"{"undo":"2"}"#, "undo"),
        ])
    func transfer(_ text: String, _ expected: String) {
        #expect(path(of: text, as: TransferRequest.self) == expected)
    }

    @Test(
        "what is wrong with a grant or its revocation is named by its path",
        arguments: [
            ("{}", "entitlement"), (#"{"entitlement":"p"}"#, "reason"), (#"{"entitlement":"p","reason":""}"#, "reason"),
            (#"{"entitlement":"p","reason":"a\u0000"}"#, "reason"), (#"{"entitlement":"p","reason":5}"#, "reason"),
            (#"{"entitlement":"p\n","reason":"r"}"#, "entitlement"),
            (#"{"entitlement":"p","reason":"r","until":1}"#, "until"),
            (#"{"entitlement":"p","reason":"r","until":"2027-13-01T00:00:00Z"}"#, "until"),
        ])
    func grant(_ text: String, _ expected: String) {
        #expect(path(of: text, as: GrantRequest.self) == expected)
        let revocation = text.replacing("entitlement", with: "grant_id")
        if !text.contains("until") {
            #expect(
                path(of: revocation, as: RevokeGrantRequest.self)
                    == (expected == "entitlement" ? "grant_id" : expected))
        }
    }

    @Test("texts are held to their limits, counted in bytes")
    func limits() {
        func grant(_ entitlement: Int, _ reason: Int) -> String {
            let (id, words) = (String(repeating: "e", count: entitlement), String(repeating: "r", count: reason))
            return #"{"entitlement":"\#(id)","reason":"\#(words)"}"#
        }
        #expect(path(of: grant(128, 1000), as: GrantRequest.self) == nil)
        #expect(path(of: grant(129, 1000), as: GrantRequest.self) == "entitlement")
        #expect(path(of: grant(128, 1001), as: GrantRequest.self) == "reason")
        for (letter, count) in [("g", 100), ("é", 50)] {
            let most = String(repeating: letter, count: count)
            #expect(path(of: #"{"grant_id":"\#(most)","reason":"r"}"#, as: RevokeGrantRequest.self) == nil)
            #expect(path(of: #"{"grant_id":"\#(most)g","reason":"r"}"#, as: RevokeGrantRequest.self) == "grant_id")
        }
        // The customer ids that they stand for are as long as one may be.
        for (name, limit) in [("app_account_token", 256), ("app_transaction_id", 250), ("customer_id", 256)] {
            let most = String(repeating: "t", count: limit)
            #expect(path(of: #"{"\#(name)":"\#(most)"}"#, as: LinkRequest.self) == nil)
            #expect(path(of: #"{"\#(name)":"\#(most)t"}"#, as: LinkRequest.self) == name)
            #expect(path(of: #"{"\#(name)":""}"#, as: LinkRequest.self) == name)
        }
    }

    @Test("no id and no reason has a control character, whether of ASCII or of Latin-1; a reason may have lines")
    func controlCharacters() {
        for character in ["\u{7F}", "\u{80}", "\u{9B}", "\u{9F}"] {
            let grant = #"{"entitlement":"e\#(character)","reason":"r"}"#
            #expect(path(of: grant, as: GrantRequest.self) == "entitlement", "\(character.unicodeScalars)")
            for name in ["app_account_token", "app_transaction_id", "customer_id"] {
                #expect(path(of: #"{"\#(name)":"a\#(character)"}"#, as: LinkRequest.self) == name)
            }
        }
        #expect(path(of: #"{"entitlement":"e","reason":"a\u009b31m"}"#, as: GrantRequest.self) == "reason")
        #expect(path(of: #"{"entitlement":"é\u00a0","reason":"a\nb"}"#, as: GrantRequest.self) == nil)
    }

    @Test("what may not be missing of an endpoint is not taken away by null")
    func patchedAway() throws {
        #expect(path(of: #"{"url":null}"#, as: EndpointChangeRequest.self) == "url")
        let read = try EndpointChangeRequest(parsing: Array(#"{"types":null,"environment":null,"format":null}"#.utf8))
        #expect(read.url == nil && read.types == [] && read.environment == .some(nil) && read.format == .some(nil))
        #expect(read.description == nil && read.app == nil)
    }

    @Test("answers read back as written, and say null where there is nothing")
    func answers() throws {
        func check<Document: Codable & Equatable>(_ document: Document, _ text: String) throws {
            let bytes = try WireJSON.encode(document)
            #expect(String(decoding: bytes, as: UTF8.self) == text)
            #expect(try WireJSON.decode(Document.self, from: bytes) == document)
        }
        try check(
            LinkDocument(position: 4, environment: .sandbox, customerID: "c", linked: "apple:7", untilNow: nil),
            #"{"customer_id":"c","environment":"sandbox","linked":"apple:7","object":"link","position":4,"#
                + #""until_now":null}"#)
        try check(
            LinkDocument(position: 4, environment: .sandbox, customerID: "c", linked: "apple:7", untilNow: "b"),
            #"{"customer_id":"c","environment":"sandbox","linked":"apple:7","object":"link","position":4,"#
                + #""until_now":"b"}"#)
        let side = TransferDocument.Side(customerID: "a", before: [], after: [])
        for position in [nil, 8] as [Int64?] {
            try check(
                TransferDocument(
                    position: position, environment: .production, originalTransactionID: "100", from: side, to: side),
                "{\"dry_run\":\(position == nil)," + #""environment":"production","#
                    + #""from":{"after":[],"before":[],"customer_id":"a"},"object":"transfer","#
                    + #""original_transaction_id":"100","position":"# + (position.map { "\($0)" } ?? "null")
                    + #","to":{"after":[],"before":[],"customer_id":"a"}}"#)
        }
        try check(
            TransferDocument(
                position: 8, environment: .production, originalTransactionID: "100", from: nil, to: nil, others: [side]),
            #"{"dry_run":false,"environment":"production","from":null,"object":"transfer","#
                + #""original_transaction_id":"100","others":[{"after":[],"before":[],"customer_id":"a"}],"#
                + #""position":8,"to":null}"#)
        try check(
            GrantDocument(
                position: 5, environment: .production, grantID: "g", customerID: "c", entitlement: "premium",
                until: nil, reason: "kindness"),
            #"{"customer_id":"c","entitlement":"premium","environment":"production","grant_id":"g","object":"grant","#
                + #""position":5,"reason":"kindness","until":null}"#)
        try check(
            GrantRevocationDocument(
                position: 6, environment: .production, grantID: "g", customerID: "c", reason: "over"),
            #"{"customer_id":"c","environment":"production","grant_id":"g","object":"grant_revocation","#
                + #""position":6,"reason":"over"}"#)
    }
}
