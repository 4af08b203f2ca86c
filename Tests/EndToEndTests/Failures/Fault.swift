import Foundation
import SeededRandom

/// Something that goes wrong in a campaign of failures.
enum Fault: String, CaseIterable, Sendable {
    case killService = "service killed"
    case stopService = "service stopped and started"
    case freezeService = "service frozen"
    case killPostmaster = "postmaster killed"
    case killBackend = "backend killed"
    case freezePostmaster = "postmaster frozen"
    case freezeBackend = "backend frozen"
    case freezeDatabase = "whole PostgreSQL frozen"
    case fillDisk = "disk full"
    case breakOff = "requests broken off"
    case killClient = "client killed"

    /// Whether it happens to the service, and so not at the same time as another that does.
    var isOfService: Bool {
        switch self {
        case .killService, .stopService, .freezeService: true
        case .killPostmaster, .killBackend, .freezePostmaster, .freezeBackend, .freezeDatabase, .fillDisk, .breakOff,
            .killClient:
            false
        }
    }

    /// One fault, or one of the service together with one of something else.
    ///
    /// - Parameter round: each fault comes in its turn; chance decides what comes with it.
    static func draw(_ round: Int, of faults: [Fault], _ random: inout SplitMix64) -> [Fault] {
        let first = faults[round % faults.count]
        guard random.chance(30) else { return [first] }
        return [first, random.pick(faults.filter { $0.isOfService != first.isOfService })]
    }
}
