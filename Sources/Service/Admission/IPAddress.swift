internal import Foundation

/// A numeric IP address; an IPv4 address written as IPv6 counts as IPv4.
struct IPAddress: Sendable, Hashable {
    /// 4 or 16, the high byte first.
    let bytes: [UInt8]

    /// Reads an address without its port; `nil` for what is none.
    init?(_ text: some StringProtocol) {
        let address = String(text)
        guard address.utf8.count <= Self.lengthLimit else { return nil }
        var buffer = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, address, &buffer) == 1 {
            bytes = Array(buffer.prefix(4))
            return
        }
        guard inet_pton(AF_INET6, address, &buffer) == 1 else { return nil }
        let mapped: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
        bytes = buffer.starts(with: mapped) ? Array(buffer.suffix(4)) : buffer
    }

    /// As long as an IPv6 address can be written.
    private static let lengthLimit = 45
}
