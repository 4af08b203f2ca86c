import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import TestSupport
import Testing

@testable import Service

@Suite("Launches answered on the event loop", .serialized, .timeLimit(.minutes(5)))
struct RepeatedLaunchTests {
    private static let ann = Purchase.customer
    private static let bob = "d7e3fb20-4cdb-47cc-936d-99d65f608138"

    /// A device of Ann's: a subscription, something for life, renewal information, and its app transaction.
    private static func posted(_ rig: ServiceRig, claims: [ReconcileRequest.Claim] = []) throws -> [UInt8] {
        try Posted(
            transactions: [
                rig.sign(HeldTransaction(token: ann, appTransaction: "704000001")),
                rig.sign(.lifetime("2000000000000002", token: ann, appTransaction: "704000001")),
            ],
            renewals: [rig.sign(HeldRenewal())], appTransaction: rig.signAppTransaction("704000001"), claims: claims
        ).body
    }

    /// Posts until the answer comes from memory, and holds it to what the general path answers.
    private static func expectFromMemory(
        _ instance: ServedInstance, _ customer: String, _ body: [UInt8], key: String, _ told: String
    ) async throws {
        let before = instance.repeatedLaunches
        for _ in 0..<3 {
            let expected = try await instance.generalReconciliation(customer, body, key: key)
            let answer = try await instance.reconcile(customer, body, key: key)
            #expect(answer == expected, "\(told)")
        }
        #expect(instance.repeatedLaunches >= before + 2, "\(told)")
    }

