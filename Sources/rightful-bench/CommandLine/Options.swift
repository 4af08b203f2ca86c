/// What the command line asks for.
struct Options: Sendable {
    private(set) var isJSON = false
    private(set) var wantsHelp = false
    /// How long each figure is measured, over all its rounds.
    private(set) var seconds = 4.0
    /// How often each pair of limit and figure is measured, in turn.
    private(set) var rounds = 2
    private(set) var connections = [1, 8, 64]
    /// How many events the log holds where a row does not say.
    private(set) var events = 100_000
    /// The sizes of the log at which growth is measured.
    private(set) var sizes = [20_000, 200_000]
    /// How many endpoints of webhooks are told.
    private(set) var endpoints = 1000
    /// Where databases and prepared requests lie meanwhile; the system's temporary directory unless given.
    private(set) var directory: String?
    /// Where the document is written too.
    private(set) var output: String?
    private(set) var rows: [String] = []

    static let allRows: [(name: String, make: @Sendable () -> any Row)] = [
        ("reads", { ReadsRow() }), ("past-reads", { PastReadsRow() }), ("append", { AppendRow() }),
        ("notifications", { NotificationsRow() }), ("sweep", { SweepRow() }), ("launches", { LaunchesRow() }),
        ("rebuild", { RebuildRow() }),
        ("readable", { ReadableRow() }), ("long-lives", { LongLivesRow() }), ("webhooks", { WebhooksRow() }),
        ("growth", { GrowthRow() }),
    ]

    init(_ words: [String]) throws(BenchmarkUsageError) {
        var words = words[...]
        while let word = words.popFirst() {
            switch word {
            case "--help", "help": wantsHelp = true
            case "--json": isJSON = true
            case "--seconds": seconds = try Self.number(word, words.popFirst(), in: 1...600)
            case "--rounds": rounds = Int(try Self.number(word, words.popFirst(), in: 1...20))
            // PostgreSQL, which is asked as often at a time, takes a hundred.
            case "--connections": connections = try Self.numbers(word, words.popFirst(), in: 1...90)
            case "--events": events = Int(try Self.number(word, words.popFirst(), in: 1000...20_000_000))
            // One more is made, and the service takes twenty thousand.
            case "--endpoints": endpoints = Int(try Self.number(word, words.popFirst(), in: 1...19_999))
            case "--sizes": sizes = try Self.numbers(word, words.popFirst(), in: 1000...20_000_000).sorted()
            case "--directory": directory = try Self.text(word, words.popFirst())
            case "--output": output = try Self.text(word, words.popFirst())
            case "all": rows = Self.allRows.map(\.name)
            default:
                guard Self.allRows.contains(where: { $0.name == word }) else {
                    throw BenchmarkUsageError("there is no row or option '\(word)'")
                }
                rows.append(word)
            }
        }
        if rows.isEmpty { rows = Self.allRows.map(\.name) }
    }

    private static func text(_ option: String, _ word: String?) throws(BenchmarkUsageError) -> String {
        guard let word else { throw BenchmarkUsageError("\(option) takes a path") }
        return word
    }

    private static func number(
        _ option: String, _ word: String?, in range: ClosedRange<Double>
    ) throws(BenchmarkUsageError) -> Double {
        guard let value = word.flatMap(Double.init), range.contains(value) else {
            throw BenchmarkUsageError(
                "\(option) takes a number from \(Int(range.lowerBound)) to \(Int(range.upperBound))")
        }
        return value
    }

    private static func numbers(
        _ option: String, _ word: String?, in range: ClosedRange<Int>
    ) throws(BenchmarkUsageError) -> [Int] {
        let parts = (word ?? "").split(separator: ",").map { Int($0) }
        let values = parts.compactMap { $0 }
        guard !values.isEmpty, values.count == parts.count, values.allSatisfy(range.contains) else {
            throw BenchmarkUsageError(
                "\(option) takes numbers from \(range.lowerBound) to \(range.upperBound), with commas between")
        }
        return values
    }
}
