import AppStorePayloads
import EntitlementCore

// Whether what the device knows of may be another person's: a backup, or a directory that was copied, brings their
// statements, and nothing in a signed purchase tells on whose device it lies.
extension DeviceLedger {
    /// How a purchase counts, by what server and store say of whose it is.
    enum Standing: Hashable, Sendable {
        /// As the customer's: the server gives it to them, or does not know it yet.
        case counts
        /// The server knows it, and does not give it to them: so it counts as long as the store confirms it.
        case countsWhileConfirmed
        /// As somebody else's: the server does not give it to the customer, and the store shows only other Apple
        /// accounts' purchases.
        case isOfOthers
    }

    /// How the transactions of one original transaction count.
    func standing(of originalTransactionID: String, _ transactions: [DeviceTransaction]) -> Standing {
        guard let memory, memory.isProven, !memory.tells(of: originalTransactionID),
            transactions.allSatisfy({ wasAnswered($0, before: memory) })
        else { return .counts }
        guard let accounts = book.accounts,
            transactions.allSatisfy({ transaction in
                isOfAnotherAccount(transaction)
                    && transaction.payload.appTransactionID.map { !accounts.contains($0) } ?? false
            })
        else { return .countsWhileConfirmed }
        return .isOfOthers
    }

    /// Whether the server had answered about a transaction, as it reads now, before it last said what a customer holds.
    private func wasAnswered(_ transaction: DeviceTransaction, before memory: ServerMemory) -> Bool {
        guard hasAnswered(transaction),
            let answered = self.memory(of: transaction)?.answered[transaction.payload.transactionID],
            answered.isLost != true
        else { return false }
        return answered.at.map { $0 <= memory.answer.at } ?? true
    }
}

extension ServerMemory {
    /// Whether the server's answer tells anything of an original transaction.
    fileprivate func tells(of originalTransactionID: String) -> Bool {
        facts.map { $0.originals[originalTransactionID] != nil }
            ?? answer.originalTransactionIDs.contains(originalTransactionID)
    }
}
