/// Where a delivery stands.
package enum DeliveryState: String, Sendable, Hashable, CaseIterable {
    case waiting, delivered
    /// It was given up.
    case failed
    /// The customer was forgotten.
    case withdrawn

    /// What column `state` holds.
    ///
    /// Statements name it as a literal: an index of one state alone serves only those that say so in their text.
    var number: Int16 {
        switch self {
        case .waiting: 1
        case .delivered: 2
        case .failed: 3
        case .withdrawn: 4
        }
    }

    init(stored number: Int64) throws {
        guard let state = Self.allCases.first(where: { Int64($0.number) == number }) else {
            throw LedgerError(.corrupt, "a delivery has state \(number); there are 1 to \(Self.allCases.count)")
        }
        self = state
    }
}
