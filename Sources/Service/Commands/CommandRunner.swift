import EntitlementCore
import HTTPServer
import Ledger

/// What a command leads to in the present state of the ledger.
enum CommandStep: Sendable {
    case append(EventDraft)
    /// The event at this position says so already.
    case answer(Int64)
}

/// Carries commands out, each once, however often it is sent.
struct CommandRunner: Sendable {
    let context: ServiceContext
    let writer: LedgerWriter
    let keys: CommandKeys

    /// How often a command is decided anew because another came first.
    private static let attempts = 5

    /// Carries a command out: decides, appends, answers; once, however often it is sent.
    ///
    /// Every answer is made from the log as of the command's position alone, so that a repetition is answered the same.
    ///
    /// - Parameters:
    ///   - decide: reads the ledger, and refuses by throwing.
    ///   - answer: makes the answer to the event at a position.
    func carryOut(
        _ call: Call, decide: () async throws -> CommandStep, answer: (Int64) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        // Before anything is decided: what was done already may well be refused now.
        if let position = try await positionBefore(call) { return try await answer(position) }
        for _ in 0..<Self.attempts {
            do {
                switch try await decide() {
                case .answer(let position): return try await answer(position)
                case .append(let draft): return try await answer(writer.append(draft).position)
                }
            } catch AppendRefusal.conflict {
                continue
            } catch let problem as Problem {
                // The same request, sent twice at once, may just have been carried out by the other.
                if let position = try await positionBefore(call) { return try await answer(position) }
                throw problem
            }
        }
        throw Problem.unavailable("Other commands about the same customers kept coming first; send it again.")
    }

    /// Carries out a command that becomes no event by itself, and keeps what it comes to where it is done; see ``KeyedCommand``.
    ///
    /// - Parameters:
    ///   - answer: makes the answer of what was kept; `nil` where that is not the end of it.
    ///   - body: does it; refuses by throwing.
    func carryOutOnce(
        _ call: Call, answer: ([UInt8]) throws -> HTTPResponse?, body: (KeyedCommand?) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let command = try context.commandKey(of: call)
        func answerBefore() async throws -> HTTPResponse? {
            try await keys.answer(to: command, now: context.now()).flatMap(answer)
        }
        // Before anything is looked at: what was done already may well be refused now.
        if let before = try await answerBefore() { return before }
        do {
            return try await body(
                command.map { KeyedCommand(key: $0.key, requestHash: $0.requestHash, now: context.now()) })
        } catch let problem as Problem {
            // The same request, sent twice at once, may just have been carried out by the other.
            if let before = try await answerBefore() { return before }
            throw problem
        }
    }

    /// The part of an answer to a command about no customer that could read differently later: it is made the first time, and kept for
    /// repetitions.
    ///
    /// - Parameter make: without a secret, and without anybody's identity, which could not be erased there.
    func kept(for call: Call, make: () async throws -> [UInt8]) async throws -> [UInt8] {
        let command = try context.commandKey(of: call)
        if let kept = try await keys.answer(to: command, now: context.now()) { return kept }
        return try await keys.keep(try await make(), for: command, about: nil, now: context.now())
    }

    /// Where the command was carried out before under its idempotency key.
    private func positionBefore(_ call: Call) async throws -> Int64? {
        try await keys.position(of: try context.commandKey(of: call), now: context.now())
    }
}
