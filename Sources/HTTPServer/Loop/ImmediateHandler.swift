import CMicroHTTPD

/// Answers requests on the event loop's own thread, without waking another.
///
/// It is made on that thread and called only there, so it needs no locks; and it must never block, since everybody
/// waits. What it does not want goes the general way, to `HTTPServer`'s handler.
package protocol ImmediateHandler: AnyObject {
    /// Is offered a request whose head keeps the limits, and whose body, where it has one, is here whole.
    ///
    /// - Returns: whether it takes the request. It then answers the exchange, at once or in a later turn, or declines
    ///   it later; a request that was not taken must not be answered.
    func receive(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> Bool

    /// Comes after everything that arrived in a turn of the loop was received.
    func endOfTurn()

    /// The descriptor that the loop is to watch beside its own, if there is one; asked before each wait.
    var watched: (descriptor: Int32, awaitsWriting: Bool)? { get }

    /// Whether the watched descriptor will be ready within some tens of microseconds, so that it is better to look than
    /// to sleep; asked before each wait.
    var expectsSoon: Bool { get }

    /// The watched descriptor can be read, or written where that was awaited.
    func watchedIsReady()

    /// When the loop is to begin another turn at the latest; asked before each wait.
    var nextDeadline: ContinuousClock.Instant? { get }

    /// The server stops: every exchange held is to be declined, and nothing is to be taken any more.
    func stop()
}

/// A request as it lies in libmicrohttpd's memory; to be read before the call that lends it returns.
package struct ImmediateRequest: ~Copyable {
    /// The method as sent, except that `HEAD` is never offered.
    package let method: UnsafeBufferPointer<UInt8>
    /// Path and query as sent, percent-encoded.
    package let target: UnsafeBufferPointer<UInt8>
    /// Empty where there is none.
    package let body: UnsafeBufferPointer<UInt8>
    /// The head as the general handler is given it; `nil` for a request without a body, whose fields nobody has copied.
    package let head: HTTPRequestHead?
    /// When the turn began in which the request line was read.
    package let receivedAt: ContinuousClock.Instant
    let connection: MHDConnection

    /// How many lines a header field has, whatever the case of its name.
    package func count(of name: StaticString) -> Int { connection.count(of: name) }

    /// The first value of a header field, whatever the case of its name.
    package func header(_ name: StaticString) -> UnsafeBufferPointer<UInt8>? {
        var value: UnsafePointer<CChar>?
        var count = 0
        let found = name.withUTF8Buffer { name in
            name.withMemoryRebound(to: CChar.self) { name in
                MHD_lookup_connection_value_n(
                    connection.pointer, .HEADER_KIND, name.baseAddress, name.count, &value, &count)
            }
        }
        guard found == .YES, let value else { return nil }
        return HTTPFraming.trimmed(UnsafeRawBufferPointer(start: value, count: count)).assumingMemoryBound(
            to: UInt8.self)
    }
}
