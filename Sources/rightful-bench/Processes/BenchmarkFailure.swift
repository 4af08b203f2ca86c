/// Why a benchmark could not be run, for people.
struct BenchmarkFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// A command line that makes no sense.
struct BenchmarkUsageError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
