import Foundation

/// Signed notifications from the socket to the answer after their commit, beside bare verification on all cores; and
/// what they take on disk, beside the bytes that came.
struct NotificationsRow: Row {
    /// The seeds of this row's stories, so that no two notifications are the same.
    private static let firstSeed: UInt64 = 100
    /// Of one notification: its own, the transaction's and the renewal information's.
    private static let signatures = 3.0

    func run(_ bench: Bench) throws {
        try bench.withRig("notifications") { rig in
            let service = try rig.serve()
            let positionBefore = try rig.position()
            let bytesBefore = try rig.bytesOnDisk()
            var seed = Self.firstSeed
            var bodyBytes = 0.0
            for connections in bench.options.connections {
                var verifications: [OpenSSLSpeed.Result] = []
                var samples: [Sample] = []
                for _ in 0..<bench.options.rounds {
                    seed += 1
                    let verification = try OpenSSLSpeed(directory: bench.directory).verify(
                        seconds: bench.roundSeconds / 2)
                    verifications.append(verification)
                    // No service takes in more than can be verified.
                    let supply = try prepare(
                        bench, seed: seed, connections: connections,
                        count: Int(verification.capacity / Self.signatures * bench.roundSeconds * 1.2))
                    bodyBytes = supply.bodyBytes
                    let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
                    samples.append(
                        Sample(
                            try bench.wrk.run(
                                .requestsOnce, [supply.file], connections: connections, seconds: bench.roundSeconds,
                                port: service.port), meter))
                }
                let figure = Self.figure(connections, .joined(samples), verifications)
                bench.report.add(connections == 64 ? figure.judged(.ratio(atLeast: 0.45)) : figure)
            }
            let count = Double(try rig.position() - positionBefore)
            let stored = Double(try rig.bytesOnDisk() - bytesBefore) / count
            bench.report.add(
                Figure("notifications", "bytes on disk", unit: "bytes each", value: stored)
                    .beside("bytes received, as request bodies", bodyBytes).judged(.ratio(atMost: 0.6))
                    .noting("\(Int(count)) notifications"))
            if let memory = service.peakMemory {
                bench.report.add(
                    Figure(
                        "notifications", "peak memory of the service", unit: "MiB",
                        value: Double(memory) / Double(1 << 20)))
            }
        }
    }

    /// What was taken in, beside what could be verified.
    private static func figure(_ connections: Int, _ sample: Sample, _ verifications: [OpenSSLSpeed.Result]) -> Figure {
        func mean(_ values: [Double]) -> Double { values.reduce(0, +) / Double(values.count) }
        var figure = Figure("notifications", "\(connections) connections", unit: "notifications/s", sample)
            .beside(
                "P-256 verifications of openssl speed on all cores / 3",
                mean(verifications.map(\.perSecond)) / signatures
            )
            .placed(connections: connections)
        let bare = mean(verifications.map(\.processorMicroseconds)) * signatures
        figure.ratioOfProcessorTime = sample.processorTime.map { bare / $0.total }
        return figure
    }

    /// Signs notifications and writes them where each thread of `wrk` finds its own.
    private func prepare(
        _ bench: Bench, seed: UInt64, connections: Int, count: Int
    ) throws -> (file: String, bodyBytes: Double) {
        let signed = try bench.workload.sign(bench.workload.notifications(atLeast: max(500, count), seed: seed))
        let file = bench.directory.path("signed")
        try Requests.write(
            signed.map(Workload.delivery), to: file, files: Wrk.threads(connections: connections))
        let bytes = signed.reduce(0) { $0 + Workload.body($1).count }
        return (file, Double(bytes) / Double(signed.count))
    }
}