    @Test("an answer from memory is what the general path answers, and stays so whatever happens in between")
    func sameBytes() async throws {
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig)
        let body = try Self.posted(rig)
        _ = try await instance.reconcile(Self.ann, body, key: rig.admin)
        let steps: [(name: String, act: (ServiceRig) async throws -> Void)] = [
            ("nothing", { _ in }),
            ("somebody else's purchase", { try await $0.buy("31", by: Self.bob) }),
            ("another purchase", { try await $0.buy("32", by: Self.ann) }),
            (
                "refund",
                { rig in
                    try await rig.notify(
                        HeldTransaction(signed: 9, token: Self.ann, appTransaction: "704000001", revoked: 8),
                        type: "REFUND", uuid: "refund")
                }
            ),
            ("grant", { _ = try await $0.command("grant", Self.ann, #"{"entitlement":"gift","reason":"test"}"#) }),
            ("link", { _ = try await $0.link(Self.ann, to: "c-2") }),
            (
                "grant to somebody linked",
                { _ = try await $0.command("grant", "c-2", #"{"entitlement":"x","reason":"t"}"#) }
            ),
            (
                "catalog",
                { _ = try await $0.put(#"{"products":[{"product_id":"com.example.lifetime","entitlements":["a"]}]}"#) }
            ),
        ]
        for (name, act) in steps {
            try await act(rig)
            try await Self.expectFromMemory(instance, Self.ann, body, key: rig.admin, name)
            rig.wait()
        }
        await instance.stop()
    }

    @Test("a publishable key and a customer token are answered from memory too, and each is told what is its own")
    func credentials() async throws {
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig)
        let body = try Self.posted(rig)
        _ = try await instance.reconcile(Self.ann, body, key: rig.admin)
        _ = try await rig.link("apple:704000001", to: Self.ann)
        let publishable = try await rig.publishableKey()
        let token = try await rig.token(Self.ann)
        for key in [publishable, token] {
            try await Self.expectFromMemory(instance, Self.ann, body, key: key, key.prefix(12).description)
        }
        // Neither is remembered for anybody else.
        #expect(try await instance.reconcile(Self.bob, body, key: token).status == 403)
        let forged = token.dropLast() + (token.hasSuffix("A") ? "E" : "A")
        #expect(try await instance.reconcile(Self.ann, body, key: String(forged)).status == 401)
        await instance.stop()
    }

    @Test("an answer from memory ends with the customer token that asked for it")
    func expiredToken() async throws {
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig)
        let body = try Self.posted(rig)
        let token = try await rig.token(Self.ann)
        _ = try await instance.reconcile(Self.ann, body, key: token)
        try await Self.expectFromMemory(instance, Self.ann, body, key: token, "before")
        rig.wait(seconds: 100 * 86_400)
        #expect(try await instance.reconcile(Self.ann, body, key: token).status == 401)
        await instance.stop()
    }

    @Test("an answer from memory ends with the key that its customer token was made with")
    func endedTokenKey() async throws {
        var limits = Application.Limits()
        limits.keyLifetime = .milliseconds(300)
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig, limits: limits)
        let body = try Self.posted(rig)
        let token = try await rig.token(Self.ann)
        for _ in 0..<5 { #expect(try await instance.reconcile(Self.ann, body, key: token).status == 200) }
        #expect(instance.repeatedLaunches > 0)
        _ = try await DatabaseTokenKeys(pool: rig.pool).rotate(now: rig.clock.now, endsEarlier: true)
        try await Task.sleep(for: .milliseconds(350))
        #expect(try await instance.reconcile(Self.ann, body, key: token).status == 401)
        await instance.stop()
    }

    @Test("an answer from memory ends when the app transaction it rests on becomes too old")
    func oldAppTransaction() async throws {
        // It was signed on day 0.
        let rig = try await ServiceRig.withCatalog(
            trust: DeviceTrust(appTransactionMaxAge: 330 * Timestamp.millisecondsPerDay))
        let instance = try await ServedInstance.start(on: rig)
        let body = try Self.posted(rig)
        _ = try await instance.reconcile(Self.ann, body, key: rig.admin)
        _ = try await rig.link("apple:704000001", to: Self.ann)
        let key = try await rig.publishableKey()
        try await Self.expectFromMemory(instance, Self.ann, body, key: key, "young")
        #expect(try await instance.reconcile(Self.ann, body, key: key).body.contains(#""proof":"app_transaction""#))
        rig.clock.now = day(330.5)
        #expect(try await instance.reconcile(Self.ann, body, key: key).body.contains(#""proof":"none""#))
        await instance.stop()
    }

    @Test("a revoked key is refused as soon as keys are asked for again")
    func revokedKey() async throws {
        var limits = Application.Limits()
        limits.keyLifetime = .milliseconds(300)
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig, limits: limits)
        let body = try Self.posted(rig)
        let (key, secret) = try await rig.keys.create(name: "writer", scopes: [.customersWrite])
        for _ in 0..<5 { #expect(try await instance.reconcile(Self.ann, body, key: secret).status == 200) }
        #expect(instance.repeatedLaunches > 0)
        _ = try await rig.keys.revoke(key.id)
        try await Task.sleep(for: .milliseconds(350))
        #expect(try await instance.reconcile(Self.ann, body, key: secret).status == 401)
        await instance.stop()
    }

    @Test("an answer from memory holds until the next boundary, to the millisecond")
    func boundary() async throws {
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig)
        let claims = [ReconcileRequest.Claim(productID: "com.example.pro.yearly", state: .active)]
        let body = try Self.posted(rig, claims: claims)
        _ = try await instance.reconcile(Self.ann, body, key: rig.admin)
        for offset in [-3, -2, -1, 0, 1, 2] as [Int64] {
            rig.clock.now = day(365).adding(milliseconds: offset)
            for _ in 0..<3 {
                let answer = try await instance.reconcile(Self.ann, body, key: rig.admin)
                let document = try WireJSON.decode(ReconciliationDocument.self, from: Array(answer.body.utf8))
                #expect(document.at == rig.clock.now)
                #expect(document.drift.isEmpty == (offset < 0), "offset \(offset)")
            }
        }
        #expect(instance.repeatedLaunches >= 6)
        await instance.stop()
    }

    @Test("what has to be looked at again each time is never answered from memory")
    func notRemembered() async throws {
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig)
        let good = try rig.sign(HeldTransaction(token: Self.ann))
        let foreign = try rig.sign(HeldTransaction(id: "2000000000000009", token: Self.bob))
        try await rig.notify(HeldTransaction(id: "2000000000000009", token: Self.bob), uuid: "bob")
        let refused = good.dropLast(8) + "AAAAAAAA"
        let drifting = [ReconcileRequest.Claim(productID: "com.example.coins", state: .active)]
        for (name, posted) in [
            ("conflict", Posted(transactions: [good, foreign])),
            ("refused", Posted(transactions: [good, String(refused)])),
            ("drift", Posted(transactions: [good], claims: drifting)),
        ] {
            let body = try posted.body
            for round in 0..<4 {
                let answer = try await instance.reconcile(Self.ann, body, key: rig.admin)
                let expected = try await instance.generalReconciliation(Self.ann, body, key: rig.admin)
                // At first it is new.
                #expect(answer == expected || round == 0, "\(name)")
            }
        }
        #expect(instance.repeatedLaunches == 0)
        await instance.stop()
    }

    @Test("a pass that is given out from memory is signed anew when it is five seconds old, and is verified by its key")
    func passes() async throws {
        let rig = try await ServiceRig.withCatalog(passKeys: PassKeyRing([ServiceRig.passKey()]))
        let instance = try await ServedInstance.start(on: rig)
        let body = try Self.posted(rig)
        var passes: [String] = []
        for round in 0..<8 {
            let answer = try await instance.reconcile(Self.ann, body, key: rig.admin)
            let document = try WireJSON.decode(ReconciliationDocument.self, from: Array(answer.body.utf8))
            let pass = try #require(document.pass)
            let claims = try #require(pass.split(separator: ".").dropFirst().first)
            let text = String(claims).replacing("-", with: "+").replacing("_", with: "/")
            let padded = text + String(repeating: "=", count: (4 - text.count % 4) % 4)
            let stated = try WireJSON.decode(
                PassDocument.self, from: Array(try #require(Data(base64Encoded: padded))))
            #expect(stated.customerID == Self.ann && stated.entitlements.count == 2)
            #expect(stated.position <= document.position)
            #expect(abs(stated.issuedAt - document.at.milliseconds / 1000) <= 5)
            passes.append(pass)
            rig.wait(seconds: round == 4 ? 60 : 1)
        }
        #expect(instance.repeatedLaunches >= 6)
        #expect(Set(passes).count >= 3 && passes[4] != passes[5])
        await instance.stop()
    }

    @Test("whoever sends too many launches is refused, whether or not they could be answered from memory")
    func rateLimit() async throws {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: 1, burst: 10)
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig, limits: limits)
        let body = try Self.posted(rig)
        _ = try await instance.reconcile(Self.ann, body, key: rig.admin)
        let token = try await rig.token(Self.ann)
        var statuses: [Int] = []
        for _ in 0..<14 { statuses.append(try await instance.reconcile(Self.ann, body, key: token).status) }
        #expect(
            statuses.prefix(9).allSatisfy { $0 == 200 } && statuses.suffix(3).allSatisfy { $0 == 429 }, "\(statuses)")
        #expect(instance.repeatedLaunches > 5)
        await instance.stop()
    }
}
