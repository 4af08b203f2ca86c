import EntitlementAPI
import EntitlementCore
import Service

/// An explanation for people.
struct ExplanationText {
    let answer: ExplainQuestion.Answer
    /// What the instant is called in the drawing: `now` or `at`.
    let mark: String
    /// Whether to draw the timeline.
    let draws: Bool

    /// The most of anything that is listed; `--json` has all.
    private static let listLimit = 12

    var text: String {
        let document = answer.document
        var lines = [
            "\(document.customerID) in \(document.environment.rawValue) on \(document.at.inWords)",
            "known up to position \(document.knownAt), fold version \(document.foldVersion)", catalog,
        ]
        if let alsoIn = document.alsoIn {
            lines.append("known in \(alsoIn.map(\.rawValue).joined(separator: ", ")) instead")
        }
        if document.entitlements.isEmpty { lines += ["", "There is no entitlement to explain: the catalog has none."] }
        for (entitlement, explanation) in zip(document.entitlements, answer.explanations) {
            lines.append("")
            lines += section(entitlement, explanation)
        }
        lines += list(
            "claimed or named, and another's", document.conflicts.map { "position \($0.position): \($0.sentence)" })
        return lines.joined(separator: "\n") + "\n"
    }

    private var catalog: String {
        let part = answer.document.catalog
        guard let date = part.recordedAt else { return "no catalog" }
        let policy = answer.policy
        var words = [
            "grace \(policy.graceGivesAccess ? "gives" : "gives no") access",
            "billing retry \(policy.billingRetryGivesAccess ? "gives" : "gives no") access",
            "leeway \(policy.leewaySeconds) s",
            policy.proratedRefund == .endsAccess ? "prorated refunds end access" : "prorated refunds keep access",
        ]
        if policy.webGraceDays != AccessPolicy.defaultWebGraceDays {
            words.append("grace on the web \(policy.webGraceDays) days")
        }
        if policy.webDispute == .keepsAccess { words.append("open disputes keep access") }
        return "catalog of position \(part.position), \(date.inWords): \(words.joined(separator: ", "))"
    }

    private func section(
        _ entitlement: ExplanationDocument.Entitlement, _ explanation: Explanation
    ) -> [String] {
        let decision = explanation.decision
        let words = [decision.state?.rawValue, decision.rule.code].compactMap(\.self).joined(separator: ", ")
        var lines = ["\(entitlement.id): \(decision.givesAccess ? "open" : "closed") (\(words))"]
        lines.append("  \(decision.sentence)")
        if let place = Self.place(decision.source, decision.originalTransactionID) { lines.append("  It is \(place).") }
        if draws, let timeline = explanation.timeline {
            lines.append("")
            lines += TimelineDrawing(
                timeline: timeline, policy: answer.policy, instant: answer.document.at, mark: mark
            ).lines.map { "  " + $0 }
        }
        lines += list("rests on", entitlement.events.map(Self.line))
        lines += list(
            "also considered",
            entitlement.considered.map { considered in
                let place = Self.place(considered.source, considered.originalTransactionID).map { " (\($0))" } ?? ""
                return considered.sentence + place
            })
        lines += list("would change it", entitlement.wouldChange.map(\.sentence))
        if let change = explanation.catalogChange {
            lines += list("the catalog made a difference", ["position \(change.event.position): \(change.sentence)"])
        }
        return lines
    }

    private func list(_ title: String, _ items: [String]) -> [String] {
        guard !items.isEmpty else { return [] }
        var lines = ["", "  \(title)"] + items.prefix(Self.listLimit).map { "    \($0)" }
        if items.count > Self.listLimit { lines.append("    and \(items.count - Self.listLimit) more; see --json") }
        return lines
    }

    /// Where something was bought, and under which number: two of one product are told apart by that.
    private static func place(_ source: EntitlementOrigin?, _ originalTransactionID: String?) -> String? {
        guard let source, let originalTransactionID else { return nil }
        switch source {
        case .appStore: return "the App Store's \(originalTransactionID)"
        case .webCheckout: return "\(originalTransactionID), bought on the web"
        case .grant: return nil
        }
    }

    private static func line(_ event: CitedEvent) -> String {
        let signed = event.occurredAt.map { "signed \($0)" } ?? "recorded \(event.recordedAt)"
        let evidence = event.evidenceSHA256.map { "evidence \($0)" } ?? "no evidence"
        return "\(event.position)  \(event.type)  \(signed)  \(event.source)  \(evidence)"
    }
}

/// A timeline as a bar.
struct TimelineDrawing {
    let timeline: EntitlementTimeline
    let policy: AccessPolicy
    let instant: Timestamp
    let mark: String

    /// Columns of the bar; with the indent a line fits into 80.
    static let width = 72

    var lines: [String] {
        guard let first = timeline.readings.first?.start else { return [] }
        let (start, end) = span(first)
        let length = max(end.milliseconds - start.milliseconds, 1)
        func column(_ instant: Timestamp) -> Int {
            let share = Double(instant.milliseconds - start.milliseconds) / Double(length)
            return min(max(Int(share * Double(Self.width)), 0), Self.width - 1)
        }
        var bar = [Character](repeating: " ", count: Self.width)
        // Later readings last, so that of several in one column the latest shows; none is narrower than a column.
        for reading in timeline.intervals {
            let until = reading.end == .endless ? Self.width - 1 : max(column(reading.end) - 1, column(reading.start))
            for index in column(reading.start)...max(until, column(reading.start)) {
                bar[index] = Self.symbol(reading.state)
            }
        }
        let dates = Self.date(start) + String(repeating: " ", count: Self.width - 20) + Self.date(end)
        let shown = EntitlementState.allCases.filter { state in timeline.readings.contains { $0.state == state } }
        let legend = shown.map { state in
            "\(Self.symbol(state)) \(state.rawValue)\(policy.givesAccess(state) ? "" : " (closed)")"
        }.joined(separator: "   ")
        return [dates, String(bar), pointer(at: column(instant)), legend]
    }

    /// The first reading to the last change, the instant included, and a little air on either side of what is known.
    private func span(_ first: Timestamp) -> (start: Timestamp, end: Timestamp) {
        let bounds = timeline.readings.flatMap { [$0.start, $0.end] }.filter { $0 != .endless } + [instant]
        let start = bounds.min() ?? first
        let last = bounds.max() ?? first
        let air = max((last.milliseconds - start.milliseconds) / 12, Timestamp.millisecondsPerDay)
        return (start, last.adding(milliseconds: air))
    }

    private func pointer(at column: Int) -> String {
        let label = "▲ \(mark)"
        if column + label.count <= Self.width { return String(repeating: " ", count: column) + label }
        return String(repeating: " ", count: column - mark.count - 1) + "\(mark) ▲"
    }

    private static func date(_ instant: Timestamp) -> String { String(instant.description.prefix(10)) }

    private static func symbol(_ state: EntitlementState) -> Character {
        switch state {
        case .active: "█"
        case .inGracePeriod: "▓"
        case .inBillingRetry: "▒"
        case .revoked: "×"
        case .expired: "·"
        }
    }
}
