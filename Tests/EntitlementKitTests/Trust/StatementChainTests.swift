import AppStoreServer
import EntitlementCore
import Foundation
import OpenSSLCrypto
import Testing

@testable import EntitlementKit

@Suite("Statements on the disk, verified by their certificates")
struct StatementChainTests {
    private let desk: ForgersDesk
    private let statement = Statements.transaction("1", product: "lifetime", until: nil)

    init() throws { desk = try ForgersDesk() }

    private func isSigned(_ statement: SignedStatement, believesXcode: Bool = false) -> Bool {
        desk.verifier(believesXcode: believesXcode).isSignedByStore(statement.jws)
    }

    @Test("Apple's root is the one that the server trusts, and can be read")
    func appleRoot() throws {
        let theirs = try #require(try TrustAnchors.apple().roots.first)
        #expect(AppleRoot.der == theirs.der)
        let root = try #require(StoreCertificate(der: AppleRoot.der))
        #expect(root.subject == root.issuer && root.isAuthority && root.p256Key == nil)
        #expect(root.notBefore.milliseconds == theirs.notBefore && root.notAfter.milliseconds == theirs.notAfter)
    }

    @Test("a certificate reads as OpenSSL reads it", arguments: [400.0, 9000])
    func certificates(_ until: Double) throws {
        let chain = try desk.chain(until: until)
        for (der, isLeaf) in zip(chain.certificates, [true, false, false]) {
            let theirs = try Certificate(der: der)
            let ours = try #require(StoreCertificate(der: der))
            // From 2050 on a certificate's time has another form; day 9000 is in that year.
            #expect(ours.notBefore.milliseconds == theirs.notBefore && ours.notAfter.milliseconds == theirs.notAfter)
            #expect(ours.isAuthority == theirs.isCA)
            #expect(ours.has(StoreCertificate.leafMarker) == isLeaf)
            #expect((ours.p256Key != nil) == isLeaf)
            for cut in stride(from: 0, to: der.count, by: 7) {
                #expect(StoreCertificate(der: Array(der[..<cut])) == nil)
            }
            #expect(StoreCertificate(der: der + [0]) == nil)
        }
        let point = try chain.key.publicKey.p256Point()
        #expect(StoreCertificate(der: chain.certificates[0])?.p256Key == [4] + point.x + point.y)
    }

    @Test("damaged certificates are refused or read, and never harm", arguments: 0..<3)
    func damaged(_ index: Int) throws {
        let der = try desk.chain().certificates[index]
        for place in der.indices {
            for value in [0, 0x30, 0x7F, 0x80, 0x84, 0xFF] as [UInt8] {
                var changed = der
                changed[place] = value
                _ = StoreCertificate(der: changed)
            }
        }
    }

    @Test("what the store signed is believed, of whichever kind, and each chain is looked at once")
    func genuine() throws {
        let chain = try desk.chain()
        let renewal = Statements.renewal(original: "1", signed: 3)
        for statement in [statement, renewal, Statements.appTransaction(signed: 2)] {
            #expect(isSigned(try desk.sign(statement, chain)))
        }
        #expect(desk.trust.count == 1 && desk.chains.count == 1)
        #expect(isSigned(try desk.sign(statement, try desk.chain())))
        #expect(desk.chains.count == 2)
    }

    @Test("a certificate that ran out since is believed for what it signed before, and not for what it did not")
    func dates() throws {
        let chain = try desk.chain(until: 20)
        for (day, counts) in [(10.0, true), (19.9, true), (20, false), (300, false), (-401, false)] {
            let dated = Statements.transaction("1", signed: day)
            #expect(isSigned(try desk.sign(dated, chain)) == counts, "day \(day)")
        }
        // The first question came when it was not valid, which says nothing of the others.
        let later = try desk.chain(until: 20)
        #expect(!isSigned(try desk.sign(Statements.transaction("1", signed: 25), later)))
        #expect(isSigned(try desk.sign(Statements.transaction("1", signed: 15), later)))
    }

