import CMicroHTTPD
import Glibc

// What libmicrohttpd calls, all of it on the event loop's thread, from within `MHDDaemon`'s methods. Plain functions in
// a file without global actor: a closure that inherited one would trap there.
//
// `context` is the `EventLoop`, which outlives its daemon. The per-connection and per-request pointers are retained in
// the callback that stores them and released in the one that ends them, each called once.

func handleConnection(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ stored: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ change: MHD_ConnectionNotificationCode
) {
    guard let loop: EventLoop = borrow(context), let stored else { return }
    if change == .CONNECTION_NOTIFY_STARTED {
        guard let connection else { return }
        let address = cmhd_client_address(connection)
        let client = ClientConnection(
            descriptor: cmhd_descriptor(connection), peer: PeerAddress(address),
            remoteAddress: numericAddress(address), trusts: loop.core.trusts, at: loop.now,
            deadline: loop.now + loop.core.configuration.requestDeadline)
        stored.pointee = Unmanaged.passRetained(client).toOpaque()
        loop.connectionOpened(client)
    } else if let pointer = stored.pointee {
        stored.pointee = nil
        loop.connectionClosed(Unmanaged<ClientConnection>.fromOpaque(pointer).takeRetainedValue())
    }
}

func handleRequestLine(
    _ context: UnsafeMutableRawPointer?, _ target: UnsafePointer<CChar>?, _ connection: OpaquePointer?
) -> UnsafeMutableRawPointer? {
    guard let loop: EventLoop = borrow(context), let connection, let target,
        let client: ClientConnection = borrow(cmhd_socket_context(connection))
    else { return nil }
    let bytes = UnsafeRawBufferPointer(start: target, count: strlen(target))
    let exchange = Exchange(loop: loop, client: client, target: Array(bytes))
    loop.exchangeBegan()
    exchange.examineRequestLine()
    return Unmanaged.passRetained(exchange).toOpaque()
}

func handleRequest(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ piece: UnsafePointer<CChar>?,
    _ pieceSize: UnsafeMutablePointer<Int>?, _ stored: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    guard let exchange: Exchange = borrow(stored?.pointee), let connection = MHDConnection(connection), let pieceSize,
        let method
    else { return .NO }
    if let piece, pieceSize.pointee > 0 {
        let bytes = UnsafeRawBufferPointer(start: piece, count: pieceSize.pointee)
        pieceSize.pointee = 0
        return exchange.receive(bytes) ? .YES : .NO
    }
    return exchange.proceed(connection, method: method) ? .YES : .NO
}

func handleCompletion(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ stored: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ reason: MHD_RequestTerminationCode
) {
    guard let stored, let pointer = stored.pointee else { return }
    stored.pointee = nil
    Unmanaged<Exchange>.fromOpaque(pointer).takeRetainedValue().end()
}

private func borrow<Object: AnyObject>(_ pointer: UnsafeMutableRawPointer?) -> Object? {
    pointer.map { Unmanaged<Object>.fromOpaque($0).takeUnretainedValue() }
}
