/// Whether whoever holds a row of work is still at it, in SQL: one rule for everything that one process does at a time.
enum Lease {
    /// How long a holder may be silent before another may take over.
    static let seconds = 30.0

    /// True while the sign of life in `column` is a fresh one, by the database's clock.
    ///
    /// One that is further ahead was given before the clock was set back, by a process that may be long gone.
    ///
    /// - Parameter parameter: the statement's placeholder for `seconds`, such as `$5`.
    static func isFresh(_ column: String, _ parameter: String) -> String {
        "\(column) BETWEEN clock_timestamp() - make_interval(secs => \(parameter)) "
            + "AND clock_timestamp() + make_interval(secs => \(parameter))"
    }
}
