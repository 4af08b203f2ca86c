import AppStorePayloads
import Dispatch
import EntitlementCore
import Foundation

// What the server refuses because nobody trusted has signed it.
//
// The store verifies what it shows. What it has not shown since the app was launched comes from the disk, and so from
// whoever could write that: it stops counting. What the store does show goes on counting, since the server may be the one
// that is mistaken about whom to trust.
extension EntitlementStore {
    /// Forgets a transaction that comes from the disk; returns false for one that the store has shown.
    func distrust(_ transaction: DeviceTransaction, _ detail: String) -> Bool {
        guard !shown.contains(transaction.jws) else { return false }
        ledger.book.remove(transaction)
        noteDistrust("what was kept of \(transaction.payload.transactionID): \(detail)")
        return true
    }

    /// The same of renewal information.
    func distrust(_ renewal: DeviceRenewal) {
        guard !shown.contains(renewal.jws) else { return }
        ledger.book.remove(renewal)
        noteDistrust("renewal information that was kept of \(renewal.payload.originalTransactionID)")
    }

    /// The same of the app's own purchase, as it was posted; the store is asked for it anew.
    func distrustApp(_ posted: String?) {
        guard let posted, posted == ledger.book.appTransaction?.jws, !shown.contains(posted) else { return }
        ledger.book.removeApp()
        noteDistrust("what was kept of the app's own purchase")
        askForApp(againAfter: 0)
    }

    private func noteDistrust(_ detail: String) {
        disk.note(.statements)
        disk.mustReplaceRows = true
        report(SyncEvent(kind: .unverified, transactionIDs: [], detail: detail))
    }
}

/// What the file of statements holds, as far as it counts.
struct KeptStatements: Sendable {
    let file: StatementFile
    let book: StatementBook
    /// How many statements the app's verifier did not let count.
    let refusedCount: Int

    /// Reads a file, and has each statement verified, where the app has a verifier.
    ///
    /// That takes a while, and may ask the system: so not on a thread that others wait for.
    static func read(_ data: Data, _ verifier: (any SignedStatementVerifier)?) async -> KeptStatements {
        let file = StatementFile(data)
        guard let verifier else { return KeptStatements(file: file, book: StatementBook(file), refusedCount: 0) }
        return await withCheckedContinuation { continuation in
            DispatchQueue.global(qos: .userInitiated).async {
                var refusedCount = 0
                let book = StatementBook(file) { jws in
                    let isSigned = verifier.isSignedByStore(jws)
                    if !isSigned { refusedCount += 1 }
                    return isSigned
                }
                continuation.resume(returning: KeptStatements(file: file, book: book, refusedCount: refusedCount))
            }
        }
    }
}