    @Test("nobody else's statement is believed")
    func forged() throws {
        let stranger = try ForgersDesk()
        let genuine = try desk.chain()
        func forged(_ what: String, _ statement: SignedStatement) { #expect(!isSigned(statement), "\(what)") }
        forged("signed by nobody", statement)
        forged("another root of the same name", try desk.sign(statement, try stranger.chain()))
        forged("no marker in the leaf", try desk.sign(statement, try desk.chain(leafMarker: "1.2.3")))
        forged("no marker in the intermediate", try desk.sign(statement, try desk.chain(intermediateMarker: "1.2.3")))
        forged("an intermediate that may issue nothing", try desk.sign(statement, try desk.chain(isCA: false)))
        var chain = genuine
        chain.certificates.swapAt(0, 1)
        forged("swapped", try desk.sign(statement, chain))
        chain = genuine
        chain.certificates[1] = try desk.chain().certificates[1]
        forged("another intermediate of the same name", try desk.sign(statement, chain))
        chain = genuine
        chain.certificates[1] = chain.certificates[2]
        forged("the root as its intermediate", try desk.sign(statement, chain))
        chain = ForgersDesk.Chain(certificates: genuine.certificates, key: try PrivateKey.generate(.p256))
        forged("another key", try desk.sign(statement, chain))
        for certificates in [
            genuine.certificates.dropLast(), genuine.certificates + genuine.certificates.suffix(1), [],
        ] {
            chain = ForgersDesk.Chain(certificates: certificates, key: genuine.key)
            forged("\(certificates.count) certificates", try desk.sign(statement, chain))
        }
        for algorithm in ["none", "HS256", "ES384", "es256"] {
            forged(algorithm, try desk.sign(statement, genuine) { $0["alg"] = algorithm })
        }
        forged("no algorithm", try desk.sign(statement, genuine) { $0["alg"] = nil })
        forged("extensions", try desk.sign(statement, genuine) { $0["crit"] = ["b64"] })
        let signed = try desk.sign(statement, genuine).jws.split(separator: ".")
        let other = Statements.transaction("2", product: "lifetime", until: nil).jws.split(separator: ".")
        forged("another payload", SignedStatement(jws: [signed[0], other[1], signed[2]].joined(separator: ".")))
        forged("no signature", SignedStatement(jws: [signed[0], signed[1], ""].joined(separator: ".")))
        forged("two parts", SignedStatement(jws: [signed[0], signed[1]].joined(separator: ".")))
        forged("four parts", SignedStatement(jws: (signed + [""]).joined(separator: ".")))
        #expect(isSigned(try desk.sign(statement, genuine)))
    }

    @Test("chains that a disk makes up cost a bounded number of looks, and keep nothing that is known out")
    func bounded() throws {
        let genuine = try desk.sign(statement, try desk.chain())
        #expect(isSigned(genuine))
        let stranger = try ForgersDesk()
        for _ in 0..<(VouchedChains.limit + 10) {
            #expect(!isSigned(try stranger.sign(statement, try stranger.chain())))
        }
        #expect(desk.chains.count == VouchedChains.limit)
        #expect(desk.trust.count == VouchedChains.limit)
        #expect(isSigned(genuine))
    }

    @Test("what Xcode's own store states counts where that is believed, and nowhere else")
    func xcode() throws {
        let local = Statements.transaction("1", environment: "Xcode")
        #expect(!isSigned(local) && isSigned(local, believesXcode: true))
        #expect(!isSigned(statement, believesXcode: true))
        #expect(!isSigned(Statements.transaction("1", environment: "Sandbox"), believesXcode: true))
    }

    @Test("a device without a network believes of its disk what the store has signed, and nothing else")
    func disk() async throws {
        let (chain, stranger) = (try desk.chain(), try ForgersDesk())
        let (genuine, app) = (try desk.sign(statement, chain), try desk.sign(Statements.appTransaction(), chain))
        let forged = try stranger.sign(Statements.transaction("9", until: 300), try stranger.chain())
        var rig = KitRig {
            $0.current = [genuine]
            $0.appTransaction = app
        } configuration: {
            $0.statementVerifier = desk.verifier()
        }
        await rig.launch()
        await rig.store.stop()
        rig.server.edit { $0.mood = .unreachable }
        let kept = await rig.storage.files["statements.jsonl"] ?? Data()
        let rows = ["{\"transaction\":\"\(forged.jws)\"}", "{\"confirmed\":{\"9\":\"2026-01-02T00:00:00.000Z\"}}", ""]
        await rig.storage.put(kept + Data(rows.joined(separator: "\n").utf8), as: "statements.jsonl")
        rig = await rig.relaunched(device: ScriptedStore { $0.appTransaction = nil })
        let events = rig.store.syncEvents
        await rig.launch()
        #expect(await rig.gives("forever"))
        #expect(await !rig.gives())
        #expect(await rig.store.current.customerID == "apple:A")
        await rig.store.stop()
        var told: [SyncEvent] = []
        for await event in events { told.append(event) }
        #expect(told.contains { $0.kind == .unverified })
    }
}
