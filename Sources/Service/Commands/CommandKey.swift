import EntitlementCore
import HTTPServer
import Ledger

/// What makes a command and its repetition one.
struct CommandKey: Sendable, Hashable {
    /// The hash of what `Idempotency-Key` says, unique to the API key.
    let key: String
    /// Of the `Idempotency-Key`, the method, the path with its query, and the body; ids that are UUIDs in lower case, as they are
    /// compared.
    ///
    /// Whoever reads what is kept could find by trying ids whom a request named, if they knew the rest of it; what the sender
    /// thought of is kept nowhere.
    let requestHash: Digest
}

extension ServiceContext {
    /// What a command's `Idempotency-Key` says; `nil` without one.
    ///
    /// - Throws: `malformed_request` for a key that is empty or too long.
    func commandKey(of call: Call) throws(Problem) -> CommandKey? {
        guard let value = try call.value(of: .idempotencyKey) else { return nil }
        // Scalars, because a Character can be of any length and the key has to fit an index. Bytes that are no text would become
        // alike, and so would the keys.
        guard (1...255).contains(value.unicodeScalars.count),
            value.unicodeScalars.allSatisfy({ $0 != "\u{FFFD}" && $0.properties.generalCategory != .control })
        else {
            throw Problem(
                .malformedRequest, "An Idempotency-Key has 1 to 255 characters, none of them a control character.",
                param: "Idempotency-Key")
        }
        let target = call.request.target.utf8.inLowerCaseWhereUUIDs(between: Array("/?&=".utf8))
        let body = call.request.body.inLowerCaseWhereUUIDs(between: Array("\"".utf8))
        let request = Array("\(value)\n\(call.request.method) ".utf8) + target + Array("\n".utf8) + body
        return CommandKey(
            key: "\(call.key?.id ?? ""):\(sha256(Array(value.utf8)).hex)", requestHash: sha256(request))
    }

    /// The same for a command that becomes an event.
    ///
    /// - Parameter customer: whom it is about, if anybody; when they are forgotten, so is the key.
    func deduplication(of call: Call, about customer: CustomerID?) throws(Problem) -> Deduplication {
        guard let command = try commandKey(of: call) else { return .unique }
        return .command(key: command.key, requestHash: command.requestHash, about: customer)
    }
}

extension CommandKeys {
    /// Where a command was carried out before under its idempotency key.
    func position(of command: CommandKey?, now: Timestamp) async throws -> Int64? {
        guard let command else { return nil }
        return try await find(key: command.key, requestHash: command.requestHash, now: now)?.position
    }

    /// What was kept of the answer to a command; `nil` where it has no key, too.
    func answer(to command: CommandKey?, now: Timestamp) async throws -> [UInt8]? {
        guard let command else { return nil }
        return try await answer(to: command.key, command.requestHash, now: now)
    }

    /// Keeps what the answer to a command is made of, where it has a key; of two at once the first one's counts.
    ///
    /// - Parameters:
    ///   - answer: without a secret, and without anybody's identity, which could not be erased there.
    ///   - customer: whom it is about, if anybody; when they are forgotten, so is the key.
    /// - Returns: what is to be answered.
    func keep(
        _ answer: [UInt8], for command: CommandKey?, about customer: CustomerID?, now: Timestamp
    ) async throws -> [UInt8] {
        guard let command else { return answer }
        return try await keep(answer, for: command.key, command.requestHash, about: customer, now: now)
    }
}

extension Collection<UInt8> {
    /// The same bytes, those between two separators (or an end) in lower case where they are a UUID.
    fileprivate func inLowerCaseWhereUUIDs(between separators: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        for piece in split(omittingEmptySubsequences: false, whereSeparator: separators.contains) {
            let text = piece.count == 36 ? String(decoding: piece, as: UTF8.self) : ""
            bytes.append(contentsOf: CustomerID.isUUID(text) ? Array(text.lowercased().utf8) : Array(piece))
            if piece.endIndex < endIndex { bytes.append(self[piece.endIndex]) }
        }
        return bytes
    }
}
