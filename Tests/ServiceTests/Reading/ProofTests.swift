import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import TestSupport
import Testing

@testable import Service

@Suite("Checkpoints and proofs over HTTP")
struct ProofTests {
    private static func rig() async throws -> ServiceRig {
        try await ServiceRig.make(logKey: LogKey(name: "example.com/ledger", privateKey: .generate()))
    }

    private static func digest(_ hex: String) throws -> Digest {
        let bytes = stride(from: 0, to: hex.count, by: 2).compactMap { offset in
            let start = hex.index(hex.startIndex, offsetBy: offset)
            return UInt8(hex[start..<hex.index(start, offsetBy: 2)], radix: 16)
        }
        return try #require(Digest(bytes))
    }

    private static func get<Document: Decodable>(
        _ target: String, _ rig: ServiceRig, as type: Document.Type
    ) async throws -> Document {
        try WireJSON.decode(type, from: try await rig.send("GET", target, key: rig.admin).body)
    }

    private static func checkpoint(_ rig: ServiceRig) async throws -> (checkpoint: Checkpoint, note: SignedNote) {
        let answer = try await rig.send("GET", "/v1/ledger/checkpoint", key: rig.admin)
        #expect(answer.status == 200)
        #expect(answer.headers.contains { $0 == ("Content-Type", "text/plain; charset=utf-8") })
        let note = try #require(SignedNote(String(decoding: answer.body, as: UTF8.self)))
        return (try #require(Checkpoint(text: note.text)), note)
    }

    @Test("an auditor with the published key follows every event to the checkpoint, and each checkpoint to the next")
    func audit() async throws {
        let rig = try await Self.rig()
        let published = try await rig.send("GET", "/.well-known/rightful-log-key")
        let text = String(decoding: published.body, as: UTF8.self)
        #expect(published.status == 200 && text.hasSuffix("\n"))
        let key = try #require(LogVerifier(String(text.dropLast())))
        let first = try await Self.checkpoint(rig)
        #expect(first.checkpoint.size == 1)
        var earlier: [Checkpoint] = []
        for number in 2...10 as ClosedRange<Int64> {
            try await rig.buy("\(number)", by: "00000000-0000-4000-8000-00000000000\(number % 10)")
            let (checkpoint, note) = try await Self.checkpoint(rig)
            #expect(note.isSigned(by: key))
            #expect(checkpoint.origin == "example.com/ledger" && checkpoint.size == number)
            for position in 1...number {
                let event = try await Self.get("/v1/events/\(position)", rig, as: EventDocument.self)
                let proof = try await Self.get(
                    "/v1/events/\(position)/proof?size=\(number)", rig, as: InclusionProofDocument.self)
                #expect(proof.object == "inclusion_proof" && proof.position == position && proof.size == number)
                let leaf = try Self.digest(proof.leafHash)
                #expect(leaf == TreeAuditor.leaf(try Self.digest(event.hash)))
                let root = TreeAuditor.root(
                    of: leaf, at: position - 1, size: number, try proof.hashes.map { try Self.digest($0) })
                #expect(root == checkpoint.root)
            }
            for old in earlier {
                let proof = try await Self.get(
                    "/v1/ledger/consistency?from=\(old.size)&to=\(number)", rig, as: ConsistencyProofDocument.self)
                #expect(proof.object == "consistency_proof" && proof.from == old.size && proof.to == number)
                let hashes = try proof.hashes.map { try Self.digest($0) }
                #expect(TreeAuditor.isConsistent(old.size, old.root, number, checkpoint.root, hashes))
            }
            earlier.append(checkpoint)
        }
    }

    @Test("the end of the log and the answer to a device name the ledger")
    func ledgerID() async throws {
        let rig = try await ServiceRig.withCatalog()
        #expect(try await Self.get("/v1/ledger", rig, as: LedgerDocument.self).ledgerID == ServiceRig.ledgerID)
        let answer = try await rig.answer("c", Posted(), key: rig.admin)
        #expect(answer.ledgerID == ServiceRig.ledgerID)
    }

    @Test(
        "sizes out of range are refused",
        arguments: [
            ("/v1/events/3/proof?size=2", 422), ("/v1/events/3/proof?size=6", 422), ("/v1/events/3/proof?size=0", 422),
            ("/v1/events/3/proof?size=x", 400), ("/v1/events/6/proof", 404), ("/v1/events/0/proof", 404),
            ("/v1/events/6/proof?size=4", 404), ("/v1/events/x/proof", 400), ("/v1/events/3/proof", 200),
            ("/v1/events/3/proof?size=99999999999999999999", 422),
            ("/v1/ledger/consistency?from=0&to=3", 422), ("/v1/ledger/consistency?from=4&to=3", 422),
            ("/v1/ledger/consistency?from=1&to=6", 422), ("/v1/ledger/consistency?to=3", 400),
            ("/v1/ledger/consistency?from=4&to=4", 200), ("/v1/ledger/consistency?from=1", 200),
            ("/v1/ledger/consistency?from=-1&to=3", 400),
        ])
    func ranges(target: String, status: Int) async throws {
        let rig = try await Self.rig()
        for number in 1...4 { try await rig.buy("\(number)", by: "00000000-0000-4000-8000-000000000001") }
        let answer = try await rig.send("GET", target, key: rig.admin)
        #expect(answer.status == status, "\(String(decoding: answer.body, as: UTF8.self))")
    }

    @Test("whoever may not read events gets no proofs, and a service without a key says so")
    func refused() async throws {
        let rig = try await ServiceRig.make()
        try await rig.buy("1", by: "00000000-0000-4000-8000-000000000001")
        let reader = try await rig.keys.create(name: "r", scopes: [.customersRead]).secret
        for target in ["/v1/events/1/proof", "/v1/ledger/consistency?from=1", "/v1/ledger/checkpoint"] {
            #expect(try await rig.send("GET", target, key: reader).status == 403, "\(target)")
            #expect(try await rig.send("GET", target).status == 401, "\(target)")
        }
        #expect(try await rig.send("GET", "/v1/ledger/checkpoint", key: rig.admin).status == 503)
        #expect(try await rig.send("GET", "/.well-known/rightful-log-key").status == 503)
        #expect(try await rig.send("GET", "/v1/events/1/proof", key: rig.admin).status == 200)
    }
}
