import EntitlementCore

/// An instant, as those who are answered at it are told.
struct Moment {
    let instant: Timestamp
    let text: String
    let clock = ContinuousClock.now

    /// - Parameter text: the instant as text, where that is known.
    init(_ instant: Timestamp, text: String? = nil) {
        self.instant = instant
        self.text = text ?? instant.description
    }
}

/// What is counted and logged of one route's answers.
struct RouteRecord {
    let counters: RouteCounters
    let lines: RequestLines

    init(_ context: ServiceContext, method: String, route: String, family: CounterFamily) {
        counters = RouteCounters(route: route, sourcesIn: family)
        lines = RequestLines(context.logger, method: method, route: route)
        context.metrics.add(counters)
    }

    /// Hands the log lines over that have waited long enough.
    func flush(at now: ContinuousClock.Instant) {
        if let dueAt = lines.dueAt, dueAt <= now { lines.flush() }
    }
}
