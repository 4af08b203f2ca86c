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
            self.init(bytes: Array(buffer.prefix(4)))
            return
        }
        guard inet_pton(AF_INET6, address, &buffer) == 1 else { return nil }
        self.init(bytes: buffer)
    }

    /// An address of 4 or 16 bytes, the high byte first; `nil` for any other number.
    init?(bytes: [UInt8]) {
        switch bytes.count {
        case 4: self.bytes = bytes
        case 16: self.bytes = bytes.starts(with: Self.mapped) ? Array(bytes.suffix(4)) : bytes
        default: return nil
        }
    }

    /// How an IPv4 address begins that is written as IPv6.
    private static let mapped: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]

    /// As long as an IPv6 address can be written.
    private static let lengthLimit = 45
}
