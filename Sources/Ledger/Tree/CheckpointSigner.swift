package import EntitlementCore

/// Makes signed checkpoints of the log as it is.
package struct CheckpointSigner: Sendable {
    private let tree: LogTree
    private let key: LogKey

    package init(tree: LogTree, key: LogKey) {
        self.tree = tree
        self.key = key
    }

    /// What checks the signatures.
    package var verifier: LogVerifier { key.verifier }

    /// The root over the first `size` events; `nil` where the log is shorter.
    package func root(size: Int64) async throws -> Digest? { try await tree.root(size: size) }

    /// A checkpoint of everything committed by now, and the note that says so.
    ///
    /// - Parameter extensions: further lines of the note, which are signed along.
    package func sign(extensions: [String] = []) async throws -> (checkpoint: Checkpoint, note: String) {
        let (size, root) = try await tree.currentRoot()
        let checkpoint = Checkpoint(origin: key.name, size: size, root: root)
        let lines = extensions.map { $0 + "\n" }.joined()
        do {
            return (checkpoint, try SignedNote(checkpoint.text + lines, signedBy: key).note)
        } catch {
            throw LedgerError(.unavailable, "the checkpoint could not be signed: \(error)")
        }
    }
}
