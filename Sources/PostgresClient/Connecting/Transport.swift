private import CLibPQ
private import Glibc

/// How a session reaches its server, as libpq and the system say; what the URL asked for does not matter.
package struct Transport: Sendable, Hashable {
    package enum Path: Sendable, Hashable {
        /// A Unix socket.
        case socket
        /// The loopback interface.
        case loopback
        /// A network, or this machine's own address on one.
        case network(address: String)
    }

    package let path: Path
    /// What encrypts it, such as `TLSv1.3` or `GSSAPI`; `nil`: nothing does.
    package let encryption: String?

    /// Whether somebody on the way could read and change what is sent.
    package var isExposed: Bool {
        switch path {
        case .socket, .loopback: false
        case .network: encryption == nil
        }
    }

    init(path: Path, encryption: String?) {
        self.path = path
        self.encryption = encryption
    }

    init(of connection: OpaquePointer) {
        path = Self.path(of: PQsocket(connection))
        if PQsslInUse(connection) != 0 {
            encryption = PQsslAttribute(connection, "protocol").map { String(cString: $0) } ?? "TLS"
        } else {
            encryption = PQgssEncInUse(connection) != 0 ? "GSSAPI" : nil
        }
    }

    /// Asks the system who is at the other end.
    private static func path(of socket: Int32) -> Path {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let isKnown = withUnsafeMutableBytes(of: &storage) { bytes in
            bytes.baseAddress.map { getpeername(socket, $0.assumingMemoryBound(to: sockaddr.self), &length) == 0 }
                ?? false
        }
        guard isKnown else { return .network(address: "unknown") }
        return withUnsafeBytes(of: storage) { bytes in
            switch Int32(storage.ss_family) {
            case AF_UNIX: .socket
            // The address stands behind the family and the port, in IPv6 behind the flow as well.
            case AF_INET: path(of: Array(bytes[4..<8]), AF_INET)
            case AF_INET6: path(of: Array(bytes[8..<24]), AF_INET6)
            case _: .network(address: "unknown")
            }
        }
    }

    /// The path to an address of 4 or 16 bytes.
    static func path(of address: [UInt8], _ family: Int32) -> Path {
        let mapped: [UInt8] = Array(repeating: 0, count: 10) + [0xFF, 0xFF]
        if address.count == 16, address.starts(with: mapped) { return path(of: Array(address.dropFirst(12)), AF_INET) }
        let isLoopback = address.count == 4 ? address[0] == 127 : address == Array(repeating: 0, count: 15) + [1]
        if isLoopback { return .loopback }
        var text = [CChar](repeating: 0, count: 64)
        let isText = inet_ntop(family, address, &text, socklen_t(text.count)) != nil
        return .network(
            address: isText
                ? String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : "unknown")
    }
}
