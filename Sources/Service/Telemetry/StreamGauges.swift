import EntitlementCore
import Ledger

/// How the store's streams stood at the last look, and how far its history was read.
struct StreamGauges: Sendable {
    private struct Gauge {
        let name: String
        let help: String
        var samples: [(labels: [(String, String)], value: String)] = []
    }

    private var gauges: [Gauge] = []

    init() {}

    init(_ standings: [StreamStanding], _ sweeps: [SweepStanding], at now: Timestamp) {
        var silent = Gauge(
            name: "rightful_stream_silent", help: "Whether the store has sent something since it was last heard.")
        var overdue = Gauge(
            name: "rightful_stream_overdue",
            help: "Subscriptions whose next event should have been heard of by now.")
        var heard = Gauge(
            name: "rightful_stream_last_heard_timestamp_seconds",
            help: "When a notification arrived last that the store delivered by itself.")
        var repaired = Gauge(
            name: "rightful_stream_repaired",
            help: "Checks that found what had not been heard, of all services together.")
        for standing in standings {
            let labels = Self.labels(standing.stream) + [("source", "app_store")]
            silent.samples.append((labels, standing.isSilent(at: now) ? "1" : "0"))
            overdue.samples.append((labels, String(standing.overdue)))
            repaired.samples.append((labels, String(standing.repaired)))
            if let instant = standing.lastHeardAt { heard.samples.append((labels, Self.seconds(instant))) }
        }
        var known = Gauge(
            name: "rightful_sweep_completed_until_timestamp_seconds",
            help: "Until when everything that the store sent is known.")
        var failing = Gauge(
            name: "rightful_sweep_failing", help: "Whether the store's history could not be read at the last attempt.")
        var recorded = Gauge(
            name: "rightful_sweep_recorded",
            help: "Missing notifications that the sweep under way, or the last one, found.")
        for sweep in sweeps {
            let labels = Self.labels(StoreStream(app: sweep.app, environment: sweep.environment))
            if let instant = sweep.completedUntil { known.samples.append((labels, Self.seconds(instant))) }
            failing.samples.append((labels, sweep.lastError == nil ? "0" : "1"))
            recorded.samples.append((labels, String(sweep.recorded)))
        }
        gauges = [silent, overdue, heard, repaired, known, failing, recorded].filter { !$0.samples.isEmpty }
    }

    func write(to page: inout PrometheusPage) {
        for gauge in gauges {
            page.family(gauge.name, "gauge", gauge.help)
            for sample in gauge.samples { page.sample(gauge.name, sample.labels, sample.value) }
        }
    }

    private static func labels(_ stream: StoreStream) -> [(String, String)] {
        [("app", stream.app), ("environment", stream.environment.rawValue)]
    }

    private static func seconds(_ instant: Timestamp) -> String { String(Double(instant.milliseconds) / 1000) }
}
