/// Which addresses are the public internet's: what anybody may be led to who can name an endpoint.
///
/// Source: IANA, "IPv4 Special-Purpose Address Registry" and "IPv6 Special-Purpose Address Registry".
enum PublicAddress {
    private static let special = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    ].compactMap { NetworkRange($0) }

    /// What is not global unicast (2000::/3), and what in it is not for everybody.
    private static let special6 = [
        "::/3", "4000::/2", "8000::/1", "2001::/23", "2001:db8::/32", "3fff::/20",
    ].compactMap { NetworkRange($0) }
    /// Each stands for an IPv4 address, which decides: after so many bytes.
    private static let embedding = [("64:ff9b::/96", 12), ("2002::/16", 2)].compactMap { text, offset in
        NetworkRange(text).map { ($0, offset) }
    }

    /// Whether an address of 4 or 16 bytes, the high byte first, is.
    static func contains(_ bytes: [UInt8]) -> Bool {
        // An IPv4 address written as IPv6 counts as IPv4.
        guard let address = IPAddress(bytes: bytes) else { return false }
        if address.bytes.count == 4 { return !special.contains { $0.contains(address) } }
        if let (_, offset) = embedding.first(where: { $0.0.contains(address) }) {
            return contains(Array(address.bytes[offset..<(offset + 4)]))
        }
        return !special6.contains { $0.contains(address) }
    }
}
