import EntitlementCore
import Ledger

/// How many differences of each class there were at the last look.
struct DriftGauges: Sendable {
    private struct Key: Hashable {
        let environment: StoreEnvironment
        let driftClass: DriftClass
    }

    private let open: [Key: Int64]
    private let found: [Key: Int64]
    private let notCompared: [StoreEnvironment: Int64]

    init(_ counts: [DriftCount]) {
        open = Dictionary(
            counts.map { (Key(environment: $0.environment, driftClass: $0.driftClass), $0.open) }, uniquingKeysWith: +)
        found = Dictionary(
            counts.map { (Key(environment: $0.environment, driftClass: $0.driftClass), $0.found) }, uniquingKeysWith: +)
        notCompared = Dictionary(counts.map { ($0.environment, $0.notCompared) }, uniquingKeysWith: +)
    }

    /// Every class, also where there is none: what is missing raises no alarm.
    func write(to page: inout PrometheusPage) {
        write(
            open, "rightful_drift_open", "Differences between device, ledger and store that are open, by class.",
            to: &page)
        write(found, "rightful_drift_found", "The same, and those that were resolved.", to: &page)
        page.family(
            "rightful_drift_not_compared", "gauge",
            "Open differences of class unexplained of which more is known than is compared.")
        for environment in StoreEnvironment.allCases {
            page.sample(
                "rightful_drift_not_compared", [("environment", environment.rawValue)],
                String(notCompared[environment] ?? 0))
        }
    }

    private func write(_ values: [Key: Int64], _ name: String, _ help: String, to page: inout PrometheusPage) {
        page.family(name, "gauge", help)
        for environment in StoreEnvironment.allCases {
            for driftClass in DriftClass.allCases {
                let value = values[Key(environment: environment, driftClass: driftClass)] ?? 0
                page.sample(
                    name, [("environment", environment.rawValue), ("class", driftClass.rawValue)], String(value))
            }
        }
    }
}
