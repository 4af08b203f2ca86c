import Foundation
import OpenSSLCrypto
import StoreSimulator
import Testing

/// A compact JWS taken apart, its signature checked against the first certificate it carries.
private struct OpenedJWS {
    let chain: [Certificate]
    let payload: [String: Any]
    let isSignedByLeaf: Bool

    init(_ text: String) throws {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        let header = try Self.object(parts[0])
        let encoded = try #require(header["x5c"] as? [String])
        chain = try encoded.map { try Certificate(der: Base64.decode($0) ?? []) }
        payload = try Self.object(parts[1])
        let signature = Base64.decodeURL(parts[2]) ?? []
        isSignedByLeaf = try chain[0].publicKey()
            .isValidES256(signature: signature, message: Array((parts[0] + "." + parts[1]).utf8))
    }

    static func object(_ segment: String) throws -> [String: Any] {
        let bytes = try #require(Base64.decodeURL(segment))
        return try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    }
}

@Suite("The simulated authority")
struct AuthorityTests {
    @Test("a notification and its statements are signed under a chain with Apple's markers")
    func signs() throws {
        let authority = try SimulatedAuthority()
        let notification = try #require(Scenario.named("first_purchase")).life().notifications[0]
        let outer = try OpenedJWS(authority.sign(notification))
        #expect(outer.isSignedByLeaf)
        #expect(outer.chain.count == 3)
        #expect(outer.chain[0].hasExtension(oid: "1.2.840.113635.100.6.11.1"))
        #expect(outer.chain[1].hasExtension(oid: "1.2.840.113635.100.6.2.1"))
        let store = try CertificateStore(roots: [authority.root.certificate])
        let path = try store.validate(
            leaf: outer.chain[0], intermediates: [outer.chain[1]], atMilliseconds: notification.signedDate)
        #expect(path.count == 3)
        let data = try #require(outer.payload["data"] as? [String: Any])
        for slot in ["signedTransactionInfo", "signedRenewalInfo"] {
            let inner = try OpenedJWS(try #require(data[slot] as? String))
            #expect(inner.isSignedByLeaf)
            #expect(inner.payload["originalTransactionId"] as? String == notification.originalTransactionID)
        }
    }

    @Test("a device's transaction is signed alone, and a test notification has none")
    func devices() throws {
        let authority = try SimulatedAuthority()
        let notifications = try #require(Scenario.named("nothing_but_noise")).life().notifications
        let jws = try OpenedJWS(try #require(try authority.signTransaction(of: notifications[0])))
        #expect(jws.isSignedByLeaf)
        #expect(jws.payload["transactionId"] as? String == notifications[0].originalTransactionID)
        let test = try #require(notifications.first { $0.type == "TEST" })
        #expect(try authority.signTransaction(of: test) == nil)
    }

    @Test("an authority is kept in a directory, its keys for the owner alone")
    func keeps() throws {
        let directory = NSTemporaryDirectory() + "simulated-authority-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let authority = try SimulatedAuthority.kept(in: directory)
        let again = try SimulatedAuthority.kept(in: directory)
        #expect(again.leaf.der == authority.leaf.der)
        let jws = try OpenedJWS(again.sign(.object(["hello": .string("world")])))
        #expect(jws.isSignedByLeaf)
        for name in ["root.key", "intermediate.key", "leaf.key"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: directory + "/" + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
        }
    }
}

@Suite("The forger")
struct ForgerTests {
    @Test("forgeries have distinct names and texts, and documented codes")
    func forgeries() throws {
        let forger = Forger(authority: try SimulatedAuthority())
        let all = try forger.all()
        #expect(Set(all.map(\.name)).count == all.count)
        #expect(Set(all.map(\.signedPayload)).count == all.count)
        #expect(all.allSatisfy { $0.status >= 400 })
        #expect(!all.map(\.signedPayload).contains(try forger.genuine()))
    }

    @Test("forgeries of content are signed properly, so that nothing but their content can refuse them")
    func contents() throws {
        let forger = Forger(authority: try SimulatedAuthority())
        for forgery in try forger.all()
        where ["inconsistent_payload", "unknown_app", "wrong_environment"].contains(forgery.code) {
            #expect(try OpenedJWS(forgery.signedPayload).isSignedByLeaf, "\(forgery.name)")
        }
    }

    @Test("certificates with a wrong validity are wrong at the signed date, not at others")
    func validity() throws {
        let forger = Forger(authority: try SimulatedAuthority())
        let names = [
            "leaf_expired": 0, "leaf_not_yet_valid": 0, "intermediate_expired": 1, "intermediate_not_yet_valid": 1,
        ]
        for forgery in try forger.all() {
            guard let place = names[forgery.name] else { continue }
            let jws = try OpenedJWS(forgery.signedPayload)
            let signedDate = try #require(jws.payload["signedDate"] as? Int64)
            #expect(jws.isSignedByLeaf)
            #expect(!jws.chain[place].isValid(atMilliseconds: signedDate), "\(forgery.name)")
            #expect(jws.chain[1 - place].isValid(atMilliseconds: signedDate), "\(forgery.name)")
        }
    }
}
