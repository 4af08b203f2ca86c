import Ledger
import Service

/// What `rightful import` says at its end of what it read from the App Store.
struct ImportSummary: Sendable {
    /// How many ids that the store could not be asked about are named.
    private static let mostNamed = 1000

    let report: StoreImport.Report
    /// How many ids the list has.
    let total: Int64
    /// `nil` without a list of owners.
    let owners: ListedOwnersReport?
    /// How many purchases are Apple accounts' with which nobody is linked; 0 with a list of owners.
    let loneAccounts: Int

    /// - Parameter place: the app and the environment.
    /// - Throws: `CommandFailure` that says what is left to do.
    func write(_ place: String, to output: Output) throws {
        let standing = report.standing
        try output.report(
            "\(place): \(total - Int64(standing.failed.count)) ids are done; this run asked about \(report.asked) and recorded "
                + "\(report.recorded) events; \(standing.unknown) ids are unknown to the store\n")
        let named = report.unknownIDs.prefix(StoreImport.mostNamed)
        for id in named { try output.report("unknown: \(id)\n") }
        let unnamed = standing.unknown - Int64(named.count)
        if unnamed > 0 {
            try output.report(
                "unknown: \(unnamed) more, which are not named here; --again asks about the whole list anew, and names "
                    + "up to \(StoreImport.mostNamed), with --unknown-to FILE all of them\n")
        }
        for id in standing.failed.prefix(Self.mostNamed) {
            try output.report("failed: \(id): \(report.failures[id] ?? "see an earlier run")\n")
        }
        if let owners { try write(owners, place, to: output) }
        if loneAccounts > 0 {
            try output.report(
                "\(loneAccounts) of the purchases are Apple accounts' with which no customer of yours is linked: import with a "
                    + "list of whose they are, --owners FILE, or let each be linked at the login of a device\n")
        }
        let faults = [failedFault, refusedFault, unknownFault, keptFault].compactMap(\.self)
        guard faults.isEmpty else { throw CommandFailure(description: faults.joined(separator: "; ")) }
    }

    private func write(_ owners: ListedOwnersReport, _ place: String, to output: Output) throws {
        var parts = [
            "\(owners.linked) Apple accounts linked to the customers named",
            "\(owners.given) purchases of nobody given to them",
            "\(owners.theirs) lines about what is theirs already",
        ]
        if owners.unknown > 0 { parts.append("\(owners.unknown) about purchases that are not known here") }
        if owners.kept > 0 { parts.append("\(owners.kept) about purchases that keep another owner") }
        if owners.passedOver > 0 {
            parts.append(
                "\(owners.passedOver) of anonymous ids passed over, since the first launch or login of such a device "
                    + "finds its purchases by itself")
        }
        try output.report("\(place): \(owners.done) lines of owners: \(parts.joined(separator: ", "))\n")
        for kept in owners.examples { try output.report("\(Self.words(kept))\n") }
        if owners.kept > owners.examples.count {
            try output.report(
                "belongs to somebody else: \(owners.kept - owners.examples.count) more, which are not named\n")
        }
    }

    private static func words(_ kept: ListedOwnersReport.Kept) -> String {
        let id = kept.transactionID
        return switch kept.reason {
        case .others(let names) where names.isEmpty:
            "belongs to somebody else: \(id): somebody who was forgotten"
        case .others(let names): "belongs to somebody else: \(id): \(names.joined(separator: ", "))"
        case .listed(let name, let line):
            "belongs to somebody else: \(id): \(name), to whom line \(line) gives the same Apple account"
        case .takenBack: "was theirs, and was taken back: \(id)"
        }
    }

    private var failedFault: String? {
        let failed = report.standing.failed
        guard !failed.isEmpty else { return nil }
        return
            "the store could not be asked about \(failed.count) of the ids; everything else is recorded, and the same "
            + "command asks about them again"
    }

    private var refusedFault: String? {
        guard report.standing.refused > 0 else { return nil }
        return "\(report.standing.refused) of the store's statements were not believed, the last because "
            + "\(report.refusal ?? "of an earlier run's reason"); when the cause is mended, import the list with --again"
    }

    /// Where most are unknown, the list is hardly of this app and environment; a run that asked about nothing is judged by those
    /// before.
    private var unknownFault: String? {
        let (unknown, asked) =
            report.asked > 0 ? (report.unknown, report.asked) : (report.standing.unknown, report.standing.done)
        guard unknown * 2 > asked else { return nil }
        return
            "\(unknown) of \(asked) ids are unknown to the store: are they of the other environment (--environment), or "
            + "of another app (--app)?"
    }

    private var keptFault: String? {
        guard let owners, owners.kept > 0 else { return nil }
        return
            "\(owners.kept) lines of the list name purchases that keep another owner; where the list is right, transfer each "
            + "(POST /v1/customers/{owner}/actions/transfer) or link the owner to your customer "
            + "(POST /v1/customers/{customer}/actions/link)"
    }
}
