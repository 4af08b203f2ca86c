import Foundation

/// Puts a run's figures into the results page, between its two marks, and draws its charts beside it.
struct Page {
    private static let begin = "<!-- figures: written by deploy/bench --publish -->"
    private static let end = "<!-- end of the figures -->"

    private let run: RunDocument
    private let path: URL

    /// - Parameter words: the run's file and the page.
    init(_ words: [String]) throws {
        guard words.count == 2 else { throw BenchmarkUsageError("page takes a run's file and the page") }
        run = try RunDocumentFile.read(words[0])
        path = URL(filePath: words[1])
    }

    /// Writes the page and its charts.
    func write() throws {
        let text = try String(contentsOf: path, encoding: .utf8)
        guard let begin = text.range(of: Self.begin), let end = text.range(of: Self.end),
            begin.upperBound <= end.lowerBound
        else { throw BenchmarkFailure("\(path.path()) lacks the marks between which the figures stand") }
        var parts = [conditions, targets]
        for (name, chart) in charts {
            let file = path.deletingPathExtension().lastPathComponent + "-\(name).svg"
            let place = path.deletingLastPathComponent().appending(path: file)
            guard let svg = chart.svg() else {
                try? FileManager.default.removeItem(at: place)
                continue
            }
            try svg.write(to: place, atomically: true, encoding: .utf8)
            parts.append("![\(chart.title)](\(file))")
        }
        parts.append(everything)
        try (text[..<begin.upperBound] + "\n\n" + parts.joined(separator: "\n\n") + "\n\n" + text[end.lowerBound...])
            .write(to: path, atomically: true, encoding: .utf8)
    }

    // MARK: - Text

    private var conditions: String {
        let machine = run.machine
        return """
            Commit `\(run.commit)`, \(run.startedAt) to \(run.endedAt), by `\(run.command)`:
            \(machine.cores) × \(machine.processor), \(FigureTable.number(machine.memoryGiB)) GiB, \(machine.system), Linux \
            \(machine.kernel), \(machine.fileSystem); \(run.versions.postgresql), \(run.versions.openssl), \
            \(run.versions.wrk.split(separator: " ").prefix(2).joined(separator: " ")), Swift \(run.versions.swift). Service, \
            PostgreSQL and load share the processors. Each figure took \(FigureTable.number(run.seconds)) s in \(run.rounds) \
            rounds, its limit in turn with it. Programs that had nothing to do with it used \
            \(Int((run.others * 100).rounded())) % of the machine\(run.others > 0.1 ? ", so compare the ratios by processor time" : "").
            """
    }

    private var targets: String {
        let judged = run.figures.filter { $0.target != nil }
        let met = judged.count { $0.isMet == true }
        return "\(met) of \(judged.count) targets are met.\n\n"
            + table(
                ["work", "figure", "limit", "ratio", "by processor time", "target", ""],
                judged.map { figure in
                    [
                        "\(figure.row): \(figure.name)", "\(number(figure.value)) \(figure.unit)",
                        figure.limit.map { "\(number($0.value)) (\($0.name))" } ?? "", number(figure.ratio),
                        number(figure.ratioOfProcessorTime), figure.target.map { FigureTable.bound($0) } ?? "",
                        verdict(figure),
                    ]
                })
    }

    private var everything: String {
        "### Every figure\n\n"
            + table(
                ["work", "figure", "limit", "ratio", "service µs", "database µs", "load µs", "p50 ms", "p99 ms"],
                run.figures.map { figure in
                    [
                        "\(figure.row): \(figure.name)" + (figure.note.map { " (\($0))" } ?? ""),
                        "\(number(figure.value)) \(figure.unit)", number(figure.limit?.value), number(figure.ratio),
                        number(figure.processorTime?.service), number(figure.processorTime?.database),
                        number(figure.processorTime?.load), number(figure.p50Milliseconds),
                        number(figure.p99Milliseconds),
                    ]
                })
    }

    private func verdict(_ figure: Figure) -> String {
        guard let isMet = figure.isMet else { return "" }
        return (isMet ? "met" : "**missed**") + (figure.judgedByProcessorTime == true ? " by processor time" : "")
    }

    private func number(_ value: Double?) -> String { FigureTable.number(value) }

    private func table(_ head: [String], _ rows: [[String]]) -> String {
        ([head, head.map { _ in "---" }] + rows).map { "| " + $0.joined(separator: " | ") + " |" }
            .joined(separator: "\n")
    }

    // MARK: - Charts

    private var charts: [(name: String, chart: Chart)] {
        [
            (
                "connections",
                Chart(
                    title: "Throughput by connections", xTitle: "connections", yTitle: "per second",
                    yScale: .logarithmic,
                    series: [
                        byConnections("reads", "entitlement reads", \.value),
                        byConnections("reads", "pgbench -S", \.limitValue, isLimit: true),
                        byConnections("notifications", "notifications", \.value),
                        byConnections("launches", "launches", \.value),
                    ])
            ),
            (
                "latency",
                Chart(
                    title: "99th percentile by connections", xTitle: "connections", yTitle: "milliseconds",
                    yScale: .logarithmic,
                    series: [
                        byConnections("reads", "entitlement reads", \.p99Milliseconds),
                        byConnections("notifications", "notifications", \.p99Milliseconds),
                        byConnections("launches", "launches", \.p99Milliseconds),
                    ])
            ),
            (
                "size",
                Chart(
                    title: "Throughput by events in the log", xTitle: "events in the log", yTitle: "per second",
                    yScale: .logarithmic,
                    series: growth.map { bySize($0.text, $0.name, \.value) })
            ),
            (
                "size-latency",
                Chart(
                    title: "99th percentile by events in the log", xTitle: "events in the log", yTitle: "milliseconds",
                    yScale: .logarithmic,
                    series: growth.map { bySize($0.text, $0.name, \.p99Milliseconds) })
            ),
        ]
    }

    private let growth = [
        (text: "reads of 10000 customers", name: "reads of 10,000 customers"),
        (text: "first reads", name: "first reads, from the database"), (text: "explain", name: "explain"),
        (text: "appends", name: "appends"),
    ]

    private func byConnections(
        _ row: String, _ name: String, _ value: (Figure) -> Double?, isLimit: Bool = false
    ) -> Chart.Series {
        // Only the row's main figures, which are named by their connections alone.
        let figures = run.figures.filter { $0.row == row && $0.name == "\($0.connections ?? 0) connections" }
        return Chart.Series(
            name: name,
            points: figures.compactMap { figure in
                value(figure).map { (Double(figure.connections ?? 0), $0) }
            }.sorted { $0.0 < $1.0 }, isLimit: isLimit)
    }

    private func bySize(_ text: String, _ name: String, _ value: (Figure) -> Double?) -> Chart.Series {
        Chart.Series(
            name: name,
            points: run.figures.filter { $0.row == "growth" && $0.name.contains(text) }.compactMap { figure in
                value(figure).map { (Double(figure.events ?? 0), $0) }
            }.sorted { $0.0 < $1.0 })
    }
}

extension Figure {
    /// What it is held against.
    fileprivate var limitValue: Double? { limit?.value }
}
