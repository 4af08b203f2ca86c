import EntitlementCore
import Ledger

/// Lets go of what of webhooks is too old to be kept, and erases former addresses and secrets, behind the service.
struct WebhookUpkeep: Sendable {
    let list: DeliveryList
    let endpoints: EndpointRegister
    let notices: EndpointNotices
    let intervals: WebhookDispatcher.Intervals
    let logger: Logger
    let now: @Sendable () -> Timestamp

    /// Works until the current task is cancelled.
    ///
    /// - Parameter watch: says when it fails.
    func run(_ watch: WorkWatch?) async {
        var time = BelievedTime(now())
        try? await Task.sleep(for: intervals.settle)
        while !Task.isCancelled {
            let instant = now()
            if !time.believes(instant) {
                logger.log(.warning, "the clock went ahead by itself: old deliveries of webhooks are kept for now")
            } else if let watch {
                await watch.watch(.webhookUpkeep) { try await letGo(at: instant) }
            } else {
                try? await letGo(at: instant)
            }
            try? await Task.sleep(for: intervals.prune)
        }
    }

    /// Each by itself: where one fails each time, the other is done all the same.
    private func letGo(at instant: Timestamp) async throws {
        var failure: (any Error)?
        do { try await prune(at: instant) } catch {
            failure = error
            logger.warn("old deliveries of webhooks cannot be let go of now", error)
        }
        do { try await endpoints.eraseFormer(now: instant) } catch {
            failure = failure ?? error
            logger.warn("former addresses and secrets of endpoints cannot be erased now", error)
        }
        if let failure { throw failure }
    }

    private func prune(at instant: Timestamp) async throws {
        var undelivered: [String: Int64] = [:]
        // Also where it goes no further: what was let go of is found by nobody again.
        defer { notices.tellUndelivered(undelivered) }
        var isMore = true
        while isMore {
            let pruning = try await list.prune(now: instant)
            undelivered.merge(pruning.undelivered, uniquingKeysWith: +)
            isMore = pruning.isMore
            try Task.checkCancellation()
        }
    }
}
