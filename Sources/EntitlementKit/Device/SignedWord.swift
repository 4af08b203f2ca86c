import EntitlementCore
import Foundation

/// What somebody has signed of what the customer holds, for an app that believes nothing else
/// (``EntitlementConfiguration/passKeys``).
///
/// Facts, timelines and catalogs bear no signature, and say what is given later as well as now. So whatever they make of it, one
/// rule limits what comes out at every instant: access is given until when the pass states it, or as far as it is given without
/// any server's word, by what the store has signed. Beyond that it is taken away from the entitlement alone, until the server is
/// asked again.
final class SignedWord: Sendable {
    private let pass: PassClaims?
    /// By what the store has signed.
    private let alone: DeviceFold

    /// `nil` where everything counts.
    init?(_ ledger: DeviceLedger, leeway: Int64) {
        guard ledger.passCheck != nil else { return nil }
        pass = ledger.memory?.answer.claims
        alone = DeviceFold(ledger.withoutServersWord, leeway: leeway)
    }

    /// What counts of entitlements as they are told at an instant.
    ///
    /// - Parameter bound: how long what nobody confirms still gives access, in milliseconds; `nil`: for ever.
    func limit(_ told: [Entitlement], at now: Timestamp, bound: Int64?) -> [Entitlement] {
        guard told.contains(where: \.givesAccess) else { return told }
        let own = Dictionary(uniqueKeysWithValues: alone.entitlements(at: now, bound: bound).map { ($0.id, $0) })
        return told.map { entitlement in
            guard entitlement.givesAccess else { return entitlement }
            let signed = own[entitlement.id]
            guard let stated = pass?.end(of: entitlement.id, at: now)?.date else {
                return signed ?? entitlement.unconfirmed
            }
            let isLonger = signed?.givesAccess ?? false
            let end = isLonger ? max(stated, signed?.until ?? .distantFuture) : stated
            return entitlement.ending(by: end)
        }
    }

    /// The next instant after `now` at which what counts may change by itself.
    func nextBoundary(after now: Timestamp, bound: Int64?) -> Timestamp? {
        let ends = pass?.entitlements.compactMap(\.until).filter { $0 > now && $0 < .latest } ?? []
        return (ends + [alone.nextBoundary(after: now, bound: bound)].compactMap(\.self)).min()
    }
}
