import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import OpenSSLCrypto
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// `POST /v1/offer_signatures`: promotional offers signed for a device.
@Suite("Signing promotional offers", .serialized, .timeLimit(.minutes(5)))
struct OfferSignatureTests {
    private static let token = "0F1D2E3C-4B5A-6978-8796-A5B4C3D2E1F0"

    @Test(
        "what is signed are the parts that Apple names, in order and lower case, by the app's key",
        arguments: [true, false])
    func signature(hasToken: Bool) async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let bears = hasToken ? #","app_account_token":"\#(Self.token)""# : ""
        let answer = try await rig.sign(#"{"product_id":"com.example.pro","offer_id":"back_for_half"\#(bears)}"#)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.header("Cache-Control") == "no-store")
        let json = try answer.json
        #expect(json["object"] == .string("offer_signature") && json["app"] == .string(ServiceRig.bundleID))
        #expect(json["timestamp"] == .int(rig.clock.now.milliseconds))
        guard case .string(let nonce) = json["nonce"], case .string(let text) = json["signature"],
            case .string(let keyID) = json["key_id"]
        else {
            Issue.record("\(answer.text)")
            return
        }
        let message = [
            ServiceRig.bundleID, keyID, "com.example.pro", "back_for_half", hasToken ? Self.token.lowercased() : "",
            nonce, "\(rig.clock.now.milliseconds)",
        ].joined(separator: "\u{2063}")
        #expect(nonce == nonce.lowercased() && UUID(uuidString: nonce) != nil)
        let key = try #require(rig.asked?.publicKeys[ServiceRig.bundleID])
        #expect(try await Self.isValid(text, of: message, by: key), "as openssl sees it")
        #expect(try await !Self.isValid(text, of: message + "0", by: key))
        let again = try await rig.sign(#"{"product_id":"com.example.pro","offer_id":"back_for_half"}"#).json
        #expect(again["nonce"] != json["nonce"], "each has a nonce of its own")
    }

    @Test("what cannot be signed is refused, and says what is wrong")
    func refusals() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        for (body, parameter) in [
            ("{}", "product_id"), (#"{"product_id":"p"}"#, "offer_id"),
            (#"{"product_id":"p\u2063q","offer_id":"o"}"#, "product_id"),
            (#"{"product_id":"p","offer_id":"o o"}"#, "offer_id"),
            (#"{"product_id":"p","offer_id":"o","app_account_token":"c-1"}"#, "app_account_token"),
        ] {
            let answer = try await rig.sign(body)
            #expect(answer.verdict == "400 malformed_request", "\(body)")
            #expect(try answer.json["param"] == .string(parameter), "\(answer.text)")
        }
        let good = #"{"product_id":"p","offer_id":"o"}"#
        // A signature would be good for purchases in production.
        let sandbox = try await rig.keys.create(name: "s", scopes: [.customersWrite], environment: .sandbox).secret
        #expect(try await rig.sign(good, key: sandbox).verdict == "403 forbidden")
        let without = try await ServiceRig.withCatalog()
        #expect(try await without.sign(good).verdict == "422 unprocessable")
    }

    @Test("a key of one app signs for that app alone; of several apps one is named")
    func apps() async throws {
        let rig = try await ServiceRig.withCatalog(hasOtherApp: true, asksStore: true)
        func body(_ app: String) -> String { #"{"product_id":"p","offer_id":"o","app":"\#(app)"}"# }
        let good = #"{"product_id":"p","offer_id":"o"}"#
        #expect(try await rig.sign(good).verdict == "400 malformed_request")
        let other = try await rig.sign(body(ServiceRig.otherBundleID)).json
        #expect(other["app"] == .string(ServiceRig.otherBundleID))
        let bound = try await rig.keys.create(
            name: "x", scopes: [.customersWrite], bundleID: ServiceRig.bundleID
        ).secret
        #expect(try await rig.sign(good, key: bound).json["app"] == .string(ServiceRig.bundleID))
        #expect(try await rig.sign(body(ServiceRig.otherBundleID), key: bound).verdict == "403 forbidden")
        #expect(try await rig.sign(body("com.example.none")).verdict == "422 unprocessable")
    }

    /// What the `openssl` program says of a signature.
    private static func isValid(_ signature: String, of message: String, by key: PublicKey) async throws -> Bool {
        let directory = FileManager.default.temporaryDirectory.appending(path: "offer-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let bytes = try #require(Data(base64Encoded: signature))
        try bytes.write(to: directory.appending(path: "signature"))
        try Data(message.utf8).write(to: directory.appending(path: "message"))
        try Data(try key.derBytes()).write(to: directory.appending(path: "key"))
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "dgst", "-sha256", "-keyform", "DER", "-verify", "key", "-signature", "signature", "message",
        ]
        process.currentDirectoryURL = directory
        process.standardOutput = FileHandle.nullDevice
        try process.runAlone()
        return process.waitForEnd() == 0
    }
}

extension ServiceRig {
    fileprivate func sign(_ body: String, key: String? = nil) async throws -> HTTPResponse {
        try await send("POST", "/v1/offer_signatures", key: key ?? admin, body: Array(body.utf8))
    }
}
