import EntitlementAPI
import EntitlementCore
import Glibc

extension CommandUsage {
    /// Why the store is asked or told something.
    static let reason = Option("--reason", "TEXT", "why, in your own words; mandatory with --send, kept in the log")
    /// Who has it asked or told.
    static let actor = Option("--actor", "NAME", "who orders it, kept in the log (the account that runs the command)")
}

extension ParsedArguments {
    /// Why something is sent to the store; `nil` where nothing is.
    func reasonToSend() throws(UsageError) -> String? {
        if let actor = value("--actor"), !Self.isPlain(actor, CommandLimits.actor) {
            throw error("--actor must be a text of 1 to \(CommandLimits.actor) bytes without control characters")
        }
        guard let reason = value("--reason") else {
            guard !has("--send") else { throw error("--send needs --reason: why, for whoever reads the log later") }
            return nil
        }
        guard Self.isPlain(reason, CommandLimits.reason) else {
            throw error("--reason must be a text of 1 to \(CommandLimits.reason) bytes without control characters")
        }
        return reason
    }

    private static func isPlain(_ text: String, _ limit: Int) -> Bool {
        (1...limit).contains(text.utf8.count)
            && text.unicodeScalars.allSatisfy { scalar in
                switch scalar.properties.generalCategory {
                // What is not seen may make the rest read as something else.
                case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned: false
                default: true
                }
            }
    }
}

extension CommandContext {
    /// Who orders what is sent, and why.
    func order(_ arguments: ParsedArguments, reason: String?) throws -> StoreRequestOrder {
        guard let reason else { throw CommandFailure(description: "nothing was sent: --reason is missing") }
        guard let actor = arguments.value("--actor") ?? accountName else {
            throw CommandFailure(
                description: "nothing was sent: the account that runs this has no name; --actor says who orders it")
        }
        return StoreRequestOrder(actor: actor, reason: reason)
    }

    /// The account of whoever runs the command, also where they became root for it.
    private var accountName: String? {
        if isRoot, let name = environment["SUDO_USER"], !name.isEmpty { return name }
        return getpwuid(getuid()).map { String(cString: $0.pointee.pw_name) }
    }
}
