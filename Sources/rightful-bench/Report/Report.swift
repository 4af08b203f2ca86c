import Foundation

/// One run: where, when and of what, and its figures.
struct RunDocument: Codable, Sendable {
    let object: String
    let machine: Machine
    let versions: Versions
    /// The commit of the checkout, with `-dirty` where files were changed.
    let commit: String
    let startedAt: String
    var endedAt: String
    let command: String
    /// How long each figure was measured, in seconds.
    let seconds: Double
    let rounds: Int
    /// The mean share of the machine that other programs had while figures were measured.
    var others: Double
    var figures: [Figure]

    enum CodingKeys: String, CodingKey {
        case object, machine, versions, commit, command, seconds, rounds, others, figures
        case startedAt = "started_at"
        case endedAt = "ended_at"
    }
}

/// Collects figures, and shows each as it comes.
final class Report {
    private let isJSON: Bool
    private var document: RunDocument
    private var hasHeader = false

    init(_ document: RunDocument, isJSON: Bool) {
        self.document = document
        self.isJSON = isJSON
    }

    func add(_ figure: Figure) {
        document.figures.append(figure)
        guard !isJSON else { return }
        if !hasHeader { say(FigureTable.header) }
        hasHeader = true
        say(FigureTable.line(figure))
    }

    /// The whole run.
    func finish() throws -> RunDocument {
        document.endedAt = Date().formatted(.iso8601)
        let shares = document.figures.compactMap(\.others)
        document.others = shares.isEmpty ? 0 : shares.reduce(0, +) / Double(shares.count)
        return document
    }

    /// Says what is being done, on standard error.
    func step(_ text: String) { complain("rightful-bench: \(text)\n") }
}

/// Figures as lines for people.
enum FigureTable {
    static let header = columns(
        "", "", "value", "limit", "ratio", "target", "", "by cpu", "cpu us", "p50 ms", "p99 ms", "others")

    static func line(_ figure: Figure) -> String {
        let verdict = figure.isMet.map { $0 ? "met" : "MISSED" } ?? ""
        let basis = figure.judgedByProcessorTime == true ? " cpu" : ""
        return columns(
            figure.row, "\(figure.name), \(figure.unit)", number(figure.value), number(figure.limit?.value),
            number(figure.ratio), figure.target.map(bound) ?? "", verdict + basis, number(figure.ratioOfProcessorTime),
            number(figure.processorTime?.total), number(figure.p50Milliseconds), number(figure.p99Milliseconds),
            figure.others.map { String(format: "%.0f %%", $0 * 100) } ?? "")
            + (figure.note.map { "  (\($0))" } ?? "")
    }

    /// A target, such as `>= 0.5`.
    static func bound(_ target: Target) -> String { (target.isAtLeast ? ">= " : "<= ") + number(target.bound) }

    /// A number with three digits that count, or all before the point.
    static func number(_ value: Double?) -> String {
        guard let value else { return "" }
        let size = abs(value)
        return String(format: size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.2f", value)
    }

    private static func columns(_ row: String, _ name: String, _ numbers: String...) -> String {
        func pad(_ text: String, to width: Int) -> String { String(repeating: " ", count: max(0, width - text.count)) }
        return row + pad(row, to: 14) + name + pad(name, to: 52) + numbers.map { pad($0, to: 11) + $0 }.joined()
    }
}
