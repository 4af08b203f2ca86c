/// Everything the program can be told to do, in the order in which help lists it.
enum Commands {
    static let all: [any Command.Type] = [
        ServeCommand.self, MigrateCommand.self, CatalogApplyCommand.self, CatalogShowCommand.self,
        KeysCreateCommand.self, KeysListCommand.self, KeysRevokeCommand.self, KeysRotateTokensCommand.self,
        ConsoleLinkCommand.self,
        EventsCommand.self,
        EntitlementsCommand.self, ExplainCommand.self, RebuildCommand.self, VerifyCommand.self, CheckpointCommand.self,
        BackupCommand.self,
        StatusCommand.self, DriftCommand.self, BackfillCommand.self, CheckCommand.self, ImportCommand.self,
        TestNotificationCommand.self, ExtendCommand.self, ConsumptionCommand.self, ExportCommand.self,
        ForgetCommand.self, WebhooksCreateCommand.self, WebhooksListCommand.self, WebhooksUpdateCommand.self,
        WebhooksRotateCommand.self, WebhooksPauseCommand.self, WebhooksResumeCommand.self, WebhooksTestCommand.self,
        WebhooksDeliveriesCommand.self, WebhooksRedeliverCommand.self, WebhooksDeleteCommand.self,
    ]
}

/// One subcommand: what it takes, and what it does.
protocol Command: Sendable {
    static var usage: CommandUsage { get }
    /// Whether it is run for what it prints on standard output.
    static var prints: Bool { get }

    /// Checks the arguments, which fit `usage` already.
    init(_ arguments: ParsedArguments) throws(UsageError)

    func run(_ context: CommandContext) async throws
}

extension Command {
    static var prints: Bool { true }
}

/// What a command is called and takes.
struct CommandUsage: Sendable {
    struct Option: Sendable {
        /// With its dashes.
        let name: String
        /// What stands for its value in help; `nil` for a switch.
        let value: String?
        let help: String

        init(_ name: String, _ value: String? = nil, _ help: String) {
            self.name = name
            self.value = value
            self.help = help
        }
    }

    /// One word or two.
    let words: [String]
    let summary: String
    /// One in brackets may be left out, and all after it.
    let operands: [String]
    let options: [Option]
    /// Further paragraphs of its help.
    let details: String

    init(
        _ words: String, _ summary: String, operands: [String] = [], options: [Option] = [], details: String = ""
    ) {
        self.words = words.split(separator: " ").map(String.init)
        self.summary = summary
        self.operands = operands
        self.options = options
        self.details = details
    }

    var mandatoryOperands: Int { operands.count { !$0.hasPrefix("[") } }
    var name: String { words.joined(separator: " ") }
    var allOptions: [Option] { options + Self.common }

    /// What every command takes.
    static let common: [Option] = [
        Option("--config", "FILE", "read the configuration from a JSON file"),
        Option("--database-url", "URL", "use this PostgreSQL instead of the embedded one"),
        Option("--data-dir", "DIR", "where the embedded PostgreSQL lives"),
        Option("--help", nil, "show this help"),
    ]

    /// An environment of the store.
    static let environment = Option("--environment", "E", "production (the default) or sandbox")
}

/// A command line that makes no sense; exit status 2.
struct UsageError: Error, CustomStringConvertible {
    let description: String

    /// `command` is the name of the one in question, or empty.
    init(_ command: String, _ problem: String) {
        let name = command.isEmpty ? "rightful" : "rightful \(command)"
        // A sentence of the API's goes on here.
        let problem = problem.hasSuffix(".") ? String(problem.dropLast()) : problem
        description = "\(problem); see `\(name) --help`"
    }
}
