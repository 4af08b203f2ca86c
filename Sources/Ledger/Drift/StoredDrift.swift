import EntitlementCore

// What table `drift` holds for these. The numbers never change their meaning; a new one needs another version of the
// projection only where rows are told apart anew.

extension DriftComparison {
    var number: Int16 {
        switch self {
        case .deviceLedger: 1
        case .storeLedger: 2
        }
    }

    init(stored number: Int64) throws { self = try find(number, "comparison", \.number) }
}

extension DriftClass {
    var number: Int16 {
        switch self {
        case .lateNotification: 1
        case .staleDevice: 2
        case .missedEvent: 3
        case .ownership: 4
        case .environment: 5
        case .unexplained: 6
        }
    }

    init(stored number: Int64) throws { self = try find(number, "class", \.number) }
}

extension DriftCause {
    var number: Int16 {
        switch self {
        case .notifiedLater: 1
        case .toldWhenAsked: 2
        case .postedLater: 3
        case .ownedLater: 4
        case .heldByAnother: 5
        case .inConflict: 6
        case .heldElsewhere: 7
        case .trueBefore: 8
        case .notHeardOf: 9
        case .confirmedByStore: 10
        case .learned: 11
        case .foundInHistory: 12
        case .foundWhenAsked: 13
        case .deliveredAfterAsking: 14
        case .none: 15
        case .tooMuchKnown: 16
        case .disputed: 17
        }
    }

    init(stored number: Int64) throws { self = try find(number, "cause", \.number) }
}

extension DriftEnd {
    var number: Int16 {
        switch self {
        case .notification: 1
        case .storeAnswer: 2
        case .device: 3
        case .ownership: 4
        case .agreement: 5
        case .newerReport: 6
        case .forgotten: 7
        }
    }

    init(stored number: Int64) throws { self = try find(number, "end", \.number) }
}

private func find<Value: CaseIterable>(
    _ number: Int64, _ name: String, _ stored: (Value) -> Int16
) throws -> Value {
    guard let value = Value.allCases.first(where: { Int64(stored($0)) == number }) else {
        throw LedgerError(.corrupt, "table drift holds the \(name) \(number), which this program does not know")
    }
    return value
}
