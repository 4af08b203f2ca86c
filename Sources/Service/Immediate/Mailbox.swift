import Synchronization

/// Where other threads leave what they bring to the event loop, until it looks.
///
/// Looking costs the loop one atomic exchange where nothing was left.
final class Mailbox<Message: Sendable>: Sendable {
    private let limit: Int
    private let messages = Mutex<[Message]>([])
    private let hasSome = Atomic(false)

    /// - Parameter limit: the most messages that wait; further ones are thrown away.
    init(limit: Int) { self.limit = limit }

    func put(_ message: Message) {
        let isKept = messages.withLock { messages in
            guard messages.count < limit else { return false }
            messages.append(message)
            return true
        }
        if isKept { hasSome.store(true, ordering: .releasing) }
    }

    func take() -> [Message] {
        guard hasSome.exchange(false, ordering: .acquiring) else { return [] }
        return messages.withLock { messages in
            defer { messages = [] }
            return messages
        }
    }
}
