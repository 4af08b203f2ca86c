import EntitlementCore
package import Ledger
import Synchronization

/// Counts and measures what the service does, and shows it as Prometheus reads it.
///
/// ``CounterFamily`` and ``HistogramFamily`` fix which families there are, and their labels; label values come from fixed
/// sets.
package final class Metrics: Sendable {
    /// The most combinations of label values one family keeps; further ones are counted as `other`.
    static let combinationLimit = 512

    private struct Histogram {
        var counts: [UInt64]
        var sum = 0.0
    }

    private struct State {
        /// With what the routes' own counters say.
        var merged: State {
            var merged = self
            for route in routes {
                for (status, count) in route.statuses {
                    merged.counters[.requests, default: [:]][[route.route, String(status)], default: 0] += count
                }
                for (source, count) in route.sources {
                    merged.counters[route.family, default: [:]][[source], default: 0] += count
                }
                let (counts, sum) = route.durations
                guard counts.contains(where: { $0 > 0 }) else { continue }
                let empty = Histogram(counts: counts.map { _ in 0 })
                var histogram = merged.histograms[.requestDuration, default: [:]][[route.route]] ?? empty
                histogram.counts = zip(histogram.counts, counts).map { $0 + $1 }
                histogram.sum += sum
                merged.histograms[.requestDuration, default: [:]][[route.route]] = histogram
            }
            return merged
        }

        var counters: [CounterFamily: [[String]: UInt64]] = [:]
        var histograms: [HistogramFamily: [[String]: Histogram]] = [:]
        var headPosition: Int64?
        var clockSkewMilliseconds: Int64 = 0
        var logAheadMilliseconds: Int64 = 0
        var areAppendsFailing = false
        var routes: [RouteCounters] = []
        var streams = StreamGauges()
        var webStreams = StreamGauges()
        var owedLookups: [StoreEnvironment: Int64] = [:]
        var openConsumptionRequests: [(stream: StoreStream, count: Int)] = []
        var drift: DriftGauges?
        var endpoints: EndpointHealth?

        /// What only the database knows: left out while it is away, since nobody can tell how it stands by then.
        func writeLedger(to page: inout PrometheusPage) {
            if let head = headPosition {
                page.family("rightful_ledger_head_position", "gauge", "The last position of the log.")
                page.sample("rightful_ledger_head_position", [], String(head))
            }
            page.family(
                "rightful_clock_skew_seconds", "gauge",
                "By how much this machine's clock is ahead of the database's; 0 up to 2 s, which count for nothing.")
            page.sample("rightful_clock_skew_seconds", [], String(Double(clockSkewMilliseconds) / 1000))
            page.family(
                "rightful_log_ahead_seconds", "gauge",
                "How far the last event is dated after the clock, because one was ahead; 0 up to 2 s, which count for nothing."
            )
            page.sample("rightful_log_ahead_seconds", [], String(Double(logAheadMilliseconds) / 1000))
            page.family(
                "rightful_appends_failing", "gauge",
                "1 while nothing can be recorded: the database refuses everything, or somebody's transaction holds the log."
            )
            page.sample("rightful_appends_failing", [], areAppendsFailing ? "1" : "0")
            streams.merging(webStreams).write(to: &page)
            if !owedLookups.isEmpty {
                let name = "rightful_stripe_lookups_owed"
                page.family(name, "gauge", "What is still to be read from Stripe's API because an event calls for it.")
                for (environment, count) in owedLookups.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                    page.sample(name, [("environment", environment.rawValue)], String(count))
                }
            }
            if !openConsumptionRequests.isEmpty {
                let name = "rightful_consumption_requests_open"
                page.family(name, "gauge", "The store's questions about refund requests that wait for an answer.")
                for (stream, count) in openConsumptionRequests {
                    page.sample(
                        name, [("app", stream.app), ("environment", stream.environment.rawValue)], String(count))
                }
            }
            drift?.write(to: &page)
            if let endpoints {
                page.family(
                    "rightful_webhook_endpoints", "gauge",
                    "Endpoints of outgoing webhooks: active, failing since the last attempt or longer, paused.")
                for (state, count) in [
                    ("active", endpoints.active), ("failing", endpoints.failing), ("paused", endpoints.paused),
                ] { page.sample("rightful_webhook_endpoints", [("state", state)], String(count)) }
                page.family(
                    "rightful_webhook_overdue_since_timestamp_seconds", "gauge",
                    "When the delivery was due that waits the longest to be sent; absent where none does.")
                if let since = endpoints.overdueSince {
                    page.sample(
                        "rightful_webhook_overdue_since_timestamp_seconds", [],
                        String(Double(since.milliseconds) / 1000))
                }
                page.family(
                    "rightful_webhook_untold_since_timestamp_seconds", "gauge",
                    "Since when something is in the log, or has run out, that webhooks have not looked at; absent where nothing is."
                )
                if let since = endpoints.untoldSince {
                    page.sample(
                        "rightful_webhook_untold_since_timestamp_seconds", [],
                        String(Double(since.milliseconds) / 1000))
                }
            }
        }
    }

    private let version: String
    private let foldVersion: Int
    private let state = Mutex(State())

    /// Nothing counted yet; `version` is the program's.
    package init(version: String, foldVersion: Int) {
        self.version = version
        self.foldVersion = foldVersion
    }

    /// Takes down a committed batch; what a `LedgerWriter` reports to.
    package func record(_ batch: LedgerWriter.BatchReport) {
        observe(.batchEvents, [], Double(batch.events))
        observe(.batchDuration, [], batch.duration / .seconds(1))
        noteHead(batch.end.position)
    }

    /// Where the log ends, as one of several that look says: the greatest position is the newest.
    ///
    /// - Parameter isShorter: whether it may be shorter than before, as after a failover.
    func noteHead(_ position: Int64, isShorter: Bool = false) {
        state.withLock { $0.headPosition = isShorter ? position : max($0.headPosition ?? 0, position) }
    }

    /// By how much this machine's clock is ahead of the database's; 0 while they agree.
    func noteClockSkew(milliseconds: Int64) {
        state.withLock { $0.clockSkewMilliseconds = milliseconds }
    }

    /// How far the last event is dated after the clock; 0 where it is not.
    func noteLogAhead(milliseconds: Int64) {
        state.withLock { $0.logAheadMilliseconds = milliseconds }
    }

    /// Whether nothing can be recorded, because somebody's transaction holds the log, or the database refuses everything.
    package func noteAppends(areFailing: Bool) {
        state.withLock { $0.areAppendsFailing = areFailing }
    }

    /// Shows how the store's streams stand, and how far its history was read.
    func note(_ standings: [StreamStanding], sweeps: [SweepStanding], at now: Timestamp) {
        let gauges = StreamGauges(standings, sweeps, at: now)
        state.withLock { $0.streams = gauges }
    }

    /// Shows how Stripe's streams stand, and how far its list of events was read.
    func note(_ standings: [WebStreamStanding], at now: Timestamp) {
        let gauges = StreamGauges(standings, at: now)
        state.withLock { $0.webStreams = gauges }
    }

    /// Shows how much is to be read from Stripe's API because an event calls for it.
    func note(owedLookups count: Int64, _ environment: StoreEnvironment) {
        state.withLock { $0.owedLookups[environment] = count }
    }

    /// Shows how many refund requests of the store wait for an answer.
    func note(openConsumptionRequests: [(stream: StoreStream, count: Int)]) {
        state.withLock { $0.openConsumptionRequests = openConsumptionRequests }
    }

    /// Shows how many differences there are.
    func note(_ counts: [DriftCount]) {
        let gauges = DriftGauges(counts)
        state.withLock { $0.drift = gauges }
    }

    /// Shows how the endpoints of webhooks fare.
    func note(_ health: EndpointHealth) { state.withLock { $0.endpoints = health } }

    /// Shows what these count beside what is counted here.
    func add(_ counters: RouteCounters) { state.withLock { $0.routes.append(counters) } }

    func count(_ family: CounterFamily, _ labels: [String], by number: Int = 1) {
        guard number > 0 else { return }
        state.withLock { state in
            let labels = Self.bounded(labels, in: state.counters[family])
            state.counters[family, default: [:]][labels, default: 0] += UInt64(number)
        }
    }

    func observe(_ family: HistogramFamily, _ labels: [String], _ value: Double) {
        let bounds = family.bounds
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        state.withLock { state in
            let labels = Self.bounded(labels, in: state.histograms[family])
            let empty = Histogram(counts: [UInt64](repeating: 0, count: bounds.count + 1))
            state.histograms[family, default: [:]][labels, default: empty].counts[bucket] += 1
            state.histograms[family, default: [:]][labels, default: empty].sum += value
        }
    }

    private static func bounded<Value>(_ labels: [String], in known: [[String]: Value]?) -> [String] {
        guard let known, known.count >= combinationLimit, known[labels] == nil else { return labels }
        return labels.map { _ in "other" }
    }

    /// Everything counted so far, in the Prometheus text format.
    func text(isDatabaseUp: Bool) -> String {
        let state = state.withLock { $0.merged }
        var page = PrometheusPage()
        page.family("rightful_build_info", "gauge", "The program's version and the version of its fold.")
        page.sample("rightful_build_info", [("version", version), ("fold_version", String(foldVersion))], "1")
        page.family(
            "rightful_database_up", "gauge",
            "Whether the database answered just now; where it did not, what only it knows is left out.")
        page.sample("rightful_database_up", [], isDatabaseUp ? "1" : "0")
        if isDatabaseUp { state.writeLedger(to: &page) }
        for family in CounterFamily.allCases {
            page.family(family.rawValue, "counter", family.help)
            // Of what has no labels the zero is shown, too: a counter that appears with its first count has not risen.
            let none: [[String]: UInt64] = family.labels.isEmpty ? [[]: 0] : [:]
            for (labels, count) in Self.ordered(state.counters[family] ?? none) {
                page.sample(family.rawValue, Array(zip(family.labels, labels)), String(count))
            }
        }
        for family in HistogramFamily.allCases {
            page.family(family.rawValue, "histogram", family.help)
            for (labels, histogram) in Self.ordered(state.histograms[family]) {
                page.histogram(
                    family.rawValue, Array(zip(family.labels, labels)), bounds: family.bounds,
                    counts: histogram.counts, sum: histogram.sum)
            }
        }
        return page.text
    }

    private static func ordered<Value>(_ samples: [[String]: Value]?) -> [(key: [String], value: Value)] {
        (samples ?? [:]).sorted { $0.key.lexicographicallyPrecedes($1.key) }
    }
}
