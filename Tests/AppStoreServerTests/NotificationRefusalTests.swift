import AppStorePayloads
import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("Refused notifications")
struct NotificationRefusalTests {
    /// What spoils a draft, and the refusal that must follow.
    struct Row: Sendable {
        let name: String
        let code: NotificationRefusal.Code
        let spoil: @Sendable (inout NotificationDraft) -> Void

        init(
            _ name: String, _ code: NotificationRefusal.Code,
            _ spoil: @escaping @Sendable (inout NotificationDraft) -> Void
        ) {
            self.name = name
            self.code = code
            self.spoil = spoil
        }
    }

    static let mandatory: [Row] = [
        Row("no type", .inconsistentPayload) { $0.notification["notificationType"] = nil },
        Row("no UUID", .inconsistentPayload) { $0.notification["notificationUUID"] = nil },
        Row("a UUID that is a number", .inconsistentPayload) { $0.notification["notificationUUID"] = 7 },
        Row("no container", .inconsistentPayload) { $0.containerName = "dataV3" },
        Row("no transactionId", .inconsistentPayload) { $0.transaction?["transactionId"] = nil },
        Row("no originalTransactionId", .inconsistentPayload) { $0.transaction?["originalTransactionId"] = "" },
        Row("no productId", .inconsistentPayload) { $0.transaction?["productId"] = nil },
        Row("no bundleId in the transaction", .inconsistentPayload) { $0.transaction?["bundleId"] = nil },
        Row("no purchaseDate", .inconsistentPayload) { $0.transaction?["purchaseDate"] = "2026" },
        Row("no environment in the transaction", .inconsistentPayload) { $0.transaction?["environment"] = nil },
        Row("no subscription in the renewal", .inconsistentPayload) { $0.renewal?["originalTransactionId"] = nil },
        Row("no environment in the renewal", .inconsistentPayload) { $0.renewal?["environment"] = nil },
    ]

    static let confusion: [Row] = [
        Row("a transaction as renewal information", .inconsistentPayload) { $0.renewal = $0.transaction },
        Row("renewal information as a transaction", .inconsistentPayload) { $0.transaction = $0.renewal },
        Row("a notification as a transaction", .inconsistentPayload) { $0.transaction = $0.notification },
        Row("a transaction as an app transaction", .inconsistentPayload) { draft in
            let transaction = draft.transaction
            draft = .consent
            draft.appTransaction = transaction
        },
    ]

    static let binding: [Row] = [
        Row("a transaction of another app", .inconsistentPayload) { $0.transaction?["bundleId"] = "com.example.other" },
        Row("a transaction of the sandbox", .inconsistentPayload) { $0.transaction?["environment"] = "Sandbox" },
        Row("renewal information of the sandbox", .inconsistentPayload) { $0.renewal?["environment"] = "Sandbox" },
        Row("a production transaction in the sandbox", .inconsistentPayload) { draft in
            draft = .sandbox
            draft.transaction?["environment"] = "Production"
        },
        Row("renewal information of another subscription", .inconsistentPayload) {
            $0.renewal?["originalTransactionId"] = "101"
        },
        Row("an app transaction of another app", .inconsistentPayload) { draft in
            draft = .consent
            draft.appTransaction?["bundleId"] = "com.example.other"
        },
        Row("an app transaction of the sandbox", .inconsistentPayload) { draft in
            draft = .consent
            draft.appTransaction?["receiptType"] = "Sandbox"
        },
        Row("an app transaction of another number", .inconsistentPayload) { draft in
            draft = .consent
            draft.appTransaction?["appAppleId"] = 1
        },
    ]

    static let app: [Row] = [
        Row("another app", .unknownApp) { $0.container["bundleId"] = "com.example.other" },
        Row("an app that differs in case", .unknownApp) { $0.container["bundleId"] = "com.example.App" },
        Row("no app", .unknownApp) { $0.container["bundleId"] = nil },
        Row("another number of the app", .unknownApp) { $0.container["appAppleId"] = 1_234_567_891 },
        Row("no number of the app", .unknownApp) { $0.container["appAppleId"] = nil },
        Row("a number that is text", .unknownApp) { $0.container["appAppleId"] = "1234567890" },
        Row("a token without a number", .unknownApp) { draft in
            draft.containerName = "externalPurchaseToken"
            draft.container["appAppleId"] = nil
        },
        Row("no environment", .wrongEnvironment) { $0.container["environment"] = nil },
        Row("Xcode", .wrongEnvironment) { $0.setEnvironment("Xcode") },
        Row("LocalTesting", .wrongEnvironment) { $0.setEnvironment("LocalTesting") },
        Row("an environment in lower case", .wrongEnvironment) { $0.setEnvironment("production") },
        Row("an unknown environment", .wrongEnvironment) { $0.setEnvironment("Moon") },
    ]

    @Test(
        "mandatory fields, places, bindings and the app are all required",
        arguments: [mandatory, confusion, binding, app])
    func spoiled(rows: [Row]) throws {
        let rig = try NotificationRig()
        #expect(try rig.refusal(of: NotificationDraft()) == nil)
        #expect(try rig.refusal(of: .consent) == nil)
        for row in rows {
            var draft = NotificationDraft()
            row.spoil(&draft)
            let refusal = try #require(try rig.refusal(of: draft), "accepted: \(row.name)")
            #expect(refusal.code == row.code, "\(row.name): \(refusal)")
        }
    }

