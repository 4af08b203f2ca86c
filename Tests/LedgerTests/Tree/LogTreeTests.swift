import EntitlementCore
import OpenSSLCrypto
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// Proofs are checked with the algorithms of RFC 9162, sections 2.1.3.2 and 2.1.4.2, which share nothing with those that
/// make them, and roots with the recursive definition of RFC 6962.
@Suite("The tree over the log")
struct LogTreeTests {
    /// More than one subtree of the fourth level that is stored.
    private static let events: Int64 = 66_200

    private struct Rig {
        let owner: PostgresConnection
        let tree: LogTree
        let projector: TreeProjector
        let leaves: [Digest]
    }

    private static func rig(events: Int64) async throws -> Rig {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        try await owner.execute(
            script: """
                INSERT INTO event SELECT 1, n, 'epoch', NULL, 1, 1, 'renewed', NULL, NULL, NULL, NULL, NULL, NULL, '\\x00',
                    NULL, sha256((n - 1)::text::bytea), sha256(n::text::bytea)
                FROM generate_series(1, \(events)) AS n;
                UPDATE ledger_head SET position = \(events)
                """)
        return Rig(
            owner: owner, tree: LogTree(pool: database.pool()),
            projector: TreeProjector(pool: database.pool(), pageLeaves: 1795),
            leaves: (0..<events).map { leaf in
                sha256([0] + sha256(Array(String(leaf + 1).utf8)).bytes)
            })
    }

    private static func sha256(_ bytes: [UInt8]) -> Digest { Digest(SHA256.hash(bytes)) ?? .zero }

    @Test("every proof of a small tree, at every size, leads to the root")
    func small() async throws {
        let rig = try await Self.rig(events: 40)
        #expect(try await rig.tree.root(size: 0) == Self.sha256([]))
        #expect(try await rig.tree.root(size: 41) == nil)
        for size in 1...40 as ClosedRange<Int64> {
            let root = TreeAuditor.root(rig.leaves[..<Int(size)])
            #expect(try await rig.tree.root(size: size) == root)
            for position in 1...size {
                let proof = try #require(try await rig.tree.inclusionProof(of: position, size: size))
                #expect(proof.leaf == rig.leaves[Int(position) - 1])
                #expect(TreeAuditor.root(of: proof.leaf, at: position - 1, size: size, proof.hashes) == root)
                let old = TreeAuditor.root(rig.leaves[..<Int(position)])
                let path = try #require(try await rig.tree.consistencyProof(from: position, to: size))
                #expect(TreeAuditor.isConsistent(position, old, size, root, path), "\(position) to \(size)")
            }
        }
    }

    @Test("stored or not, whole or with gaps, the proofs of a large tree are the same", arguments: [UInt64(71)])
    func large(seed: UInt64) async throws {
        let rig = try await Self.rig(events: Self.events)
        var random = SplitMix64(seed: seed)
        let edges: [Int64] = [1, 15, 16, 17, 255, 256, 257, 4096, 65_535, 65_536, 65_537, Self.events]
        for state in ["nothing stored", "stored", "gaps", "restored", "reset and stored"] {
            switch state {
            case "nothing stored": break
            case "gaps":
                try await rig.owner.execute(
                    script: "DELETE FROM tree_node WHERE level = 3 OR (number * 7919) % 11 < 3")
            case "restored":
                try await rig.projector.restore()
                try await rig.projector.catchUp()
            case "reset and stored":
                try await rig.projector.reset()
                try await rig.projector.catchUp()
            default: try await rig.projector.catchUp()
            }
            let stored = try await rig.owner.query("SELECT level, count(*) FROM tree_node GROUP BY 1 ORDER BY 1").rows
            if state.hasSuffix("stored"), state != "nothing stored" {
                #expect(
                    try stored.map { [try $0.int(0), try $0.int(1)] } == (1...4).map { [$0, Self.events >> (4 * $0)] })
            }
            for round in 0..<20 {
                let size = round < edges.count ? edges[round] : random.number(in: 1...Self.events)
                let position = random.chance(30) ? size : random.number(in: 1...size)
                let place = "seed \(seed), \(state): \(position) of \(size)"
                let root = TreeAuditor.root(rig.leaves[..<Int(size)])
                #expect(try await rig.tree.root(size: size) == root, "\(place)")
                let proof = try #require(try await rig.tree.inclusionProof(of: position, size: size))
                #expect(
                    TreeAuditor.root(of: proof.leaf, at: position - 1, size: size, proof.hashes) == root, "\(place)")
                let path = try #require(try await rig.tree.consistencyProof(from: position, to: size))
                let old = TreeAuditor.root(rig.leaves[..<Int(position)])
                #expect(TreeAuditor.isConsistent(position, old, size, root, path), "\(place)")
            }
        }
    }

    @Test("a stored root that was changed gives another root, which no checkpoint had")
    func changed() async throws {
        let rig = try await Self.rig(events: 1000)
        try await rig.projector.catchUp()
        let root = try await rig.tree.root(size: 1000)
        try await rig.owner.execute(script: "UPDATE tree_node SET hash = sha256(hash) WHERE number = 2")
        #expect(try await rig.tree.root(size: 1000) != root)
        #expect(try await rig.tree.root(size: 512) == TreeAuditor.root(rig.leaves[..<512]))
    }

    @Test("rows of another version count for nothing, and are stored anew")
    func otherVersion() async throws {
        let rig = try await Self.rig(events: 1000)
        try await rig.projector.catchUp()
        try await rig.owner.execute(
            script: "UPDATE tree_node SET hash = sha256(hash); UPDATE projection SET version = 1 WHERE name = 'tree'")
        let root = TreeAuditor.root(rig.leaves[...])
        #expect(try await rig.tree.root(size: 1000) == root)
        try await rig.projector.catchUp()
        #expect(try await rig.tree.root(size: 1000) == root)
        let stored = try await rig.owner.query("SELECT version, checkpoint FROM projection WHERE name = 'tree'").first
        #expect(try stored?.int(0) == TreeProjector.row.version && stored?.int(1) == 1000)
    }

    @Test("with more of the tree missing than is computed for one answer it is said to be on its way")
    func tooMuchMissing() async throws {
        let rig = try await Self.rig(events: LogTree.computedLeaves + 16)
        #expect(try await rig.tree.root(size: LogTree.computedLeaves) != nil)
        let error = await #expect(throws: LedgerError.self) {
            _ = try await rig.tree.root(size: LogTree.computedLeaves + 16)
        }
        #expect(error?.code == .notReady)
        try await rig.projector.catchUp()
        #expect(try await rig.tree.root(size: LogTree.computedLeaves + 16) == TreeAuditor.root(rig.leaves[...]))
    }

    @Test("one look at the end of a page stores nothing, and what has grown since is stored by the next")
    func growth() async throws {
        let rig = try await Self.rig(events: 511)
        try await rig.projector.catchUp()
        func stored() async throws -> Int64 {
            try await rig.owner.query("SELECT count(*) FROM tree_node").first?.int(0) ?? -1
        }
        #expect(try await stored() == 31 + 1)
        try await rig.owner.execute(
            script: """
                INSERT INTO event SELECT 1, 512, 'epoch', NULL, 1, 1, 'renewed', NULL, NULL, NULL, NULL, NULL, NULL, '\\x00',
                    NULL, sha256('511'), sha256('512');
                UPDATE ledger_head SET position = 512
                """)
        try await rig.projector.catchUp()
        #expect(try await stored() == 32 + 2)
    }
}
