import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// One installation under load, to which faults happen.
struct FailureStage: Sendable {
    /// The longest until everything is answered again after a fault is over.
    static let recoveryLimit = Duration.seconds(60)

    let installation: Installation
    let fleet: InstanceFleet
    let delivery: StoreDelivery
    let probe: HealthProbe
    let disk: SmallDisk?
    let key: String
    let seed: UInt64

    /// The faults that are possible here: a disk can be filled by whoever may mount one.
    var faults: [Fault] { Fault.allCases.filter { $0 != .fillDisk || disk != nil } }

    static func make(seed: UInt64) async throws -> FailureStage {
        let installation = try await Installation(isFresh: true)
        try FileManager.default.createDirectory(at: installation.dataDirectory, withIntermediateDirectories: true)
        let disk = SmallDisk(mountedOver: installation.dataDirectory)
        do {
            try await InstalledCluster.shared.copy(into: installation.dataDirectory)
            let key = try await installation.adminKey()
            let fleet = try await InstanceFleet.start(1, on: installation)
            let life = StoreLife.random(seed: seed, world: installation.world, customers: 20)
            let probe = HealthProbe()
            probe.expect(fleet.service(0).url)
            return FailureStage(
                installation: installation, fleet: fleet,
                delivery: try StoreDelivery(life, to: fleet, seed: seed), probe: probe, disk: disk, key: key,
                seed: seed)
        } catch {
            disk?.unmount()
            throw error
        }
    }

    /// Ends everything that is left, and removes it.
    func remove() {
        fleet.signalAll(SIGCONT)
        fleet.signalAll(SIGKILL)
        if let processes = ServerProcesses(of: installation) {
            for id in processes.children + [processes.postmaster] { kill(id, SIGCONT) }
            kill(processes.postmaster, SIGQUIT)
        }
        disk?.unmount()
        installation.remove()
    }

    /// Lets a fault happen, to its end.
    ///
    /// - Returns: whether it did: there is no backend to be killed while PostgreSQL starts.
    func inflict(_ fault: Fault, _ random: SplitMix64) async throws -> Bool {
        var random = random
        switch fault {
        case .killService: try await replaceService(after: SIGKILL)
        case .stopService: try await replaceService(after: SIGTERM)
        case .freezeService:
            probe.expect(nil)
            fleet.service(0).signal(SIGSTOP)
            try? await Task.sleep(for: .milliseconds(random.number(in: 100...4000)))
            fleet.service(0).signal(SIGCONT)
            probe.expect(fleet.service(0).url)
        case .killPostmaster:
            guard let processes = ServerProcesses(of: installation) else { return false }
            kill(processes.postmaster, SIGKILL)
        case .killBackend:
            guard let processes = ServerProcesses(of: installation), !processes.children.isEmpty else { return false }
            kill(random.pick(processes.children), SIGKILL)
        case .freezePostmaster:
            guard let processes = ServerProcesses(of: installation) else { return false }
            await Self.freeze([processes.postmaster], .milliseconds(random.number(in: 100...5000)))
        case .freezeBackend:
            guard let processes = ServerProcesses(of: installation), !processes.backends.isEmpty else {
                return false
            }
            await Self.freeze([random.pick(processes.backends)], .milliseconds(random.number(in: 100...14_000)))
        case .freezeDatabase:
            guard let processes = ServerProcesses(of: installation) else { return false }
            await Self.freeze(
                processes.children + [processes.postmaster], .milliseconds(random.number(in: 100...14_000)))
        case .fillDisk:
            disk?.fill()
            try? await Task.sleep(for: .milliseconds(random.number(in: 500...8000)))
            disk?.free()
        case .breakOff: try await delivery.breakOff(30)
        case .killClient: for _ in 0..<3 { try await delivery.killClient() }
        }
        return true
    }

    private static func freeze(_ ids: [pid_t], _ duration: Duration) async {
        for id in ids { kill(id, SIGSTOP) }
        try? await Task.sleep(for: duration)
        for id in ids { kill(id, SIGCONT) }
    }

    private func replaceService(after signal: Int32) async throws {
        probe.expect(nil)
        let status = try await fleet.replace(0, after: signal)
        if signal == SIGTERM { #expect(status == 0, "seed \(seed): the service stopped with status \(status)") }
        probe.expect(fleet.service(0).url)
    }

    /// Waits until a write and reads are answered at the first attempt, and go on to be for half a second; returns how long
    /// it took until they were.
    func recover() async throws -> Duration {
        let start = ContinuousClock.now
        // Since when everything was answered; who was killed a moment ago may not have been missed yet.
        var since: ContinuousClock.Instant?
        var last = "nothing was asked"
        while ContinuousClock.now - start < Self.recoveryLimit {
            let client = HTTPClient(fleet.service(0).url, key: key, attempts: 1)
            let grant = Data("{\"entitlement\":\"recovered\",\"reason\":\"test\"}".utf8)
            let requests: [(method: String, path: String, body: [UInt8]?)] = [
                ("POST", "/v1/customers/recovered/actions/grant", Array(grant)),
                ("GET", "/v1/customers/recovered/entitlements", nil), ("GET", "/readyz", nil),
            ]
            var statuses: [Int] = []
            for request in requests {
                statuses.append((try? await client.send(request.method, request.path, body: request.body))?.status ?? 0)
            }
            since = statuses.allSatisfy { $0 == 200 } ? since ?? .now : nil
            if let since, ContinuousClock.now - since > .milliseconds(500) { return since - start }
            last = "\(statuses)"
            try await Task.sleep(for: .milliseconds(100))
        }
        throw RawSocket.Failure(
            description: "seed \(seed): not recovered after \(Self.recoveryLimit), statuses \(last); the log ends: "
                + String(fleet.service(0).logText.suffix(2000)))
    }
}
