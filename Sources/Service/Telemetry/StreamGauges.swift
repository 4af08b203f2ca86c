import EntitlementCore
import Ledger

/// How the store's streams stood at the last look, and how far its history was read.
struct StreamGauges: Sendable {
    private var samples: [Family: [(labels: [(String, String)], value: String)]] = [:]

    /// Without a sample.
    init() {}

    private enum Family: String, CaseIterable {
        case silent = "rightful_stream_silent"
        case overdue = "rightful_stream_overdue"
        case heard = "rightful_stream_last_heard_timestamp_seconds"
        case repaired = "rightful_stream_repaired"
        case known = "rightful_sweep_completed_until_timestamp_seconds"
        case failing = "rightful_sweep_failing"
        case recorded = "rightful_sweep_recorded"

        var help: String {
            switch self {
            case .silent: "1 while the store must have sent something that did not arrive, and nothing was heard since."
            case .overdue: "Subscriptions whose next event should have been heard of by now."
            case .heard: "When a notification arrived last that the store delivered by itself."
            case .repaired: "Checks that found what had not been heard, of all services together."
            case .known: "Until when everything that the store sent is known."
            case .failing: "Whether the store's history could not be read at the last attempt."
            case .recorded: "Missing notifications that the sweep under way, or the last one, found."
            }
        }
    }

    private mutating func add(_ family: Family, _ labels: [(String, String)], _ value: String) {
        samples[family, default: []].append((labels, value))
    }

    init(_ standings: [StreamStanding], _ sweeps: [SweepStanding], at now: Timestamp) {
        for standing in standings {
            let labels = Self.labels(standing.stream) + [("source", "app_store")]
            add(.silent, labels, standing.isSilent(at: now) ? "1" : "0")
            add(.overdue, labels, String(standing.overdue))
            add(.repaired, labels, String(standing.repaired))
            if let instant = standing.lastHeardAt { add(.heard, labels, Self.seconds(instant)) }
        }
        for sweep in sweeps {
            let labels = Self.labels(StoreStream(app: sweep.app, environment: sweep.environment))
            if let instant = sweep.completedUntil { add(.known, labels, Self.seconds(instant)) }
            add(.failing, labels, sweep.lastError == nil ? "0" : "1")
            add(.recorded, labels, String(sweep.recorded))
        }
    }

    /// Stripe's streams, which are of no app.
    init(_ standings: [WebStreamStanding], at now: Timestamp) {
        for standing in standings {
            let labels = [("environment", standing.environment.rawValue), ("source", "stripe")]
            add(.silent, labels, standing.isSilent(at: now) ? "1" : "0")
            if let instant = standing.lastHeardAt { add(.heard, labels, Self.seconds(instant)) }
            if let instant = standing.completedUntil { add(.known, labels, Self.seconds(instant)) }
            add(.failing, labels, standing.lastError == nil ? "0" : "1")
            add(.recorded, labels, String(standing.recorded))
        }
    }

    /// This and what another has, family by family.
    func merging(_ other: StreamGauges) -> StreamGauges {
        var merged = self
        merged.samples.merge(other.samples, uniquingKeysWith: +)
        return merged
    }

    func write(to page: inout PrometheusPage) {
        for family in Family.allCases {
            guard let samples = samples[family] else { continue }
            page.family(family.rawValue, "gauge", family.help)
            for sample in samples { page.sample(family.rawValue, sample.labels, sample.value) }
        }
    }

    private static func labels(_ stream: StoreStream) -> [(String, String)] {
        [("app", stream.app), ("environment", stream.environment.rawValue)]
    }

    private static func seconds(_ instant: Timestamp) -> String { String(Double(instant.milliseconds) / 1000) }
}
