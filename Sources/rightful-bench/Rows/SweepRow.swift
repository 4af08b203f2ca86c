import EntitlementCore
import Foundation
import StoreSimulator

/// The store's history of notifications read at the service's start, beside the same notifications as they arrive; and a
/// second start, for which nearly everything is known.
struct SweepRow: Row {
    /// The seed of this row's stories, so that no two notifications are the same.
    private static let seed: UInt64 = 600
    /// How far back the store's history goes.
    private static let window = 179 * Timestamp.millisecondsPerDay
    private static let notificationsPerPage = 20
    /// Half of the fifty that the store allows.
    private static let requestsPerSecond = 25.0
    private static let connections = 8

    func run(_ bench: Bench) throws {
        let perSecond = Self.requestsPerSecond * Double(Self.notificationsPerPage)
        let notifications = bench.workload.notifications(
            atLeast: Int(perSecond * max(4, bench.options.seconds)), seed: Self.seed)
        let signed = try bench.workload.sign(notifications)
        let store = try AskedStore(bench.workload, bench.directory)
        defer { store.stop() }
        let now = Workload.now().milliseconds
        for (number, (notification, payload)) in zip(notifications, signed).enumerated() {
            store.api.resend(
                notification, payload: payload,
                at: now - Self.window + Self.window * Int64(number) / Int64(notifications.count))
        }
        let arriving = try arriving(signed, bench)
        try bench.withRig("sweep", asks: store) { rig in
            let first = try sweep(rig, store)
            // More, where the history is so long that it is read in parts.
            guard first.read >= notifications.count else {
                throw BenchmarkFailure("the first sweep read \(first.read) of \(notifications.count) notifications")
            }
            let note = "\(notifications.count) notifications in \(first.requests) requests"
            bench.report.add(
                Figure(
                    "sweep", "first reading, beside arriving", unit: "notifications/s", first.sample,
                    limit: ("arriving over HTTP, \(Self.connections) connections", arriving)
                ).noting(note))
            bench.report.add(
                Figure("sweep", "first reading", unit: "notifications/s", first.sample)
                    .beside("the service's half of the store's requests", perSecond).judged(.ratio(atLeast: 0.9)))
            rig.stopService()
            let again = try sweep(rig, store)
            bench.report.add(
                Figure("sweep", "reading again, up to date", unit: "requests", value: Double(again.requests))
                    .beside("the first reading", Double(first.requests)).judged(.ratio(atMost: 0.1))
                    .noting("\(again.read) notifications, those of the overlap"))
        }
    }

    /// The same notifications as they arrive, in another ledger.
    private func arriving(_ signed: [String], _ bench: Bench) throws -> Sample {
        var sample: Sample?
        try bench.withRig("arriving") { rig in
            let file = bench.directory.path("arriving")
            try Requests.write(signed.map(Workload.delivery), to: file, files: 1)
            let service = try rig.serve()
            let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
            let (result, ending) = try rig.worker(
                "send", WorkerRequest.Send(port: service.port, file: file + "0", connections: Self.connections)
            ).result(WorkerResult.self, limit: .seconds(600))
            sample = Sample(result, ending, meter)
        }
        guard let sample else { throw BenchmarkFailure("nothing arrived") }
        return sample
    }

    /// What one start of the service read.
    private struct Sweep {
        let sample: Sample
        let read: Int
        let requests: Int
    }

    /// Starts the service and waits until it has read the history to its end.
    private func sweep(_ rig: Rig, _ store: AskedStore) throws -> Sweep {
        let completed = "SELECT count(*) FROM store_sweep WHERE completed_at IS NOT NULL AND window_from IS NULL"
        let asked = store.api.count(of: "notification_history")
        let before = try rig.query("SELECT coalesce(max(completed_at)::text, '') FROM store_sweep")
        let start = ContinuousClock.now
        let service = try rig.serve()
        let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
        let end = start + .seconds(600)
        while try rig.number(completed) == 0
            || rig.query("SELECT coalesce(max(completed_at)::text, '') FROM store_sweep") == before
        {
            guard ContinuousClock.now < end else { throw BenchmarkFailure("the sweep did not end within 600 s") }
            usleep(100_000)
        }
        let read = try rig.number("SELECT sum(read) FROM store_sweep")
        var sample = Sample(operations: Double(read), seconds: start.duration(to: .now) / .seconds(1))
        sample.reading = meter.read(load: .zero)
        return Sweep(sample: sample, read: read, requests: store.api.count(of: "notification_history") - asked)
    }
}
