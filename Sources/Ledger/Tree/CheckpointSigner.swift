/// Makes signed checkpoints of the log as it is.
package struct CheckpointSigner: Sendable {
    private let tree: LogTree
    private let key: LogKey

    package init(tree: LogTree, key: LogKey) {
        self.tree = tree
        self.key = key
    }

    /// A checkpoint of everything committed by now, and the note that says so.
    package func sign() async throws -> (checkpoint: Checkpoint, note: String) {
        let (size, root) = try await tree.currentRoot()
        let checkpoint = Checkpoint(origin: key.name, size: size, root: root)
        do {
            return (checkpoint, try SignedNote(checkpoint.text, signedBy: key).note)
        } catch {
            throw LedgerError(.unavailable, "the checkpoint could not be signed: \(error)")
        }
    }
}
