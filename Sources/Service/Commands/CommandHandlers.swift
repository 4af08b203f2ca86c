import Ledger

/// Commands about customers: what is linked, transferred and granted, what that would change, and tokens for devices.
struct CommandHandlers: Sendable {
    let context: ServiceContext
    let commands: CommandRunner
    let tokens: CustomerTokens
}
