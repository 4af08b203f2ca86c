import Synchronization

/// Where other threads leave what they bring.
final class ResponderMailbox: Sendable {
    private let deliveries = Mutex<[ResponderDelivery]>([])
    private let hasSome = Atomic(false)

    func put(_ delivery: ResponderDelivery) {
        deliveries.withLock { $0.append(delivery) }
        hasSome.store(true, ordering: .releasing)
    }

    func take() -> [ResponderDelivery] {
        guard hasSome.exchange(false, ordering: .acquiring) else { return [] }
        return deliveries.withLock { deliveries in
            defer { deliveries = [] }
            return deliveries
        }
    }
}
