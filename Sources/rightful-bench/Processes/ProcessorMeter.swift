import Foundation
import Glibc

/// Who used the processors while something was measured.
struct ProcessorMeter {
    /// Processor time by user; what a benchmark costs rather than how long it took, which is worth comparing where
    /// other work shares the machine.
    struct Reading: Sendable {
        var service = Duration.zero
        var database = Duration.zero
        var load = Duration.zero
        /// The share of the machine that neither of them had, though somebody did; 0 on a machine of one's own.
        var others = 0.0
    }

    private let service: pid_t?
    private let postmaster: pid_t?
    private let start = ContinuousClock.now
    private let machine = ProcessStatistics.machineBusyTime()
    private let serviceStart: Duration
    private let databaseStart: Duration
    private let ownStart = ProcessStatistics.ownProcessorTime()

    init(service: pid_t?, postmaster: pid_t?) {
        self.service = service
        self.postmaster = postmaster
        serviceStart = service.map { ProcessStatistics.processorTime(of: $0) } ?? .zero
        databaseStart = postmaster.map { ProcessStatistics.processorTime(ofServer: $0) } ?? .zero
    }

    /// What was used since it was made; the load's own time as its programs reported it.
    func read(load: Duration) -> Reading {
        var reading = Reading()
        reading.load = load
        reading.service = (service.map { ProcessStatistics.processorTime(of: $0) } ?? .zero) - serviceStart
        reading.database = (postmaster.map { ProcessStatistics.processorTime(ofServer: $0) } ?? .zero) - databaseStart
        let busy = ProcessStatistics.machineBusyTime() - machine
        let known = reading.service + reading.database + load + (ProcessStatistics.ownProcessorTime() - ownStart)
        let capacity = start.duration(to: .now) * Machine.cores
        reading.others = max(0, (busy - known) / capacity)
        return reading
    }
}
