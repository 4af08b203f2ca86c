/// What verifying signatures has cost in vain, and how much more of it somebody may cause.
///
/// The unit is the check of one signature. What turns out to be signed by the store costs its sender nothing.
package struct SignatureWork: Sendable {
    /// What the validation of a chain of certificates costs, beside the signature: about as much as twenty signatures.
    package static let chainUnits: Int64 = 20

    /// How much may be spent in vain before certificates that are not known yet are looked at no more.
    package let allowance: Int64
    /// What was spent on signatures that did not verify.
    package private(set) var wasted: Int64 = 0
    /// Whether something was left unverified, because its certificates are not known and the allowance is spent.
    ///
    /// It may then be genuine, and its sender should try again later.
    package private(set) var isCutShort = false
    /// Of the JWS that is being verified.
    private var current: Int64 = 0

    /// - Parameter allowance: by default without a limit.
    package init(allowance: Int64 = .max) { self.allowance = allowance }

    /// Counts what was spent in vain on something else than a JWS.
    package mutating func waste(_ units: Int64) { wasted += units }

    mutating func countSignature() { current += 1 }

    /// Asks to validate certificates that are not known yet.
    ///
    /// - Throws: `untrusted` when the allowance is spent.
    mutating func beginUnknownChain() throws(JWSError) {
        guard wasted < allowance else {
            isCutShort = true
            throw .untrusted(
                "its certificates are not known here, and its sender may not have more of them examined now")
        }
        current += Self.chainUnits
    }

    /// Closes the account of one JWS; one that was found wrong costs one unit at least.
    mutating func end(isVerified: Bool) {
        if !isVerified { wasted += isCutShort ? current : max(1, current) }
        current = 0
    }
}