    @Test("what is not a JWS is malformed, outside and inside")
    func malformed() throws {
        let rig = try NotificationRig()
        for garbage in ["", "a.b", "a.b.c.d", "....", "{}", "e30.W10.e30", "💥.💥.💥"] {
            #expect(rig.refusal(of: garbage)?.code == .malformedJWS, "\(garbage)")
            var payload = try NotificationDraft().payload(signedBy: rig.store)
            for name in ["signedTransactionInfo", "signedRenewalInfo"] where !garbage.isEmpty {
                var data = try #require(payload["data"] as? Members)
                data[name] = garbage
                payload["data"] = data
                #expect(rig.refusal(of: try rig.store.sign(text(payload)))?.code == .malformedJWS, "\(garbage)")
            }
        }
        #expect(rig.refusal(of: try rig.store.sign("[]"))?.code == .malformedJWS)
        #expect(rig.refusal(of: try rig.store.sign("not json"))?.code == .malformedJWS)
    }

    @Test("a signature of a stranger is untrusted, on any of the parts")
    func strangers() throws {
        let rig = try NotificationRig()
        let stranger = try TestStore()
        #expect(rig.refusal(of: try NotificationDraft().signed(by: stranger))?.code == .untrustedSignature)
        let paths: [(WritableKeyPath<NotificationDraft, TestStore?>, NotificationDraft)] = [
            (\.transactionSigner, NotificationDraft()), (\.renewalSigner, NotificationDraft()),
            (\.appTransactionSigner, .consent),
        ]
        for (path, draft) in paths {
            var draft = draft
            draft[keyPath: path] = stranger
            #expect(try rig.refusal(of: draft)?.code == .untrustedSignature, "\(path)")
        }
    }

    @Test("a payload changed after it was signed is untrusted")
    func tampered() throws {
        let rig = try NotificationRig()
        let parts = try NotificationDraft().signed(by: rig.store).split(separator: ".")
        var draft = NotificationDraft()
        draft.notification["notificationType"] = "REFUND_REVERSED"
        let payload = Base64.encodeURL(try text(draft.payload(signedBy: rig.store)).utf8)
        #expect(rig.refusal(of: "\(parts[0]).\(payload).\(parts[2])")?.code == .untrustedSignature)
    }

    @Test("the trust is questioned first, then the content, then the app, then the environment")
    func order() throws {
        let rig = try NotificationRig()
        var draft = NotificationDraft()
        draft.setEnvironment("Xcode")
        #expect(try rig.refusal(of: draft)?.code == .wrongEnvironment)
        draft.container["bundleId"] = "com.example.other"
        #expect(try rig.refusal(of: draft)?.code == .unknownApp)
        draft.notification["notificationUUID"] = nil
        #expect(try rig.refusal(of: draft)?.code == .inconsistentPayload)
        draft.renewalSigner = try TestStore()
        #expect(try rig.refusal(of: draft)?.code == .untrustedSignature)
    }

    @Test("a notification of another kind of payload is inconsistent", arguments: [0, 1, 2])
    func otherPayloads(index: Int) throws {
        let rig = try NotificationRig()
        let payloads = [
            NotificationDraft().transaction, NotificationDraft().renewal, NotificationDraft.consent.appTransaction,
        ]
        let signed = try rig.store.sign(text(try #require(payloads[index])))
        #expect(rig.refusal(of: signed)?.code == .inconsistentPayload)
    }

    @Test("an app is served where it is configured, and nowhere else")
    func configuration() throws {
        let store = try TestStore()
        let production = NotificationDraft()
        let sandbox = NotificationDraft.sandbox
        func codes(_ apps: [AppBinding]) throws -> [NotificationRefusal.Code?] {
            let rig = try NotificationRig(apps: apps, store: store)
            return [try rig.refusal(of: production)?.code, try rig.refusal(of: sandbox)?.code]
        }
        func binding(_ id: Int64?, _ environments: Set<StoreEnvironment>) -> AppBinding {
            AppBinding(bundleID: "com.example.app", appAppleID: id, environments: environments)
        }
        #expect(try codes([]) == [.unknownApp, .unknownApp])
        #expect(try codes([exampleApp]) == [nil, nil])
        #expect(try codes([binding(1_234_567_890, [.production])]) == [nil, .wrongEnvironment])
        #expect(try codes([binding(1_234_567_890, [.sandbox])]) == [.wrongEnvironment, nil])
        #expect(try codes([binding(nil, [.sandbox])]) == [.wrongEnvironment, nil])
        #expect(try codes([binding(nil, [.production, .sandbox])]) == [.unknownApp, nil])
        #expect(try codes([binding(1, [.production, .sandbox])]) == [.unknownApp, nil])
        #expect(try codes([binding(1_234_567_890, [])]) == [.wrongEnvironment, .wrongEnvironment])
        #expect(
            try codes([binding(1_234_567_890, [.production]), binding(nil, [.sandbox])]) == [nil, nil],
            "listed once for each environment")
    }

    @Test("no refusal's words tell whose purchase it was")
    func privacy() throws {
        let rig = try NotificationRig()
        for row in Self.mandatory + Self.confusion + Self.binding + Self.app {
            var draft = NotificationDraft()
            row.spoil(&draft)
            let words = try #require(try rig.refusal(of: draft)).description.lowercased()
            #expect(!words.contains("7e3fb20b") && !words.contains("704000001"), "\(row.name): \(words)")
        }
    }

    @Test("the codes are the documented ones")
    func codes() {
        #expect(
            NotificationRefusal.Code.allCases.map(\.rawValue) == [
                "malformed_jws", "untrusted_signature", "unknown_app", "wrong_environment", "inconsistent_payload",
            ])
    }
}
