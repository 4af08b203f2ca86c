import EntitlementCore

// Small enumerations are stored as numbers: they stand in every row and in most index entries. The numbers are part of
// the schema and never change their meaning.

extension StoreEnvironment {
    /// What columns `environment` hold.
    var number: Int16 {
        switch self {
        case .production: 1
        case .sandbox: 2
        }
    }

    /// What `event_name.environment` holds for an event of `environment`: 0 for none, which means both.
    static func nameNumber(_ environment: StoreEnvironment?) -> Int16 { environment?.number ?? 0 }

    init(stored number: Int64) throws {
        switch number {
        case 1: self = .production
        case 2: self = .sandbox
        default: throw LedgerError(.corrupt, "a row names environment \(number); there are 1 and 2")
        }
    }
}

extension StoreEnvironment {
    /// Reads its name, as tables hold it that are not the log's.
    init(name: String) throws {
        guard let environment = StoreEnvironment(rawValue: name) else {
            throw LedgerError(.corrupt, "a row names the environment \(name)")
        }
        self = environment
    }
}

extension EventSource {
    /// What column `event.source` holds.
    var number: Int16 {
        switch self {
        case .notification: 1
        case .serverAPI: 2
        case .device: 3
        case .api: 4
        case .operatorCommand: 5
        case .stripeNotification: 6
        case .stripeAPI: 7
        }
    }

    init(stored number: Int64) throws {
        switch number {
        case 1: self = .notification
        case 2: self = .serverAPI
        case 3: self = .device
        case 4: self = .api
        case 5: self = .operatorCommand
        case 6: self = .stripeNotification
        case 7: self = .stripeAPI
        default: throw LedgerError(.corrupt, "a row names source \(number); there are 1 to 7")
        }
    }
}
