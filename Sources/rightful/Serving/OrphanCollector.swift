import EmbeddedPostgres

/// Collects what became a child of the service because its own parent was gone.
enum OrphanCollector {
    private static let interval = Duration.seconds(1)

    /// Looks again and again until the task is cancelled.
    static func run() async {
        while !Task.isCancelled {
            Orphans.collect()
            try? await Task.sleep(for: interval)
        }
    }
}
