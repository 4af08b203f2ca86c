import AppStorePayloads

/// Whose purchases the device's store has shown when each of its parts was last read, and since.
///
/// The disk says nothing of that: before the next launch, or while the app runs, somebody else may sign in to the store. One
/// that shows nothing is not ready, or is signed in to an account that has bought nothing.
struct ShownPurchases: Sendable {
    private struct Shown: Sendable {
        /// The app transaction ids that purchases bear.
        var accounts: Set<String> = []
        /// The original transactions that bear none, as on systems of before.
        var unnamed: Set<String> = []

        init(_ transactions: [DeviceTransaction]) {
            for transaction in transactions {
                if let account = transaction.payload.appTransactionID {
                    accounts.insert(account)
                } else {
                    unnamed.insert(transaction.payload.originalTransactionID)
                }
            }
        }

        var isEmpty: Bool { accounts.isEmpty && unnamed.isEmpty }
    }

    /// What each part has shown last, with the number of that reading.
    private var parts: [StorePart: (number: Int, shown: Shown)] = [:]
    /// What came by itself, with the number of the last reading that had begun.
    private var delivered: [(begun: Int, shown: Shown)] = []

    /// A part of a reading has come.
    mutating func took(_ part: StorePart, of number: Int, showing transactions: [DeviceTransaction]) {
        guard number > parts[part]?.number ?? 0 else { return }
        parts[part] = (number, Shown(transactions))
        guard parts.count == StorePart.allCases.count, let oldest = parts.values.map(\.number).min() else { return }
        // A reading that begins later shows it, too, unless the account is another one.
        delivered.removeAll { $0.begun < oldest }
    }

    /// Something came by itself, such as a purchase or an update.
    ///
    /// - Parameter begun: the number of the last reading that had begun.
    mutating func took(deliveryOf transactions: [DeviceTransaction], begun: Int) {
        let shown = Shown(transactions)
        if !shown.isEmpty { delivered.append((begun, shown)) }
    }

    private var all: [Shown] { parts.values.map(\.shown) + delivered.map(\.shown) }

    var isEmpty: Bool { all.allSatisfy(\.isEmpty) }

    /// The Apple accounts that it shows purchases of, by their app transaction ids.
    var accounts: Set<String> { all.reduce(into: []) { $0.formUnion($1.accounts) } }

    /// Whether it shows an original transaction that does not say with which account it was bought.
    func showsUnnamed(_ originalTransactionID: String) -> Bool {
        all.contains { $0.unnamed.contains(originalTransactionID) }
    }
}
