import EntitlementAPI
import EntitlementCore
import Ledger

extension StatusDocument {
    /// An import that is running, or was not brought to its end.
    struct Import: Encodable {
        /// `null` for Stripe's.
        @Nullable var app: String?
        let environment: String
        /// `app_store` or `stripe`.
        let source: String
        /// `running` or `unfinished`.
        let state: String
        /// Ids of the list, or objects of Stripe's.
        let done: Int64
        /// `null` for Stripe's, which does not say how much there is.
        @Nullable var total: Int64?
        /// Of those done, how many are to be asked about again.
        let failed: Int64
        let recorded: Int64
        let startedAt: String
        /// When whoever works at it was last heard from.
        @Nullable var movedAt: String?
        @Nullable var lastError: String?

        init(_ standing: UnfinishedImport) {
            app = standing.stream.app
            environment = standing.stream.environment.rawValue
            source = "app_store"
            state = standing.isHeld ? "running" : "unfinished"
            done = standing.done
            total = standing.total
            failed = standing.failed
            recorded = standing.recorded
            startedAt = standing.startedAt.description
            movedAt = standing.movedAt?.description
            lastError = nil
        }

        init(_ reading: WebImportState) {
            app = nil
            environment = reading.environment.rawValue
            source = "stripe"
            state = reading.isHeld ? "running" : "unfinished"
            done = reading.standing.read
            total = nil
            failed = Int64(reading.standing.failed.count)
            recorded = reading.standing.recorded
            startedAt = reading.startedAt.description
            movedAt = reading.movedAt?.description
            lastError = reading.lastError
        }
    }

    /// For people: the imports that are not at their end.
    var importRows: [(String, String)] { (imports ?? []).map { ("import", Self.line($0)) } }

    private static func line(_ work: Import) -> String {
        let name = "\(work.app ?? "Stripe"), \(work.environment)"
        let amount = work.total.map { "\(work.done) of \($0) ids" } ?? "\(work.done) objects"
        let failed = work.failed > 0 ? ", \(work.failed) of them to be asked about again" : ""
        let moved = work.movedAt.map { ", heard of last \($0)" } ?? ""
        let error = work.lastError.map { ", last: \($0)" } ?? ""
        let cure = work.state == "running" ? "" : "; the same command goes on from there"
        return
            "\(name): \(work.state), \(amount)\(failed), \(work.recorded) events recorded\(moved)\(error)\(cure)"
    }
}
