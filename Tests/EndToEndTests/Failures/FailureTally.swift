import Foundation

/// What a campaign of failures has seen, for people to read.
struct FailureTally: Sendable {
    /// How long it took until everything was answered again, of each kind of fault.
    private var recoveries: [String: [Duration]] = [:]
    private(set) var faults = 0
    var answers = 0
    var operations = 0
    var delivered = 0
    var brokenOff = 0
    var refusals = 0
    var events = 0
    var health = HealthProbe.Findings()

    mutating func add(_ kinds: [Fault], recovery: Duration) {
        faults += kinds.count
        for kind in kinds { recoveries[kind.rawValue, default: []].append(recovery) }
    }

    mutating func add(_ findings: HealthProbe.Findings) {
        health.answers += findings.answers
        health.slowest = max(health.slowest, findings.slowest)
        health.faults += findings.faults
    }

    /// A table and the totals.
    var text: String {
        func seconds(_ duration: Duration) -> String { String(format: "%.1f", duration / .seconds(1)) }
        var lines = ["| what fails | times | recovered after, median (s) | longest (s) |", "|---|---|---|---|"]
        for (kind, durations) in recoveries.sorted(by: { $0.key < $1.key }) {
            let sorted = durations.sorted()
            lines.append(
                "| \(kind) | \(sorted.count) | \(seconds(sorted[sorted.count / 2])) | "
                    + "\(seconds(sorted[sorted.count - 1])) |")
        }
        lines.append(
            "\(faults) faults; \(operations) commands and purchases and \(delivered) notifications acknowledged, lost 0; "
                + "\(brokenOff) requests broken off; \(refusals) others answered 503, or not at all, and sent again; \(answers) answers held against what was acknowledged; "
                + "\(events) events verified with their signatures; \(health.answers) answers of /healthz, the slowest "
                + "after \(seconds(health.slowest)) s")
        return lines.joined(separator: "\n")
    }
}
