import AppStorePayloads
import EntitlementCore
import Foundation
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

/// Validly signed notifications that no store would send, and yet might.
@Suite("Signed payloads with unusual JSON")
struct OddPayloadTests {
    private static let oddities: [(name: String, json: String)] = [
        ("a number beyond Double", "1e400"),
        ("half a surrogate pair", #""cut \ud83d""#),
        ("NUL", #""a\u0000b""#),
        ("ten thousand names", "{" + (0..<10_000).map { #""k\#($0)":\#($0)"# }.joined(separator: ",") + "}"),
        ("a long text", "\"" + String(repeating: "é", count: 30_000) + "\""),
        ("much nesting", String(repeating: "[", count: 400) + String(repeating: "]", count: 400)),
        ("many digits", String(repeating: "9", count: 5000)),
        ("another type", "true"),
    ]

    @Test("a field with whatever JSON can say is no reason to refuse what is signed", arguments: oddities)
    func unknownFields(name: String, json: String) throws {
        let rig = try NotificationRig()
        let plain = NotificationDraft()
        for place in ["notification", "transaction", "renewal"] {
            var draft = plain
            // A place-holder, so that the odd text stands in the signed bytes as it is.
            switch place {
            case "notification": draft.notification["somethingNew"] = "@odd@"
            case "transaction": draft.transaction?["somethingNew"] = "@odd@"
            default: draft.renewal?["somethingNew"] = "@odd@"
            }
            let signed = try draft.signed(by: rig.store) { $0.replacingOccurrences(of: "\"@odd@\"", with: json) }
            let verified = try rig.verifier.verify(signedPayload: signed, now: present)
            #expect(verified.evidence == Array(signed.utf8), "\(name) in the \(place)")
            #expect(verified.fact.transaction?.originalTransactionID == "100", "\(name) in the \(place)")
            #expect(!verified.remarks.isEmpty, "\(name) in the \(place)")
        }
    }

    @Test("a member said twice means one thing to every reader: the last")
    func duplicateNames() throws {
        let rig = try NotificationRig()
        var draft = NotificationDraft()
        draft.transaction?["zz"] = "@odd@"
        let signed = try draft.signed(by: rig.store) {
            $0.replacingOccurrences(of: "\"@odd@\"", with: #"1,"productId":"com.example.other""#)
        }
        let verified = try rig.verifier.verify(signedPayload: signed, now: present)
        #expect(verified.fact.transaction?.productID == "com.example.other")
    }

    @Test("a forged signature, header or payload never rides on a chain that was remembered", .timeLimit(.minutes(1)))
    func rememberedUnderFire() async throws {
        let rig = try NotificationRig()
        let other = try TestStore()
        let good = try NotificationDraft().signed(by: rig.store)
        let forged = try NotificationDraft().signed(by: other)
        let parts = good.split(separator: ".").map(String.init)
        let forgedParts = forged.split(separator: ".").map(String.init)
        // The trusted header over another's payload and signature, and the other way round.
        let bad = [
            forged, [parts[0], forgedParts[1], forgedParts[2]].joined(separator: "."),
            [forgedParts[0], parts[1], parts[2]].joined(separator: "."),
            [parts[0], parts[1], forgedParts[2]].joined(separator: "."),
        ]
        let verifier = rig.verifier
        let wrong = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    var wrong = 0
                    for round in 0..<40 {
                        let isGood = (worker + round) % 2 == 0
                        let now = present.adding(milliseconds: Int64(round) * 60_000)
                        let result = Result { () throws(NotificationRefusal) in
                            try verifier.verify(
                                signedPayload: isGood ? good : bad[(worker + round / 2) % 4], now: now)
                        }
                        let isRight =
                            switch result {
                            case .success: isGood
                            case .failure(let refusal): !isGood && refusal.code == .untrustedSignature
                            }
                        if !isRight { wrong += 1 }
                    }
                    return wrong
                }
            }
            return await group.reduce(0, +)
        }
        #expect(wrong == 0)
    }
}

extension NotificationDraft {
    /// Signed after each part's text was changed.
    fileprivate func signed(by store: TestStore, changing change: (String) -> String) throws -> String {
        var container = container
        if let transaction {
            container["signedTransactionInfo"] = try store.sign(change(text(transaction)))
        }
        if let renewal { container["signedRenewalInfo"] = try store.sign(change(text(renewal))) }
        var notification = notification
        notification[containerName] = container
        return try store.sign(change(text(notification)))
    }
}
