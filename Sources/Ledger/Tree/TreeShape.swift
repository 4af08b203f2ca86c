import EntitlementCore
import OpenSSLCrypto

/// A complete subtree of the tree over the log: 2^level leaves, beginning at leaf `number` · 2^level.
///
/// Leaf 0 is the event at position 1.
struct Subtree: Hashable, Sendable {
    let level: Int
    let number: Int64
}

/// What the tree over the log consists of, at any size (RFC 6962, section 2.1).
///
/// A part of it is named by its leaves. Every part that a proof needs begins at a multiple of the greatest power of two
/// that it holds, so it is made of complete subtrees.
enum TreeShape {
    /// The complete subtrees that a part is made of, from left to right, each smaller than the one before.
    static func subtrees(of leaves: Range<Int64>) -> [Subtree] {
        var subtrees: [Subtree] = []
        var start = leaves.lowerBound
        while start < leaves.upperBound {
            let level = Int64.bitWidth - 1 - (leaves.upperBound - start).leadingZeroBitCount
            subtrees.append(Subtree(level: level, number: start >> level))
            start += 1 << level
        }
        return subtrees
    }

    /// The parts whose hashes prove that a leaf is in the tree of a size, from the leaf upwards: PATH(m, D[n]).
    static func inclusion(of leaf: Int64, size: Int64) -> [Range<Int64>] {
        var (parts, whole) = ([Range<Int64>](), 0..<size)
        while whole.count > 1 {
            let middle = split(whole)
            if leaf < middle {
                parts.append(middle..<whole.upperBound)
                whole = whole.lowerBound..<middle
            } else {
                parts.append(whole.lowerBound..<middle)
                whole = middle..<whole.upperBound
            }
        }
        return parts.reversed()
    }

    /// The parts whose hashes prove that the tree of one size begins with that of another: PROOF(m, D[n]).
    ///
    /// - Parameter old: at least 1 and at most `size`.
    static func consistency(from old: Int64, to size: Int64) -> [Range<Int64>] {
        var (parts, whole) = ([Range<Int64>](), 0..<size)
        while whole.upperBound != old {
            let middle = split(whole)
            if old <= middle {
                parts.append(middle..<whole.upperBound)
                whole = whole.lowerBound..<middle
            } else {
                parts.append(whole.lowerBound..<middle)
                whole = middle..<whole.upperBound
            }
        }
        // Whoever checks it knows the old tree's root already.
        if whole.lowerBound > 0 { parts.append(whole) }
        return parts.reversed()
    }

    /// Where a part of more than one leaf is divided: after the greatest power of two that is smaller than it.
    private static func split(_ leaves: Range<Int64>) -> Int64 {
        let count = leaves.upperBound - leaves.lowerBound
        return leaves.lowerBound + 1 << (Int64.bitWidth - 1 - (count - 1).leadingZeroBitCount)
    }
}

/// How the tree's hashes are made (RFC 6962, section 2.1); a leaf's data is the hash of its event.
enum TreeHash {
    /// The root of a tree without leaves.
    static let ofNothing = digest([])

    static func ofLeaf(_ event: Digest) -> Digest { digest([0] + event.bytes) }

    static func ofNode(_ left: Digest, _ right: Digest) -> Digest { digest([1] + left.bytes + right.bytes) }

    /// The roots over each 2^`levels` neighbours of hashes that lie one after the other; they lie so, too.
    ///
    /// - Parameter areEvents: whether they are the hashes of events, of which the leaves are made.
    static func roots(over hashes: [UInt8], levels: Int, areEvents: Bool) -> [UInt8] {
        let size = SHA256.length
        precondition(hashes.count.isMultiple(of: size << levels), "not a whole number of subtrees")
        let hasher = SHA256Hasher()
        var (hashes, count) = (hashes, hashes.count / size)
        // One message: the byte that tells leaf from node, then one hash or two.
        withUnsafeTemporaryAllocation(byteCount: 1 + 2 * size, alignment: 1) { message in
            hashes.withUnsafeMutableBytes { hashes in
                func replace(_ number: Int, by children: Int) {
                    let bytes = children * size
                    UnsafeMutableRawBufferPointer(rebasing: message[1...]).copyMemory(
                        from: UnsafeRawBufferPointer(rebasing: hashes[number * bytes..<(number + 1) * bytes]))
                    hasher.hash(
                        UnsafeRawBufferPointer(rebasing: message[...bytes]),
                        into: UnsafeMutableRawBufferPointer(rebasing: hashes[(number * size)...]))
                }
                if areEvents {
                    message[0] = 0
                    for leaf in 0..<count { replace(leaf, by: 1) }
                }
                message[0] = 1
                for _ in 0..<levels {
                    count /= 2
                    // What is overwritten was read: a node lies before its children.
                    for node in 0..<count { replace(node, by: 2) }
                }
            }
        }
        hashes.removeLast(hashes.count - count * size)
        return hashes
    }

    /// The root over complete subtrees, each smaller than the one before.
    static func root(ofSubtrees hashes: [Digest]) -> Digest {
        guard var root = hashes.last else { return ofNothing }
        for hash in hashes.dropLast().reversed() { root = ofNode(hash, root) }
        return root
    }

    private static func digest(_ bytes: [UInt8]) -> Digest { Digest(SHA256.hash(bytes)) ?? .zero }
}
