/// Whether a request may send its body: decided when its head is there, so that nothing is held in memory for somebody
/// who will be refused anyway.
package enum BodyGate: Sendable {
    /// Where a body is held: in a memory that all share, or in one of its own for what must not be crowded out.
    package enum Memory: Sendable, CaseIterable {
        case shared
        case reserved
    }

    /// Let it come, into that memory.
    ///
    /// - Parameter owner: whose share of the memory it uses: requests with the same number count together.
    case open(Memory, owner: Int)
    /// Answer at once, and close the connection.
    case refuse(HTTPResponse)
    /// Ask off the event loop, while the connection sleeps: an answer refuses the request as above, `nil` lets it come.
    case ask(owner: Int, @Sendable () async -> HTTPResponse?)
}
