import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension LogHandlers {
    /// `GET /v1/ledger/checkpoint`: how long the log is and what it holds, signed.
    func checkpoint(_ call: Call) async throws -> HTTPResponse {
        let (checkpoint, note) = try await CheckpointSigner(tree: reader.tree, key: requiredKey()).sign()
        return .text(note, headers: HTTPResponse.ledgerPosition(checkpoint.size) + [("Cache-Control", "no-store")])
    }

    /// `GET /.well-known/rightful-log-key`: what checks the signature of a checkpoint, for anybody.
    func publishKey(_ call: Call) async throws -> HTTPResponse {
        .text(
            try requiredKey().verifier.text + "\n", headers: [("Cache-Control", "public, max-age=\(Self.keyAge)")]
        )
    }

    /// How long a verifier may keep the key, in seconds.
    private static let keyAge = 300

    private func requiredKey() throws(Problem) -> LogKey {
        guard let key else {
            throw .unavailable("This service has no key to sign checkpoints with; its log says at start why.")
        }
        return key
    }

    /// `GET /v1/events/{position}/proof`.
    func inclusionProof(_ call: Call) async throws -> HTTPResponse {
        let position = try call.position()
        let head = try await reader.tree.end().size
        guard (1...max(1, head)).contains(position), head > 0, try await isShown(position, call) else {
            throw Problem(.notFound, "The log has no event at position \(position).", param: "position")
        }
        let size = try call.wholeNumber(.size) ?? head
        guard (position...head).contains(size),
            let proof = try await reader.tree.inclusionProof(of: position, size: size)
        else {
            throw Problem(
                .unprocessable, "size is a number of events from \(position), the event's position, to \(head).",
                param: "size")
        }
        return try .document(
            InclusionProofDocument(
                position: position, size: size, leafHash: proof.leaf.hex, hashes: proof.hashes.map(\.hex)),
            position: head)
    }

    /// Whether the sender may see the event at a position; another is no more proven than shown.
    private func isShown(_ position: Int64, _ call: Call) async throws -> Bool {
        if call.scope.isWhole { return true }
        return try await reader.event(at: position, only: call.scope) != nil
    }

    /// `GET /v1/ledger/consistency`.
    func consistencyProof(_ call: Call) async throws -> HTTPResponse {
        guard let from = try call.wholeNumber(.from) else {
            throw Problem(.malformedRequest, "from, a number of events, is missing.", param: "from")
        }
        let head = try await reader.tree.end().size
        let to = try call.wholeNumber(.to) ?? head
        guard to <= head else {
            throw Problem(.unprocessable, "to is at most \(head), the number of events in the log.", param: "to")
        }
        guard from >= 1, from <= to, let hashes = try await reader.tree.consistencyProof(from: from, to: to) else {
            throw Problem(.unprocessable, "from is a number of events from 1 to \(to).", param: "from")
        }
        return try .document(
            ConsistencyProofDocument(from: from, to: to, hashes: hashes.map(\.hex)), position: head)
    }
}

extension HTTPResponse {
    fileprivate static func text(_ text: String, headers: [(String, String)]) -> HTTPResponse {
        HTTPResponse(
            status: 200, headers: [("Content-Type", "text/plain; charset=utf-8")] + headers, body: Array(text.utf8))
    }
}
