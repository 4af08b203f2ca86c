import AppStoreServer
import EntitlementCore
import Ledger

// What is done where the store's history cannot be read: whatever it is, the sweep gets past it in the end.
extension NotificationSweep {
    /// What went wrong in one run.
    struct Trouble {
        /// The pages that the store led through since the part's first, or since this run began.
        var trail: ListTrail
        /// Empty pages one after the other, each with the token of another.
        var emptyPages = 0
        /// How often a part was begun anew since the store did not know the page.
        var beginnings = 0

        static let mostEmptyPages = 20
        static let mostBeginnings = 3
    }

    enum Cure {
        case readOn
        case givenUp(isEnd: Bool, reason: String)
        /// It is tried again later.
        case nothing
    }

    /// Runs that fail before a part of the shortest is given up: about an hour of them.
    private static let patience = 2 * SweepRegister.patience
    /// By how much what the store does not keep is left out where our clocks differ, and how much of what it should keep at
    /// most, in milliseconds.
    private static let step: Int64 = 3_600_000
    private static let mostSkipped = 2 * Timestamp.millisecondsPerDay

    /// Changes what is asked for, so that the next request may do better.
    func cure(_ error: StoreAPIError, _ sweep: inout Sweep, _ trouble: inout Trouble) async throws -> Cure {
        trouble.emptyPages = 0
        if error.code == StoreAPIError.startTooOld {
            let oldest = SweepRegister.oldest(in: sweep.environment, at: now())
            // No more than it takes: what is left out is never read.
            let next = max(sweep.from.adding(milliseconds: sweep.from < oldest ? 0 : Self.step), oldest)
            guard next < sweep.end, next <= oldest.adding(milliseconds: Self.mostSkipped) else { return .nothing }
            try await register.skip(&sweep, to: next)
            return .readOn
        }
        guard error.isOfHistory else { return .nothing }
        if error.kind == .refused, sweep.cursor != nil, trouble.beginnings < Trouble.mostBeginnings {
            trouble.beginnings += 1
            try await register.startOver(&sweep)
            return .readOn
        }
        guard sweep.failures >= SweepRegister.patience else { return .nothing }
        if sweep.canBeShortened {
            try await register.shorten(&sweep)
            return .readOn
        }
        guard sweep.failures >= Self.patience, await answersElsewhere(sweep) else { return .nothing }
        let reason = "what the store sent from \(sweep.from) to \(sweep.until) cannot be read: \(error)"
        return .givenUp(isEnd: try await register.giveUpPart(&sweep, reason), reason: reason)
    }

    /// Why an answer is not believed that lists nothing; `nil` where it may be true.
    ///
    /// What was delivered by itself has to be in it.
    func doubt(_ page: NotificationPage, of sweep: Sweep) async throws -> String? {
        let end = now().adding(milliseconds: -Self.listingDelay)
        guard page.items.isEmpty, !page.hasMore, sweep.pages == 0,
            let heard = try await register.delivered(in: sweep, until: end)
        else { return nil }
        return
            "the store lists nothing that it sent from \(sweep.from) to \(sweep.until), but delivered what it signed at "
            + "\(heard): this is not taken for the truth, and is asked again"
    }

    /// How long the store may take to list what it has sent, in milliseconds.
    private static let listingDelay: Int64 = 30 * 60_000

    /// Whether the store tells of other hours: then it is this one that cannot be read, and no outage.
    private func answersElsewhere(_ sweep: Sweep) async -> Bool {
        let hour = Sweep.shortest
        let kept = now().adding(milliseconds: -SweepRegister.kept(in: sweep.environment))
        let day = Timestamp.millisecondsPerDay
        for start in [sweep.until, sweep.from.adding(milliseconds: -hour), sweep.from.adding(milliseconds: -day)] {
            guard start > kept, start < sweep.end else { continue }
            let page = try? await client.send(
                .notifications(from: start, until: min(sweep.end, start.adding(milliseconds: hour))),
                in: sweep.environment, within: .seconds(30))
            if page != nil { return true }
        }
        return false
    }
}

extension StoreAPIError {
    /// Apple, "startTimestampInPastError": a window may not begin before what the store keeps.
    static let startTooOld: Int64 = 4_000_012

    /// Whether it may be what was asked for that cannot be had: neither the credentials, nor the limits, nor the time.
    var isOfHistory: Bool {
        switch kind {
        case .refused, .notFound, .unavailable, .unreadable: true
        case .unauthorized, .limited, .outOfTime: false
        }
    }
}
