import CMicroHTTPD
import Glibc

// What libmicrohttpd calls, on its own threads. Plain functions in a file without global actor: a closure that
// inherited one would trap there.
//
// `context` is the `ServerCore`, retained until the daemon has stopped. The per-connection and per-request pointers
// are retained in the callback that stores them and released in the one that ends them, each called once.

func handleConnection(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ stored: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ change: MHD_ConnectionNotificationCode
) {
    guard let server: ServerCore = borrow(context), let stored else { return }
    if change == .CONNECTION_NOTIFY_STARTED {
        guard let connection else { return }
        let client = ClientConnection(
            descriptor: cmhd_descriptor(connection), remoteAddress: numericAddress(cmhd_client_address(connection)),
            deadline: .now + server.configuration.requestDeadline)
        stored.pointee = Unmanaged.passRetained(client).toOpaque()
        server.connectionOpened(client)
    } else if let pointer = stored.pointee {
        stored.pointee = nil
        server.connectionClosed(Unmanaged<ClientConnection>.fromOpaque(pointer).takeRetainedValue())
    }
}

func handleRequestLine(
    _ context: UnsafeMutableRawPointer?, _ target: UnsafePointer<CChar>?, _ connection: OpaquePointer?
) -> UnsafeMutableRawPointer? {
    guard let server: ServerCore = borrow(context), let connection,
        let client: ClientConnection = borrow(cmhd_socket_context(connection))
    else { return nil }
    let exchange = Exchange(server: server, client: client, target: target.map { String(cString: $0) } ?? "")
    server.exchangeBegan()
    exchange.examineRequestLine()
    return Unmanaged.passRetained(exchange).toOpaque()
}

func handleRequest(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ piece: UnsafePointer<CChar>?,
    _ pieceSize: UnsafeMutablePointer<Int>?, _ stored: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    guard let exchange: Exchange = borrow(stored?.pointee), let connection = MHDConnection(connection), let pieceSize
    else { return .NO }
    if let piece, pieceSize.pointee > 0 {
        let bytes = UnsafeRawBufferPointer(start: piece, count: pieceSize.pointee)
        pieceSize.pointee = 0
        return exchange.receive(bytes) ? .YES : .NO
    }
    return exchange.proceed(connection, method: method.map { String(cString: $0) } ?? "") ? .YES : .NO
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
