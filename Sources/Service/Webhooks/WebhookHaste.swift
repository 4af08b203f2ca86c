import Ledger

/// Sees to it that nothing waits for an instant by a clock that was ahead: of the database's host, or of one that another has
/// taken over from.
struct WebhookHaste: Sendable {
    let register: DeliveryRegister
    let endpoints: EndpointRegister
    let interval: Duration
    let logger: Logger
    /// There is something to be sent.
    let wake: @Sendable () -> Void

    /// Works until the current task is cancelled.
    func run() async {
        while !Task.isCancelled {
            // Where the database is away others say so.
            if endpoints.count > 0, let hurried = try? await register.hurryAfterClockAhead(), !hurried.isEmpty {
                logger.log(
                    .warning, "the database's clock went back: what it had put off of webhooks is sent now",
                    [("endpoints", .number(Double(hurried.count)))])
                wake()
            }
            try? await Task.sleep(for: interval)
        }
    }
}
