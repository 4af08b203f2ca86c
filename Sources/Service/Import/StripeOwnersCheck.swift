package import EntitlementCore
package import Ledger
import StripePayloads

/// What became of a list of owners after everything of Stripe's was read, by what the log says now.
package struct StripeOwnersReport: Sendable {
    /// How many entries name a subscription or payment that is not known.
    package var unmet = 0
    /// How many name one that keeps another owner.
    package var kept = 0
    /// Some of these.
    package var keptIDs: [String] = []

    package static let mostNamed = 1000
}

extension StripeOwnerList {
    /// How many entries are looked at together.
    private static let page = 100

    /// Looks at the entries about subscriptions and payments; which purchases are a customer's of Stripe the log does not say.
    package func standing(in environment: StoreEnvironment, _ reader: LedgerReader) async throws -> StripeOwnersReport {
        var report = StripeOwnersReport()
        let entries = purchases.compactMap { entry in entry.customer.map { (id: entry.id, customer: $0) } }
        for start in stride(from: 0, to: entries.count, by: Self.page) {
            try Task.checkCancellation()
            let page = entries[start..<min(entries.count, start + Self.page)]
            let snapshots = try await reader.snapshots(
                page.map { entry in
                    LedgerQuestion(
                        of: nil, environment, originals: [entry.id], customers: [entry.customer.value])
                })
            for (entry, snapshot) in zip(page, snapshots) {
                guard let web = snapshot.facts.originals[entry.id]?.web else {
                    // A payment may be a part of another purchase.
                    let found = try await reader.customers(.transactionID(entry.id), most: 1)
                    if found.matches.isEmpty { report.unmet += 1 }
                    continue
                }
                let map = snapshot.facts.ownership
                let person = map.customer(of: snapshot.number(of: entry.customer, unknownAs: 1))
                guard let owner = map.currentOwner(of: web), owner != person else { continue }
                report.kept += 1
                if report.keptIDs.count < StripeOwnersReport.mostNamed { report.keptIDs.append(entry.id) }
            }
        }
        return report
    }
}
