import HTTPServer

/// Who a request comes from, as far as the network says: one IPv4 address, or the 64 leading bits of an IPv6 one, which
/// is what one subscriber is given.
enum ClientAddress: Sendable, Hashable {
    case ipv4(UInt32)
    case ipv6(UInt64)
    /// A peer without an IP address.
    case unknown

    /// The most entries of `X-Forwarded-For` looked at, from the last one on.
    static let entryLimit = 32

    init(_ address: IPAddress) {
        if address.bytes.count == 4 {
            self = .ipv4(address.bytes.reduce(0) { $0 << 8 | UInt32($1) })
        } else {
            self = .ipv6(address.bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
        }
    }

    /// The client of a request.
    ///
    /// Each proxy appends its own peer to `X-Forwarded-For`. So the last entry is believed if the peer is trusted, the
    /// one before it if the last entry is trusted too, and so on; anybody may have written the entries before that.
    init(of head: HTTPRequestHead, trusting proxies: [NetworkRange]) {
        // The name of an interface may follow a neighbour's address, and is no part of it.
        guard var client = IPAddress(head.remoteAddress.prefix { $0 != "%" }) else {
            self = .unknown
            return
        }
        if !proxies.isEmpty {
            for entry in Self.lastEntries(head.headerValues("X-Forwarded-For")) {
                guard proxies.contains(where: { $0.contains(client) }), let next = Self.address(entry) else { break }
                client = next
            }
        }
        self.init(client)
    }

    /// The last entries of all lines, the very last first.
    private static func lastEntries(_ lines: [String]) -> [Substring] {
        var entries: [Substring] = []
        for line in lines.reversed() {
            var rest = line[...]
            while entries.count < entryLimit {
                let comma = rest.utf8.lastIndex(of: UInt8(ascii: ","))
                entries.append(comma.map { rest[rest.utf8.index(after: $0)...] } ?? rest)
                guard let comma else { break }
                rest = rest[..<comma]
            }
        }
        return entries
    }

    /// The address of an entry, which some proxies write with a port.
    private static func address(_ entry: Substring) -> IPAddress? {
        var text = entry.drop { $0 == " " || $0 == "\t" }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            guard isPort(text[text.index(after: end)...]) else { return nil }
            return IPAddress(text[..<end].dropFirst())
        }
        if let colon = text.firstIndex(of: ":"), colon == text.lastIndex(of: ":") {
            guard isPort(text[colon...]) else { return nil }
            text = text[..<colon]
        }
        return IPAddress(text)
    }

    /// Whether it is nothing, or a colon and a number.
    private static func isPort(_ text: Substring) -> Bool {
        guard !text.isEmpty else { return true }
        return text.hasPrefix(":") && UInt16(text.dropFirst()) != nil
    }
}
