import EntitlementCore
import PostgresClient

/// What the row of a sweep says when somebody comes to read: where to go on.
struct LeftSweep {
    private static let day = Timestamp.millisecondsPerDay
    /// Clocks of instances differ by so much.
    private static let tolerance: Int64 = 60_000

    /// Whether completed_until or window_from lies in the future, written while a clock was ahead: nobody can tell what was
    /// read then.
    let isAhead: Bool
    /// Where the sweep began, and where the part under way does.
    private let begun: Timestamp?
    private let from: Timestamp?
    private let end: Timestamp?
    private let part: Timestamp?
    private let pages: Int
    private let cursor: String?
    private let failures: Int
    private let completed: Timestamp?
    private let rereadAt: Timestamp?
    private let warning: String?

    init(_ row: PostgresRow, now: Timestamp) throws {
        let limit = now.adding(milliseconds: Self.tolerance)
        let (from, end, completed) = (
            try row.optionalInstant(0), try row.optionalInstant(1), try row.optionalInstant(6)
        )
        isAhead = (completed ?? now) > limit || (from ?? now) > limit
        self.from = isAhead ? nil : from
        begun = try row.optionalInstant(8)
        let endsAhead = (end ?? now) > limit
        self.end = endsAhead ? now : end
        // The page's name is good for the same window alone.
        part = endsAhead ? nil : try row.optionalInstant(2)
        cursor = endsAhead ? nil : try row.optionalText(4)
        pages = endsAhead ? 0 : Int(try row.int(3))
        failures = Int(try row.int(5))
        self.completed = isAhead ? nil : completed
        rereadAt = isAhead ? nil : try row.optionalInstant(7)
        warning =
            isAhead || endsAhead
            ? "the history was read up to \((completed ?? end ?? now).description) by a clock that was ahead; "
                + (isAhead ? "it is read again as far back as the store keeps it" : "it is read up to now") : nil
    }

    /// The sweep that was left; `nil` where none was, or it does not reach back far enough.
    func resumed(
        _ app: String, _ environment: StoreEnvironment, since: Timestamp?, now: Timestamp
    ) -> Sweep? {
        guard let from, let end, from < end, since.map({ $0 >= begun ?? from }) ?? true else { return nil }
        let oldest = SweepRegister.oldest(in: environment, at: now)
        guard oldest < end else { return nil }
        let until = part.map { min(end, $0) } ?? end
        var sweep = Sweep(
            app: app, environment: environment, from: from, until: until, end: end, cursor: cursor, pages: pages,
            failures: failures, isResumed: true, warning: warning)
        if from < now.adding(milliseconds: -SweepRegister.kept(in: environment)) {
            // The store has forgotten the beginning. What has been begun is read in shorter parts, so that it comes
            // to an end before the store forgets more.
            sweep.begin(at: oldest, length: pages > 0 ? sweep.shorterLength : sweep.length)
        } else if failures >= SweepRegister.patience {
            (sweep.cursor, sweep.pages) = (nil, 0)
        }
        return sweep
    }

    /// A new one.
    func beginning(
        _ app: String, _ environment: StoreEnvironment, since: Timestamp?, now: Timestamp
    ) -> Sweep {
        let oldest = SweepRegister.oldest(in: environment, at: now)
        var usual = completed?.adding(milliseconds: -SweepRegister.overlapMilliseconds) ?? oldest
        if rereadAt.map({ $0 < now.adding(milliseconds: -Self.day) || $0 > now.adding(milliseconds: Self.tolerance) })
            ?? true
        {
            usual = min(usual, now.adding(milliseconds: -SweepRegister.rereadMilliseconds))
        }
        let earliest = [since, from].compactMap(\.self).reduce(usual, min)
        let begun = max(oldest, min(earliest, now.adding(milliseconds: -1)))
        return Sweep(
            app: app, environment: environment, from: begun, until: now, end: now, cursor: nil, pages: 0, failures: 0,
            isResumed: false, warning: warning)
    }
}
