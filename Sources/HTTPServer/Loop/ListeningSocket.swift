import CMicroHTTPD
import Glibc

/// A non-blocking socket that has an address and may listen; closed when nobody refers to it any more.
final class ListeningSocket: Sendable {
    let descriptor: Int32
    let port: UInt16
    private let host: String

    /// Binds to the first address that the host stands for and that can be bound.
    init(host: String, port: UInt16) throws(HTTPServerError) {
        self.host = host
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_PASSIVE
        var found: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, String(port), &hints, &found)
        guard status == 0, let found else {
            throw HTTPServerError(
                .addressNotAvailable,
                "Cannot listen on \(host): \(String(cString: gai_strerror(status))). Give an address of this machine.")
        }
        defer { freeaddrinfo(found) }

        var failure: Int32 = 0
        var candidate: UnsafeMutablePointer<addrinfo>? = found
        while let address = candidate {
            switch Self.bind(to: address.pointee) {
            case .success(let bound):
                self.descriptor = bound
                self.port = Self.port(of: bound)
                return
            case .failure(let error): failure = failure == 0 ? error.number : failure
            }
            candidate = address.pointee.ai_next
        }
        throw Self.error(failure, host: host, port: port)
    }

    deinit { close(descriptor) }

    private struct SystemError: Error { let number: Int32 }

    /// How many connections wait to be accepted.
    private static let backlog: Int32 = 1024

    /// Lets clients connect; before, they are refused.
    func listen() throws(HTTPServerError) {
        guard Glibc.listen(descriptor, Self.backlog) == 0 else { throw Self.error(errno, host: host, port: port) }
    }

    private static func bind(to address: addrinfo) -> Result<Int32, SystemError> {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.ai_family, type, 0)
        guard descriptor >= 0 else { return .failure(SystemError(number: errno)) }
        var on: Int32 = 1
        var off: Int32 = 0
        let size = socklen_t(MemoryLayout<Int32>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, size)
        if address.ai_family == AF_INET6 {
            setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &off, size)
        }
        guard Glibc.bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 else {
            let number = errno
            close(descriptor)
            return .failure(SystemError(number: number))
        }
        return .success(descriptor)
    }

    private static func port(of descriptor: Int32) -> UInt16 {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutableBytes(of: &storage) { bytes in
            guard let base = bytes.baseAddress,
                getsockname(descriptor, base.assumingMemoryBound(to: sockaddr.self), &length) == 0
            else { return 0 }
            // Both families keep the port in the same place, behind the family.
            return UInt16(bigEndian: bytes.load(fromByteOffset: 2, as: UInt16.self))
        }
    }

    private static func error(_ number: Int32, host: String, port: UInt16) -> HTTPServerError {
        let place = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        let reason = String(cString: strerror(number))
        switch number {
        case EADDRINUSE:
            return HTTPServerError(
                .addressInUse,
                "Cannot listen on \(place): another program already does. Stop it, or choose another port.")
        case EADDRNOTAVAIL:
            return HTTPServerError(
                .addressNotAvailable, "Cannot listen on \(place): this machine does not have that address.")
        case EACCES:
            return HTTPServerError(
                .permissionDenied,
                "Cannot listen on \(place): this process may not use that port. Choose one from 1024 up.")
        default: return HTTPServerError(.systemFailure, "Cannot listen on \(place): \(reason).")
        }
    }
}
