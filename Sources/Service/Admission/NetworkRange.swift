/// An IP address, or all that share its first bits.
package struct NetworkRange: Sendable, Hashable, CustomStringConvertible {
    private let bytes: [UInt8]
    private let prefixLength: Int
    package let description: String

    /// Reads `10.0.0.1`, `10.0.0.0/8`, `::1` or `fd00::/8`.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let address = IPAddress(parts[0]) else { return nil }
        let bytes = address.bytes
        var length = bytes.count * 8
        if parts.count == 2 {
            guard parts[1].utf8.allSatisfy({ (48...57).contains($0) }), let given = Int(parts[1]), given <= length
            else { return nil }
            length = given
        }
        self.bytes = bytes
        prefixLength = length
        description = text
    }

    /// Whether a numeric address lies in the range; `false` for what is no address.
    package func contains(_ address: String) -> Bool { IPAddress(address).map(contains) ?? false }

    func contains(_ address: IPAddress) -> Bool {
        let other = address.bytes
        guard other.count == bytes.count else { return false }
        let whole = prefixLength / 8
        guard bytes[..<whole] == other[..<whole] else { return false }
        let rest = prefixLength % 8
        guard rest > 0 else { return true }
        return bytes[whole] >> (8 - rest) == other[whole] >> (8 - rest)
    }
}
