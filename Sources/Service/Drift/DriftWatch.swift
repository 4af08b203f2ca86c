package import Ledger

/// Tells differences apart behind the service, and shows their numbers in the metrics.
///
/// Any number of processes may do this at once.
package struct DriftWatch: Sendable {
    private let projector: DriftProjector
    private let register: DriftRegister
    private let metrics: Metrics
    private let watch: WorkWatch?
    private let pause: Duration

    /// - Parameters:
    ///   - watch: says when it fails.
    ///   - pause: between looks at what was appended.
    package init(
        projector: DriftProjector, register: DriftRegister, metrics: Metrics, watch: WorkWatch?,
        pause: Duration = .seconds(1)
    ) {
        self.projector = projector
        self.register = register
        self.metrics = metrics
        self.watch = watch
        self.pause = pause
    }

    /// Works until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled, await !watched({ try await projector.restore() }) { try? await Task.sleep(for: pause) }
        while !Task.isCancelled {
            _ = await watched { try await look() }
            try? await Task.sleep(for: pause)
        }
    }

    /// Returns whether it succeeded.
    private func watched(_ work: @Sendable () async throws -> Void) async -> Bool {
        if let watch { await watch.watch(.drift, work) != nil } else { (try? await work()) != nil }
    }

    /// Goes through what was appended, and counts.
    package func look() async throws {
        try await projector.catchUp()
        metrics.note(try await register.counts())
    }
}
