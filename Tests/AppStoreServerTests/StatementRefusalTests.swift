import AppStorePayloads
import EntitlementCore
import OpenSSLCrypto
import SeededRandom
import Testing

@testable import AppStoreServer

@Suite("Refused statements of a device")
struct StatementRefusalTests {
    let rig: StatementRig

    init() throws { rig = try StatementRig() }

    @Test("of all kinds in all places, each is accepted in its own and refused in every other")
    func kinds() throws {
        for kind in StatementKind.allCases {
            let signed = try rig.store.sign(text(kind.payload()))
            for place in StatementKind.places {
                let refusal = rig.refusal(of: signed, as: place)
                #expect(
                    refusal?.code == (kind == place ? nil : .inconsistentPayload), "\(kind) as \(place): \(refusal)")
            }
        }
    }

    /// What a store could add to a payload, or leave out of it, without making it another kind.
    @Test(
        "no kind becomes another by what it lacks or has besides, whatever the seed", arguments: 0..<40 as Range<UInt64>
    )
    func neverConfused(seed: UInt64) throws {
        var random = SplitMix(state: seed)
        for kind in StatementKind.allCases {
            var payload = try kind.payload()
            let others = try StatementKind.allCases.filter { $0 != kind }.flatMap { try $0.payload() }
            let marks = Set(StatementKind.allCases.flatMap(\.mandatory))
            // What all kinds but the mandatory marks of others may have.
            for (name, value) in others where !marks.contains(name) && random.next() % 2 == 0 { payload[name] = value }
            for name in payload.keys.sorted() where !kind.mandatory.contains(name) && random.next() % 4 == 0 {
                payload[name] = nil
            }
            for place in StatementKind.places {
                let refusal = try rig.refusal(of: payload, as: place)
                let wanted: NotificationRefusal.Code? = kind == place ? nil : .inconsistentPayload
                // Without its number an app transaction is of no app; that is another matter than its kind.
                if kind == place, refusal?.code == .unknownApp, payload["appAppleId"] == nil { continue }
                #expect(refusal?.code == wanted, "seed \(seed): \(kind) as \(place): \(refusal)")
            }
        }
    }

    @Test("mandatory fields are required, in any usable form", arguments: StatementKind.places)
    func mandatory(kind: StatementKind) throws {
        for name in kind.mandatory {
            for bad in [nil, "", [1], true] as [Any?] {
                var payload = try kind.payload()
                payload[name] = bad
                #expect(
                    try rig.refusal(of: payload, as: kind)?.code == .inconsistentPayload,
                    "\(kind) with \(name) \(bad ?? "missing")")
            }
        }
    }

    @Test("a statement of an app that is not configured is of an unknown app")
    func otherApp() throws {
        for kind in [StatementKind.transaction, .appTransaction] {
            for bundleID in ["com.example.other", "com.example.App", "com.example.app "] {
                var payload = try kind.payload()
                payload["bundleId"] = bundleID
                payload[kind.environmentField] = "Xcode"
                #expect(try rig.refusal(of: payload, as: kind)?.code == .unknownApp, "\(kind) of \(bundleID)")
            }
        }
    }

    @Test(
        "an app transaction from production bears the app's number",
        arguments: [nil, 1, "1234567890"] as [(any Sendable)?])
    func number(of number: (any Sendable)?) throws {
        var payload = try StatementKind.appTransaction.payload()
        payload["appAppleId"] = number
        #expect(try rig.refusal(of: payload, as: .appTransaction)?.code == .unknownApp)
    }

    @Test("environments that no store signs for are refused", arguments: StatementKind.places)
    func otherEnvironment(kind: StatementKind) throws {
        for word in ["Xcode", "LocalTesting", "production", "Moon"] {
            var payload = try kind.payload()
            payload[kind.environmentField] = word
            #expect(try rig.refusal(of: payload, as: kind)?.code == .wrongEnvironment, "\(kind) of \(word)")
        }
    }

    @Test("an environment the app is not configured for is refused", arguments: StatementKind.places)
    func unservedEnvironment(kind: StatementKind) throws {
        for (served, stated) in [(StoreEnvironment.production, "Sandbox"), (.sandbox, "Production")] {
            let app = AppBinding(bundleID: "com.example.app", appAppleID: 1_234_567_890, environments: [served])
            var payload = try kind.payload()
            payload[kind.environmentField] = stated
            #expect(try StatementRig(apps: [app]).refusal(of: payload, as: kind)?.code == .wrongEnvironment)
        }
    }

    @Test("without a configured app nothing is accepted", arguments: StatementKind.places)
    func noApps(kind: StatementKind) throws {
        let code = try StatementRig(apps: []).refusal(of: kind.payload(), as: kind)?.code
        #expect(code == (kind == .renewal ? .wrongEnvironment : .unknownApp))
    }

    @Test("what is not a JWS is malformed", arguments: StatementKind.places)
    func malformed(kind: StatementKind) throws {
        let good = try rig.store.sign(text(kind.payload()))
        let parts = good.split(separator: ".").map(String.init)
        let broken = [
            "", "hello", "a.b", "a.b.c.d", "{}", "💥.💥.💥", String(good.prefix(good.utf8.count / 3)),
            String(good.dropLast(2)), parts[0] + "." + parts[1], good + "." + parts[2], good + "=", good + "\n",
            try rig.store.sign("[]"), try rig.store.sign("hi"),
            String(repeating: "a", count: UnverifiedJWS.maximumLength + 1),
        ]
        for compact in broken {
            #expect(rig.refusal(of: compact, as: kind)?.code == .malformedJWS, "\(compact.prefix(40))")
        }
    }

    @Test("what no trusted root vouches for is untrusted", arguments: StatementKind.places)
    func untrusted(kind: StatementKind) throws {
        let payload = try text(kind.payload())
        let stranger = try TestStore()
        let good = try rig.store.sign(payload)
        let parts = good.split(separator: ".").map(String.init)
        let none = Base64.encodeURL(header(algorithm: "none", x5c: rig.store.chain).utf8)
        let symmetric = Base64.encodeURL(header(algorithm: "HS256", x5c: rig.store.chain).utf8)
        var signature = try #require(Base64.decodeURL(parts[2]))
        signature[63] ^= 1
        let forged = [
            "another root": try stranger.sign(payload),
            "a strange key under the store's chain": try rig.store.sign(payload, key: stranger.leafKey),
            "a strange leaf under the store's chain": try stranger.sign(
                payload, x5c: [stranger.chain[0]] + rig.store.chain.dropFirst()),
            "two certificates": try rig.store.sign(payload, x5c: Array(rig.store.chain.prefix(2))),
            "alg none": "\(none).\(parts[1]).",
            "alg none with a signature": "\(none).\(parts[1]).\(parts[2])",
            "alg HS256": "\(symmetric).\(parts[1]).\(parts[2])",
            "another signature": "\(parts[0]).\(parts[1]).\(Base64.encodeURL(signature))",
            "a signature of zeros": "\(parts[0]).\(parts[1]).\(Base64.encodeURL([UInt8](repeating: 0, count: 64)))",
        ]
        #expect(rig.refusal(of: good, as: kind) == nil)
        for (name, compact) in forged {
            #expect(rig.refusal(of: compact, as: kind)?.code == .untrustedSignature, "\(name)")
        }
    }

    @Test("two bytes changed anywhere in what was signed are found", arguments: StatementKind.places)
    func altered(kind: StatementKind) throws {
        let good = try rig.store.sign(text(kind.payload()))
        let parts = good.split(separator: ".").map(String.init)
        let payload = try #require(Base64.decodeURL(parts[1]))
        var accepted = 0
        for index in stride(from: 0, to: payload.count - 1, by: 3) {
            var changed = payload
            changed[index] ^= 1
            changed[index + 1] ^= 2
            let compact = "\(parts[0]).\(Base64.encodeURL(changed)).\(parts[2])"
            let code = rig.refusal(of: compact, as: kind)?.code
            if code == nil { accepted += 1 }
            #expect(code == .untrustedSignature || code == .malformedJWS, "at \(index)")
        }
        #expect(accepted == 0)
    }

    @Test("certificates that were not valid at the signed date are untrusted", arguments: StatementKind.places)
    func expired(kind: StatementKind) throws {
        let spoils: [(inout CertificateTemplate) -> Void] = [
            { $0.notAfter = Instant.signed - Instant.day }, { $0.notBefore = Instant.signed + Instant.day },
        ]
        for spoil in spoils {
            for store in [try TestStore(leaf: spoil), try TestStore(intermediate: spoil)] {
                let rig = try StatementRig(store: store)
                #expect(try rig.refusal(of: kind.payload(), as: kind)?.code == .untrustedSignature)
            }
        }
    }

    @Test("no refusal's words tell whose purchase it was")
    func privacy() throws {
        for kind in StatementKind.allCases {
            for place in StatementKind.places {
                var payload = try kind.payload()
                payload[kind.environmentField] = "Moon"
                guard let refusal = try rig.refusal(of: payload, as: place) else {
                    Issue.record("\(kind) of another environment accepted as \(place)")
                    continue
                }
                let words = refusal.description.lowercased()
                #expect(!words.contains("7e3fb20b") && !words.contains("704000001"), "\(words)")
            }
        }
    }
}

/// A small generator, so that a failure can be had again by its seed.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
