import COpenSSL
import Synchronization

/// Multiples of one public key on P-256, with which its signatures are verified in half the time.
///
/// OpenSSL's own verification multiplies the curve's generator by a table that it has, and the key, which it has never seen,
/// without one. The App Store signs with one key for months, so a table of the key's multiples is soon paid for: it takes
/// some 18 ms to compute, and 150 kB. Everything that is multiplied here is public; nothing need be hidden from who
/// measures the time.
///
/// Sendable, because the groups are not changed after `init`, and OpenSSL only reads them when it multiplies.
final class P256Multiples: @unchecked Sendable {
    /// P-256 itself.
    private let group: OpaquePointer
    /// The same curve with the key in the generator's place, and the table of its multiples.
    private let keyGroup: OpaquePointer
    private let idle = Mutex<[P256Scratch]>([])

    /// More threads than this verifying at once make variables of their own.
    private static let idleLimit = 64

    /// `nil` where the point is not on the curve, or OpenSSL computes no tables for it.
    init?(of point: P256Point) {
        guard let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1) else { return nil }
        guard let keyGroup = Self.keyGroup(of: point, in: group) else {
            EC_GROUP_free(group)
            ERR_clear_error()
            return nil
        }
        self.group = group
        self.keyGroup = keyGroup
    }

    deinit {
        EC_GROUP_free(keyGroup)
        EC_GROUP_free(group)
    }

    private static func keyGroup(of point: P256Point, in group: OpaquePointer) -> OpaquePointer? {
        let context = BN_CTX_new()
        let key = EC_POINT_new(group)
        let x = BN_bin2bn(point.x, Int32(point.x.count), nil)
        let y = BN_bin2bn(point.y, Int32(point.y.count), nil)
        defer {
            BN_CTX_free(context)
            EC_POINT_free(key)
            BN_free(x)
            BN_free(y)
        }
        // Setting the coordinates checks that they are those of a point on the curve.
        guard context != nil, let copy = EC_GROUP_dup(group) else { return nil }
        guard EC_POINT_set_affine_coordinates(group, key, x, y, context) == 1,
            EC_GROUP_set_generator(copy, key, EC_GROUP_get0_order(group), BN_value_one()) == 1,
            copenssl_precompute_multiples(copy, context) == 1
        else {
            EC_GROUP_free(copy)
            return nil
        }
        return copy
    }

    /// Whether the 64 bytes `r || s` are a signature by this key of the message with this SHA-256 (FIPS 186-5, section
    /// 6.4.2); `nil` where OpenSSL could not compute it.
    func isValid(signature: [UInt8], digest: [UInt8]) -> Bool? {
        guard signature.count == ES256Signature.rawLength, digest.count == SHA256.length else { return false }
        guard let scratch = idle.withLock({ $0.popLast() }) ?? P256Scratch(group, keyGroup) else { return nil }
        defer { idle.withLock { if $0.count < Self.idleLimit { $0.append(scratch) } } }
        let valid = isValid(signature, digest, scratch)
        if valid != true { ERR_clear_error() }
        return valid
    }

    private func isValid(_ signature: [UInt8], _ digest: [UInt8], _ scratch: P256Scratch) -> Bool? {
        let order = EC_GROUP_get0_order(group)
        let (r, s, context) = (scratch.r, scratch.s, scratch.context)
        signature.withUnsafeBufferPointer { bytes in
            BN_bin2bn(bytes.baseAddress, 32, r)
            BN_bin2bn(bytes.baseAddress.map { $0 + 32 }, 32, s)
        }
        guard BN_is_zero(r) == 0, BN_is_zero(s) == 0, BN_cmp(r, order) < 0, BN_cmp(s, order) < 0 else { return false }
        BN_bin2bn(digest, Int32(digest.count), scratch.digest)
        // u1 = digest / s and u2 = r / s, modulo the order, which is prime; the sum of the two multiples has r for its x.
        guard BN_mod_inverse(scratch.inverse, s, order, context) != nil,
            BN_mod_mul(scratch.u1, scratch.digest, scratch.inverse, order, context) == 1,
            BN_mod_mul(scratch.u2, r, scratch.inverse, order, context) == 1,
            EC_POINT_mul(group, scratch.first, scratch.u1, nil, nil, context) == 1,
            EC_POINT_mul(keyGroup, scratch.second, scratch.u2, nil, nil, context) == 1,
            EC_POINT_add(group, scratch.first, scratch.first, scratch.second, context) == 1
        else { return nil }
        guard EC_POINT_is_at_infinity(group, scratch.first) == 0 else { return false }
        guard EC_POINT_get_affine_coordinates(group, scratch.first, scratch.x, nil, context) == 1,
            BN_nnmod(scratch.x, scratch.x, order, context) == 1
        else { return nil }
        return BN_cmp(scratch.x, r) == 0
    }
}

/// The variables of one verification, to be used again for the next.
///
/// Sendable, because one thread at a time owns them.
private final class P256Scratch: @unchecked Sendable {
    let context: OpaquePointer
    let r: OpaquePointer
    let s: OpaquePointer
    let digest: OpaquePointer
    let inverse: OpaquePointer
    let u1: OpaquePointer
    let u2: OpaquePointer
    let x: OpaquePointer
    let first: OpaquePointer
    let second: OpaquePointer

    init?(_ group: OpaquePointer, _ keyGroup: OpaquePointer) {
        let numbers = (0..<7).compactMap { _ in BN_new() }
        let context = BN_CTX_new()
        let first = EC_POINT_new(group)
        let second = EC_POINT_new(keyGroup)
        guard numbers.count == 7, let context, let first, let second else {
            numbers.forEach(BN_free)
            BN_CTX_free(context)
            EC_POINT_free(first)
            EC_POINT_free(second)
            return nil
        }
        self.context = context
        (r, s, digest, inverse) = (numbers[0], numbers[1], numbers[2], numbers[3])
        (u1, u2, x) = (numbers[4], numbers[5], numbers[6])
        self.first = first
        self.second = second
    }

    deinit {
        for number in [r, s, digest, inverse, u1, u2, x] { BN_free(number) }
        EC_POINT_free(first)
        EC_POINT_free(second)
        BN_CTX_free(context)
    }
}

/// The tables of the keys used most lately.
///
/// A key's certificate is validated anew every few minutes, and is then another object with the same point.
final class RememberedMultiples: Sendable {
    static let shared = RememberedMultiples()
    /// The App Store signs with very few keys at a time.
    static let capacity = 8

    private let entries = Mutex<[(point: P256Point, multiples: P256Multiples)]>([])

    func multiples(of point: P256Point) -> P256Multiples? {
        entries.withLock { entries in
            guard let index = entries.firstIndex(where: { $0.point == point }) else { return nil }
            let entry = entries.remove(at: index)
            entries.append(entry)
            return entry.multiples
        }
    }

    /// Computes the table, outside the lock, and forgets the one used longest ago where there are too many.
    func compute(of point: P256Point) -> P256Multiples? {
        if let known = multiples(of: point) { return known }
        guard let multiples = P256Multiples(of: point) else { return nil }
        entries.withLock { entries in
            entries.removeAll { $0.point == point }
            entries.append((point, multiples))
            if entries.count > Self.capacity { entries.removeFirst() }
        }
        return multiples
    }
}
