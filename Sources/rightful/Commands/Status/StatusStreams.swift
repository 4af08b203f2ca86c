import EntitlementAPI
import EntitlementCore
import Ledger

extension StatusDocument {
    /// How far the store's history of one app's notifications was read, or Stripe's list of events.
    struct Sweep: Encodable {
        /// `null` for Stripe's.
        @Nullable var app: String?
        let environment: String
        /// `app_store` or `stripe`.
        let source: String
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
        /// What Stripe's list of events did not reach back to, while everything that the account holds is read instead.
        @Nullable var gap: Gap?
        /// Whether the app and environment are in the configuration; else nothing goes on with it.
        let isConfigured: Bool

        struct Gap: Codable, Hashable {
            @Nullable var from: String?
            let until: String
            /// How many objects were read by now.
            let read: Int64
            let isRunning: Bool
            @Nullable var lastError: String?

            init(_ gap: WebGap, _ reading: WebImportState?) {
                until = gap.until.description
                read = reading?.standing.read ?? 0
                isRunning = reading?.isHeld ?? false
                from = gap.from?.description
                lastError = reading?.lastError
            }
        }

        /// - Parameter imports: the readings of all that the accounts hold.
        init(_ standing: WebStreamStanding, _ imports: [WebImportState], isConfigured: Bool) {
            self.isConfigured = isConfigured
            environment = standing.environment.rawValue
            source = "stripe"
            state = standing.isHeld ? "running" : standing.lastError != nil ? "failing" : "idle"
            read = standing.read
            recorded = standing.recorded
            refused = standing.refused
            app = nil
            completedUntil = standing.completedUntil?.description
            completedAt = standing.completedAt?.description
            lastError = standing.lastError
            lastErrorAt = standing.lastErrorAt?.description
            refusedFrom = nil
            refusedReason = nil
            gap = standing.gap.map { gap in
                Gap(gap, imports.first { $0.environment == standing.environment && $0.completedAt == nil })
            }
        }

        init(_ standing: SweepStanding, isConfigured: Bool) {
            self.isConfigured = isConfigured
            environment = standing.environment.rawValue
            source = "app_store"
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
            app = standing.app
            gap = nil
            lastError = standing.lastError
            lastErrorAt = standing.lastErrorAt?.description
            refusedFrom = standing.refusedFrom?.description
            refusedReason = standing.refusedReason
        }
    }

    /// One app's notifications from one environment, or Stripe's webhooks.
    struct Stream: Encodable {
        /// `null` for Stripe's.
        @Nullable var app: String?
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
        /// What is still to be read from Stripe's API because an event calls for it; `null` for the App Store.
        @Nullable var lookupsOwed: Int64?

        init(_ standing: WebStreamStanding, lookupsOwed: Int64, at now: Timestamp) {
            environment = standing.environment.rawValue
            source = "stripe"
            silent = standing.isSilent(at: now)
            (overdue, checked, repaired) = (0, 0, 0)
            app = nil
            lastHeardAt = standing.lastHeardAt?.description
            oldestOverdueAt = nil
            (checkError, checkErrorAt, testedAt, testError) = (nil, nil, nil, nil)
            self.lookupsOwed = lookupsOwed
        }

        init(_ standing: StreamStanding, at now: Timestamp) {
            environment = standing.stream.environment.rawValue
            source = "app_store"
            silent = standing.isSilent(at: now)
            overdue = standing.overdue
            checked = standing.checked
            repaired = standing.repaired
            app = standing.stream.app
            lookupsOwed = nil
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
            + (unconfiguredApps ?? []).map { ("not in apps", Configuration.notice(ofMissing: $0)) }
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
            return "\(Self.name(stream.app, stream.environment)): \(concerns.joined(separator: ", "))"
        }
        let ofSweeps = (sweeps ?? []).filter(\.isConfigured).compactMap { sweep -> String? in
            let name = Self.name(sweep.app, sweep.environment)
            if sweep.state == "failing" { return "\(name): the store's history cannot be read" }
            if sweep.gap?.lastError != nil {
                return "\(name): what is older than Stripe's list of events cannot be read"
            }
            return sweep.refusedFrom.map { "\(name): some of the store's history since \($0) is not recorded" }
        }
        let ofApps = (unconfiguredApps ?? []).map { "\($0): the log has its events, and apps does not name it" }
        return ofStreams + ofSweeps + ofApps
    }

    private static func line(_ stream: Stream) -> String {
        let heard = stream.lastHeardAt.map { "heard last \($0)" } ?? "never heard"
        let overdue = stream.oldestOverdueAt.map { ", \(stream.overdue) overdue, the first since \($0)" } ?? ""
        let asked = stream.checked > 0 ? ", asked \(stream.checked) times, found \(stream.repaired) things missing" : ""
        let cure =
            !stream.silent
            ? ""
            : stream.app.map { app in
                "; silent: what the store sends does not arrive; check the URL in App Store Connect, and try `rightful "
                    + "test-notification --app \(app) --environment \(stream.environment)`"
            } ?? "; silent: Stripe's webhooks do not arrive; check the endpoint's URL and its deliveries at Stripe"
        let owed = stream.lookupsOwed.map { $0 > 0 ? ", \($0) to be read from Stripe's API" : "" } ?? ""
        let error = stream.checkError.map { "; cannot be asked since \(stream.checkErrorAt ?? ""): \($0)" } ?? ""
        let test =
            stream.testError.map { "; no test notification can be had: \($0)" } ?? ""
        let name = name(stream.app, stream.environment)
        return "\(name): \(heard)\(overdue)\(asked)\(owed)\(cure)\(error)\(test)"
    }

    private static func name(_ app: String?, _ environment: String) -> String { "\(app ?? "Stripe"), \(environment)" }

    private static func line(_ gap: Sweep.Gap) -> String {
        let error = gap.lastError.map { ", last: \($0)" } ?? ""
        return "; what Stripe lists no events of, before \(gap.until), is "
            + (gap.isRunning ? "being read" : "to be read")
            + " from its other lists, \(gap.read) objects by now\(error)"
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
        let name = name(sweep.app, sweep.environment)
        let gap = sweep.gap.map(line) ?? ""
        guard sweep.isConfigured else { return "\(name): \(known); not in this configuration, so it is not read" }
        return "\(name): \(known); \(last)\(refused); \(sweep.state)\(error)\(cure)\(gap)"
    }
}
