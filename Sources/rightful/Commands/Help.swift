import EntitlementCore

/// The program's version.
enum Version {
    static let number = "0.1.0"
    static let line = "rightful \(number) (fold version \(OriginalState.foldVersion))\n"
}

/// The pages of `--help`.
enum Help {
    static func overview(_ commands: [any Command.Type]) -> String {
        let rows = commands.map { [synopsis($0.usage), $0.usage.summary] }
        return """
            rightful: a self-hosted entitlement ledger for apps that sell through StoreKit 2.

            Usage: rightful COMMAND [OPTIONS]

            \(columns(rows))

            Every command takes:
            \(columns(CommandUsage.common.map { [label($0), $0.help] }))

            `rightful COMMAND --help` says more; `rightful --version` shows the version.
            Exit status: 0 done, 1 failed (one line on standard error says why), 2 wrong usage.

            """
    }

    static func page(_ usage: CommandUsage) -> String {
        var text = "Usage: rightful \(synopsis(usage)) [OPTIONS]\n\n\(usage.summary)\n"
        if !usage.details.isEmpty { text += "\n\(usage.details)\n" }
        return text + "\n" + columns(usage.allOptions.map { [label($0), $0.help] }) + "\n"
    }

    private static func synopsis(_ usage: CommandUsage) -> String {
        (usage.words + usage.operands).joined(separator: " ")
    }

    private static func label(_ option: CommandUsage.Option) -> String {
        [option.name, option.value].compactMap(\.self).joined(separator: " ")
    }

    private static func columns(_ rows: [[String]]) -> String {
        TextTable(rows).lines.map { "  " + $0 }.joined(separator: "\n")
    }
}
