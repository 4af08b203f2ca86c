import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// Reads of charts.
struct ChartHandlers: Sendable {
    let context: ServiceContext
    let positions: PositionWatcher

    /// `GET /v1/charts`: which charts there are, and what figures each has.
    func list(_ call: Call) async throws -> HTTPResponse { try .document(ChartListDocument()) }

    /// `GET /v1/charts/{name}`.
    func read(_ call: Call) async throws -> HTTPResponse {
        guard let name = try call.value(of: .chart), let chart = ChartName(rawValue: name) else {
            let names = ChartName.allCases.map(\.rawValue).joined(separator: ", ")
            throw Problem(.notFound, "There is no such chart; there are \(names).", param: Parameter.chart.name)
        }
        let environment = try call.environment()
        let productID = try call.text(.product)
        let format =
            try call.word(.chartFormat, ChartFormat.self) ?? ChartFormat(accepted: call.request.headerList("Accept"))
        let knownAt = try call.knownAt()
        let presentSpan = knownAt == .head ? try call.chartSpan(now: context.now()) : nil
        if let position = try call.wholeNumber(.minPosition) {
            try await positions.wait(for: position, within: context.limits.positionWait)
        }
        let facts = try await context.reader.chart(chart, environment: environment, knownAt: knownAt)
        // What was known in the past is shown up to then, so that the answer is the same whenever somebody asks.
        let span = try presentSpan ?? call.chartSpan(now: facts.recordedAt ?? context.now())
        let lines = facts.cells.lines(of: chart, over: span, facts.catalog, productID: productID, app: call.scope.app)
        guard lines.count * span.count <= Self.chartNumbers else {
            throw Problem(
                .unprocessable,
                "These would be \(lines.count) lines of \(span.count) numbers, and an answer has at most \(Self.chartNumbers); ask for fewer intervals, or for one product_id."
            )
        }
        let document = ChartDocument(
            chart, environment: environment, span, knownAt: facts.position,
            knownUntil: facts.recordedAt ?? context.now(),
            lines: lines)
        switch format {
        case .json: return try .document(document, position: facts.position, headers: [("Vary", "Accept")])
        case .csv:
            return HTTPResponse(
                status: 200,
                headers: HTTPResponse.ledgerPosition(facts.position) + [
                    ("Content-Type", "text/csv; charset=utf-8"), ("Vary", "Accept"),
                    ("X-Content-Type-Options", "nosniff"),
                    ("Content-Disposition", "attachment; filename=\"\(chart.rawValue).csv\""),
                ], body: document.csv)
        }
    }

    /// The most numbers of one answer.
    private static let chartNumbers = 100_000
}

/// In which form a chart is answered.
enum ChartFormat: String, Sendable, CaseIterable {
    case json
    case csv

    /// What a header `Accept` would rather have; JSON where it does not say, and where it likes both alike.
    init(accepted header: String?) {
        var (csv, json) = (0.0, 0.0)
        for range in (header ?? "").split(separator: ",") {
            let parts = range.split(separator: ";").map { part in
                part.filter { $0 != " " && $0 != "\t" }.lowercased()
            }
            let quality = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) } ?? 1
            switch parts.first {
            case "text/csv": csv = max(csv, quality)
            case "application/json", "application/*", "*/*": json = max(json, quality)
            default: continue
            }
        }
        self = csv > 0 && csv > json ? .csv : .json
    }
}

extension Call {
    /// The intervals that a chart is asked for: where nothing is said, the 30 days, 26 weeks or 12 months that end with that
    /// of an instant.
    fileprivate func chartSpan(now: Timestamp) throws(Problem) -> ChartSpan {
        let interval = try word(.interval, ChartStep.self) ?? .day
        let (from, to) = (try date(.chartFrom), try date(.chartTo))
        let usual = ChartSpan(interval, count: interval.usualCount, upTo: to?.adding(milliseconds: -1) ?? now)
        guard let start = from ?? usual.boundaries.first, let end = to ?? usual.boundaries.last else {
            throw Problem(.malformedRequest, "from and to name no stretch of time.")
        }
        guard start < end else {
            throw Problem(
                .unprocessable,
                to == nil
                    ? "from must lie before \(end), the end of the \(interval.rawValue) that runs, as to is left out."
                    : "from must lie before to.",
                param: "from")
        }
        guard let span = ChartSpan(interval, from: start, to: end) else {
            throw Problem(
                .unprocessable,
                "From \(start) to \(end) there are more than \(ChartSpan.limit) intervals of a \(interval.rawValue); ask for fewer, or for longer ones.",
                param: "interval")
        }
        return span
    }

    /// A date, which is its midnight in UTC, or an instant.
    private func date(_ parameter: Parameter) throws(Problem) -> Timestamp? {
        guard let text = try value(of: parameter) else { return nil }
        if let midnight = Timestamp(rfc3339: text + "T00:00:00Z") { return midnight }
        do throws(Problem) {
            return try instant(parameter)
        } catch {
            throw Problem(
                .malformedRequest,
                "\(parameter.name) is a date, such as 2026-11-20, or an RFC 3339 time; write + as %2B.",
                param: parameter.name)
        }
    }
}

extension ChartStep {
    /// How many there are where nothing is said.
    fileprivate var usualCount: Int {
        switch self {
        case .day: 30
        case .week: 26
        case .month: 12
        }
    }
}
