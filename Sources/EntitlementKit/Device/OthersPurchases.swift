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

    /// Whether an original transaction is of an Apple account that the store shows purchases of now.
    ///
    /// Then the store by itself charges nobody twice for it. For what is of another account this one would pay once more, also
    /// where it has bought nothing yet. Where the store has never shown anything on this device, it is taken to be signed in to
    /// the account that has this copy of the app.
    func isOfThisStore(_ originalTransactionID: String, showing shown: ShownPurchases) -> Bool {
        if shown.showsUnnamed(originalTransactionID) { return true }
        let hasNeverShown = shown.isEmpty && book.accounts == nil
        let here = Set(
            hasNeverShown ? [appCustomer].compactMap(\.self) : shown.accounts.compactMap(CustomerID.ofAppTransaction))
        let bearers = book.transactions(of: originalTransactionID).compactMap {
            $0.payload.appTransactionID.flatMap(CustomerID.ofAppTransaction)
        }
        if !here.isDisjoint(with: bearers) { return true }
        let numbers = here.compactMap { memory?.answer.identities[$0.value] }
        let told = memory?.facts?.originals[originalTransactionID]?.transactions ?? []
        return told.contains { $0.fact.appTransaction.map { numbers.contains($0.number) } ?? false }
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
