import EntitlementCore
import Ledger

extension StatusDocument {
    /// The differences of one environment between device, ledger and store.
    struct Drift: Encodable {
        let environment: String
        /// Those that are open and that nothing explains.
        let unexplained: Int64
        /// Of these, how many were not compared, because more is known of the customer than is.
        let notCompared: Int64
        /// By class.
        let open: [String: Int64]
        /// By class: the open ones, and those that were resolved.
        let found: [String: Int64]
    }

    /// Of each environment, whether there are any or not.
    static func drift(_ counts: [DriftCount]) -> [Drift] {
        StoreEnvironment.allCases.map { environment in
            let own = counts.filter { $0.environment == environment }
            func sum(_ driftClass: DriftClass, _ number: (DriftCount) -> Int64) -> Int64 {
                own.filter { $0.driftClass == driftClass }.map(number).reduce(0, +)
            }
            func table(_ number: (DriftCount) -> Int64) -> [String: Int64] {
                Dictionary(uniqueKeysWithValues: DriftClass.allCases.map { ($0.rawValue, sum($0, number)) })
            }
            return Drift(
                environment: environment.rawValue, unexplained: sum(.unexplained, \.open),
                notCompared: sum(.unexplained, \.notCompared), open: table(\.open),
                found: table(\.found))
        }
    }

    /// For people: a line for each environment.
    var driftRows: [(String, String)] {
        (drift ?? []).map { drift in
            let open = DriftClass.allCases.compactMap { driftClass in
                let count = drift.open[driftClass.rawValue] ?? 0
                return count > 0 && driftClass != .unexplained ? "\(count) \(driftClass.rawValue)" : nil
            }
            let cure =
                drift.unexplained > 0
                ? ": `rightful drift --environment \(drift.environment) --class unexplained` shows them" : ""
            let left =
                drift.notCompared > 0
                ? "; \(drift.notCompared) of them not compared, because more is known of the customer than is" : ""
            let rest = open.isEmpty ? "nothing else is open" : "open: \(open.joined(separator: ", "))"
            let resolved = drift.found.values.reduce(0, +) - drift.open.values.reduce(0, +)
            return (
                "drift",
                "\(drift.environment): unexplained = \(drift.unexplained)\(cure)\(left); \(rest); \(resolved) resolved"
            )
        }
    }
}
