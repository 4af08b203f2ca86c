/// Whose purchases the device's store shows, in the course of its readings: the app transaction ids that they bear.
///
/// A store is signed in to one Apple account, and shows what that one has bought. One that is not ready shows nothing, or a
/// part. So only a reading that came to its end, and listed something as owned now, says of whom nothing is shown.
struct StoreAccounts: Sendable {
    /// The most readings that wait for their last part: a call may hang for good.
    static let limit = 8

    private struct Reading {
        var missing = Set(StorePart.allCases)
        var accounts: Set<String> = []
        var listsWhatIsOwned = false
    }

    private var readings: [Int: Reading] = [:]
    /// The last reading that came to its end.
    private var lastWhole = 0
    /// The last reading that had begun when something of an account came by itself.
    private var delivered: [String: Int] = [:]

    /// A part of a reading has come, and shows purchases of these accounts; returns all that the store shows purchases of,
    /// where that is known now.
    mutating func took(_ part: StorePart, of number: Int, showing accounts: Set<String>) -> Set<String>? {
        guard number > lastWhole else { return nil }
        var reading = readings[number] ?? Reading()
        reading.missing.remove(part)
        reading.accounts.formUnion(accounts)
        if part == .current, !accounts.isEmpty { reading.listsWhatIsOwned = true }
        readings[number] = reading
        guard reading.missing.isEmpty else {
            if readings.count > Self.limit, let oldest = readings.keys.min() { readings[oldest] = nil }
            return nil
        }
        lastWhole = number
        readings = readings.filter { $0.key > number }
        guard reading.listsWhatIsOwned else { return nil }
        // What came while it was under way may be newer than it.
        return reading.accounts.union(delivered.filter { $0.value >= number }.keys)
    }

    /// Something came by itself, such as a purchase or an update.
    ///
    /// - Parameter begun: the number of the last reading that had begun.
    mutating func took(deliveryOf accounts: Set<String>, begun: Int) {
        for account in accounts { delivered[account] = begun }
    }
}
