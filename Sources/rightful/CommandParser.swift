/// The options and operands of one command, split but not yet understood.
struct ParsedArguments: Sendable {
    let command: String
    /// By name with dashes; a switch has the value "".
    private(set) var options: [String: String] = [:]
    private(set) var operands: [String] = []

    fileprivate init(command: String) { self.command = command }

    func has(_ option: String) -> Bool { options[option] != nil }

    func value(_ option: String) -> String? { options[option] }

    func required(_ option: String) throws(UsageError) -> String {
        guard let value = options[option] else { throw error("\(option) is missing") }
        return value
    }

    func error(_ problem: String) -> UsageError { UsageError(command, problem) }

    fileprivate mutating func set(_ option: String, _ value: String) throws(UsageError) {
        guard options.updateValue(value, forKey: option) == nil else { throw error("\(option) is given twice") }
    }

    fileprivate mutating func add(operand: String) { operands.append(operand) }
}

/// Finds the command and splits its arguments.
struct CommandParser {
    enum Result {
        case print(String)
        case run(any Command.Type, ParsedArguments)
    }

    private let commands: [any Command.Type]

    init(_ commands: [any Command.Type]) { self.commands = commands }

    func parse(_ arguments: [String]) throws(UsageError) -> Result {
        guard let first = arguments.first else { throw UsageError("", "no command is given") }
        if first == "--help" || first == "-h" || first == "help" { return .print(Help.overview(commands)) }
        if first == "--version" { return .print(Version.line) }
        // What every command takes may stand before it as well.
        let leading = arguments.prefix(Self.leadingOptions(arguments))
        let words = Array(arguments.dropFirst(leading.count).prefix { !$0.hasPrefix("-") })
        guard let command = commands.first(where: { words.starts(with: $0.usage.words) }) else {
            if arguments.contains("--help") || arguments.contains("-h") {
                return .print(Help.overview(commands.filter { $0.usage.words.first == words.first }))
            }
            throw unknown(words)
        }
        var rest = leading + arguments.dropFirst(leading.count + command.usage.words.count)
        // Before anything else, so that help answers even a command line that is not right yet.
        if rest.prefix(while: { $0 != "--" }).contains(where: { $0 == "--help" || $0 == "-h" }) {
            return .print(Help.page(command.usage))
        }
        return .run(command, try split(&rest, command.usage))
    }

    /// How many of the arguments are options of every command, with their values, before the command itself.
    private static func leadingOptions(_ arguments: [String]) -> Int {
        var count = 0
        while count < arguments.count, arguments[count].hasPrefix("-") {
            let parts = arguments[count].split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard CommandUsage.common.contains(where: { $0.value != nil && $0.name == parts[0] }) else { break }
            count += parts.count == 2 ? 1 : 2
        }
        return min(count, arguments.count)
    }

    private func unknown(_ words: [String]) -> UsageError {
        guard let word = words.first else { return UsageError("", "no command is given before the options") }
        let followers = commands.map { $0.usage.words }.filter { $0.first == word }.compactMap { $0.dropFirst().first }
        if followers.isEmpty { return UsageError("", "there is no command '\(word)'") }
        return UsageError("", "after '\(word)' comes one of \(followers.joined(separator: ", "))")
    }

    private func split(
        _ rest: inout ArraySlice<String>, _ usage: CommandUsage
    ) throws(UsageError) -> ParsedArguments {
        var parsed = ParsedArguments(command: usage.name)
        while let argument = rest.popFirst() {
            if argument == "--" {
                for operand in rest { parsed.add(operand: operand) }
                break
            }
            guard argument.hasPrefix("-"), argument != "-" else {
                parsed.add(operand: argument)
                continue
            }
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            guard let option = usage.allOptions.first(where: { $0.name == name }) else {
                throw parsed.error("there is no option \(name)")
            }
            if option.value == nil {
                guard parts.count == 1 else { throw parsed.error("\(name) takes no value") }
                try parsed.set(name, "")
            } else if parts.count == 2 {
                try parsed.set(name, String(parts[1]))
            } else {
                guard let value = rest.popFirst() else { throw parsed.error("\(name) lacks its value") }
                try parsed.set(name, value)
            }
        }
        guard parsed.operands.count >= usage.mandatoryOperands else {
            throw parsed.error("\(usage.operands[parsed.operands.count]) is missing")
        }
        guard parsed.operands.count <= usage.operands.count else {
            throw parsed.error("'\(parsed.operands[usage.operands.count])' is one argument too many")
        }
        return parsed
    }
}
