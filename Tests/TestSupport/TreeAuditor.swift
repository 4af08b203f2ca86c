package import EntitlementCore
import OpenSSLCrypto

/// Checks proofs from a tree over a log, as somebody would who has nothing but RFC 9162.
package enum TreeAuditor {
    /// The hash of a leaf whose data is an event's hash.
    package static func leaf(_ event: Digest) -> Digest { sha256([0] + event.bytes) }

    /// The root by its recursive definition (section 2.1.1).
    package static func root(_ leaves: ArraySlice<Digest>) -> Digest {
        guard leaves.count > 1, let first = leaves.indices.first else { return leaves.first ?? sha256([]) }
        var split = 1
        while 2 * split < leaves.count { split *= 2 }
        return join(root(leaves[first..<first + split]), root(leaves[(first + split)...]))
    }

    /// The root that an inclusion proof leads to (section 2.1.3.2); `nil` for one of the wrong length.
    package static func root(of leaf: Digest, at index: Int64, size: Int64, _ proof: [Digest]) -> Digest? {
        var (fn, sn, hash) = (index, size - 1, leaf)
        for other in proof {
            guard sn != 0 else { return nil }
            if fn & 1 == 1 || fn == sn {
                hash = join(other, hash)
                while fn & 1 == 0, fn != 0 { (fn, sn) = (fn >> 1, sn >> 1) }
            } else {
                hash = join(hash, other)
            }
            (fn, sn) = (fn >> 1, sn >> 1)
        }
        return sn == 0 ? hash : nil
    }

    /// Whether a proof shows that one tree begins with another (section 2.1.4.2).
    package static func isConsistent(
        _ old: Int64, _ oldRoot: Digest, _ new: Int64, _ newRoot: Digest, _ proof: [Digest]
    ) -> Bool {
        if old == new { return proof.isEmpty && oldRoot == newRoot }
        var path = proof
        if old & (old - 1) == 0 { path.insert(oldRoot, at: 0) }
        guard let first = path.first else { return false }
        var (fn, sn, fr, sr) = (old - 1, new - 1, first, first)
        while fn & 1 == 1 { (fn, sn) = (fn >> 1, sn >> 1) }
        for other in path.dropFirst() {
            guard sn != 0 else { return false }
            if fn & 1 == 1 || fn == sn {
                (fr, sr) = (join(other, fr), join(other, sr))
                while fn & 1 == 0, fn != 0 { (fn, sn) = (fn >> 1, sn >> 1) }
            } else {
                sr = join(sr, other)
            }
            (fn, sn) = (fn >> 1, sn >> 1)
        }
        return sn == 0 && fr == oldRoot && sr == newRoot
    }

    private static func join(_ left: Digest, _ right: Digest) -> Digest { sha256([1] + left.bytes + right.bytes) }

    private static func sha256(_ bytes: [UInt8]) -> Digest { Digest(SHA256.hash(bytes)) ?? .zero }
}
