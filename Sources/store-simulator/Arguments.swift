/// A command line that makes no sense.
struct SimulatorUsageError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The options of a command, most with a value; what is taken is gone, so that the rest can be refused.
struct Arguments {
    /// Those without a value.
    private static let flags: Set<String> = ["--web"]

    private var values: [String: String] = [:]

    init(_ words: [String]) throws(SimulatorUsageError) {
        var words = words[...]
        while let name = words.popFirst() {
            guard name.hasPrefix("--") else { throw SimulatorUsageError("'\(name)' is not an option") }
            if Self.flags.contains(name) {
                guard values.updateValue("", forKey: name) == nil else {
                    throw SimulatorUsageError("\(name) is given twice")
                }
                continue
            }
            guard let value = words.popFirst() else { throw SimulatorUsageError("\(name) lacks its value") }
            guard values.updateValue(value, forKey: name) == nil else {
                throw SimulatorUsageError("\(name) is given twice")
            }
        }
    }

    mutating func flag(_ name: String) -> Bool { values.removeValue(forKey: name) != nil }

    mutating func optional(_ name: String) -> String? { values.removeValue(forKey: name) }

    mutating func required(_ name: String) throws(SimulatorUsageError) -> String {
        guard let value = optional(name), !value.isEmpty else { throw SimulatorUsageError("\(name) is missing") }
        return value
    }

    mutating func number(_ name: String, in range: ClosedRange<Int>, default fallback: Int) throws(SimulatorUsageError)
        -> Int
    {
        guard let text = optional(name) else { return fallback }
        guard let number = Int(text), range.contains(number) else {
            throw SimulatorUsageError("\(name) must be a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Refuses what nobody asked for.
    func end() throws(SimulatorUsageError) {
        if let name = values.keys.min() { throw SimulatorUsageError("there is no option \(name) here") }
    }
}
