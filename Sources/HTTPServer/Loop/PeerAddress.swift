import CMicroHTTPD
import Glibc

/// Which host a connection comes from, as far as its address says: an IPv4 address, or the first 64 bits of an IPv6 one,
/// since that much is given to one subscriber.
struct PeerAddress: Hashable {
    private let family: UInt16
    private let bits: UInt64

    init(_ address: UnsafePointer<sockaddr>?) {
        guard let address else {
            (family, bits) = (0, 0)
            return
        }
        let raw = UnsafeRawPointer(address)
        switch address.pointee.sa_family {
        case sa_family_t(AF_INET):
            // Behind the family and the port.
            (family, bits) = (4, UInt64(raw.loadUnaligned(fromByteOffset: 4, as: UInt32.self)))
        case sa_family_t(AF_INET6):
            // Behind the family, the port and the flow.
            let high = raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
            let prefix = raw.loadUnaligned(fromByteOffset: 16, as: UInt32.self)
            if high == 0, prefix == UInt32(0x0000_FFFF).bigEndian {
                (family, bits) = (4, UInt64(raw.loadUnaligned(fromByteOffset: 20, as: UInt32.self)))
            } else {
                (family, bits) = (6, high)
            }
        default: (family, bits) = (0, 0)
        }
    }
}

/// The numeric text of a socket's peer, without its port; an IPv4 address mapped into IPv6 reads as IPv4.
func numericAddress(_ address: UnsafePointer<sockaddr>?) -> String {
    guard let address else { return "" }
    let length =
        address.pointee.sa_family == sa_family_t(AF_INET6)
        ? MemoryLayout<sockaddr_in6>.size : MemoryLayout<sockaddr_in>.size
    let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { buffer -> String in
        guard let base = buffer.baseAddress,
            getnameinfo(address, socklen_t(length), base, socklen_t(buffer.count), nil, 0, NI_NUMERICHOST) == 0
        else { return "" }
        return String(cString: base)
    }
    let mapped = "::ffff:"
    return text.hasPrefix(mapped) && text.contains(".") ? String(text.dropFirst(mapped.count)) : text
}
