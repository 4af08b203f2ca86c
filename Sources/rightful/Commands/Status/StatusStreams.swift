import EntitlementAPI
import EntitlementCore
import Ledger

extension StatusDocument {
    /// How far the store's history of one app's notifications was read.
    struct Sweep: Encodable {
        let app: String
        let environment: String
        /// `running`, `failing`, `unfinished` or `idle`.
        let state: String
        @Nullable var completedUntil: String?
        @Nullable var completedAt: String?
        let read: Int64
        let recorded: Int64
        let refused: Int64
        @Nullable var lastError: String?
        @Nullable var lastErrorAt: String?
        /// From where on something was refused or not read that no later reading took.
        @Nullable var refusedFrom: String?
        @Nullable var refusedReason: String?
        /// Whether the app and environment are in the configuration; else nothing goes on with it.
        let isConfigured: Bool

        init(_ standing: SweepStanding, isConfigured: Bool) {
            self.isConfigured = isConfigured
            app = standing.app
            environment = standing.environment.rawValue
            state =
                if standing.isHeld {
                    "running"
                } else if standing.lastError != nil {
                    "failing"
                } else {
                    standing.window == nil ? "idle" : "unfinished"
                }
            completedUntil = standing.completedUntil?.description
            completedAt = standing.completedAt?.description
            read = standing.read
            recorded = standing.recorded
            refused = standing.refused
            lastError = standing.lastError
            lastErrorAt = standing.lastErrorAt?.description
            refusedFrom = standing.refusedFrom?.description
            refusedReason = standing.refusedReason
        }
    }

    /// One app's notifications from one environment.
    struct Stream: Encodable {
        let app: String
        let environment: String
        let source: String
        @Nullable var lastHeardAt: String?
        let silent: Bool
        let overdue: Int64
        @Nullable var oldestOverdueAt: String?
        /// Checks that were made of what was overdue or disputed, and how many of them found something.
        let checked: Int64
        let repaired: Int64
        @Nullable var checkError: String?
        @Nullable var checkErrorAt: String?
        /// When a test notification was asked for last, and why the last attempt failed.
        @Nullable var testedAt: String?
        @Nullable var testError: String?

        init(_ standing: StreamStanding, at now: Timestamp) {
            app = standing.stream.app
            environment = standing.stream.environment.rawValue
            source = "app_store"
            silent = standing.isSilent(at: now)
            overdue = standing.overdue
            checked = standing.checked
            repaired = standing.repaired
            lastHeardAt = standing.lastHeardAt?.description
            oldestOverdueAt = standing.overdueEvents?.lowerBound.description
            checkError = standing.checkError
            checkErrorAt = standing.checkErrorAt?.description
            testedAt = standing.canaryAt?.description
            testError = standing.canaryError
        }
    }

    /// For people: the streams, and how far the store's history was read.
    var streamRows: [(String, String)] {
        (streams ?? []).map { ("stream", Self.line($0)) } + (sweeps ?? []).map { ("sweep", Self.line($0)) }
    }

    /// What of them somebody should look at.
    var streamConcerns: [String] {
        let ofStreams = (streams ?? []).compactMap { stream -> String? in
            let concerns = [
                stream.silent ? "what the store sends does not arrive" : nil,
                stream.overdue > 0 ? "\(stream.overdue) overdue" : nil,
                stream.checkError.map { _ in "the store cannot be asked" },
                stream.testError.map { _ in "no test notification can be had" },
            ].compactMap(\.self)
            guard !concerns.isEmpty else { return nil }
            return "\(stream.app), \(stream.environment): \(concerns.joined(separator: ", "))"
        }
        let ofSweeps = (sweeps ?? []).filter(\.isConfigured).compactMap { sweep -> String? in
            let name = "\(sweep.app), \(sweep.environment)"
            if sweep.state == "failing" { return "\(name): the store's history cannot be read" }
            return sweep.refusedFrom.map { "\(name): some of the store's history since \($0) is not recorded" }
        }
        return ofStreams + ofSweeps
    }

    private static func line(_ stream: Stream) -> String {
        let heard = stream.lastHeardAt.map { "heard last \($0)" } ?? "never heard"
        let overdue = stream.oldestOverdueAt.map { ", \(stream.overdue) overdue, the first since \($0)" } ?? ""
        let asked = stream.checked > 0 ? ", asked \(stream.checked) times, found \(stream.repaired) things missing" : ""
        let cure =
            stream.silent
            ? "; silent: what the store sends does not arrive; check the URL in App Store Connect, and try `rightful "
                + "test-notification --app \(stream.app) --environment \(stream.environment)`" : ""
        let error = stream.checkError.map { "; cannot be asked since \(stream.checkErrorAt ?? ""): \($0)" } ?? ""
        let test =
            stream.testError.map { "; no test notification can be had: \($0)" } ?? ""
        return "\(stream.app), \(stream.environment): \(heard)\(overdue)\(asked)\(cure)\(error)\(test)"
    }

    private static func line(_ sweep: Sweep) -> String {
        let known = sweep.completedUntil.map { "what the store sent until \($0) is known" } ?? "never completed"
        let last = "read \(sweep.read), \(sweep.recorded) of them missing"
        let refused = sweep.refused > 0 ? ", \(sweep.refused) refused" : ""
        let error =
            sweep.state == "failing" ? sweep.lastError.map { ", last at \(sweep.lastErrorAt ?? ""): \($0)" } ?? "" : ""
        let cure =
            sweep.refusedFrom.map {
                "; some since \($0) were refused or not read (\(sweep.refusedReason ?? "")): when the cause is mended, run `rightful "
                    + "backfill --since \($0)`"
            } ?? ""
        let name = "\(sweep.app), \(sweep.environment)"
        guard sweep.isConfigured else { return "\(name): \(known); not configured any more, so nothing is read" }
        return "\(name): \(known); \(last)\(refused); \(sweep.state)\(error)\(cure)"
    }
}
