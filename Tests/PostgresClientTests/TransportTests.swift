import Glibc
import Testing

@testable import PostgresClient

@Suite("How a server is reached")
struct TransportTests {
    @Test("only what leaves over a network without encryption is exposed")
    func exposed() {
        func bytes(_ text: String, _ family: Int32) -> [UInt8] {
            var address = [UInt8](repeating: 0, count: family == AF_INET ? 4 : 16)
            #expect(inet_pton(family, text, &address) == 1)
            return address
        }
        let table: [(address: String, family: Int32, path: Transport.Path)] = [
            ("127.0.0.1", AF_INET, .loopback), ("127.255.0.9", AF_INET, .loopback), ("::1", AF_INET6, .loopback),
            ("::ffff:127.0.0.1", AF_INET6, .loopback), ("10.0.0.7", AF_INET, .network(address: "10.0.0.7")),
            ("::ffff:10.0.0.7", AF_INET6, .network(address: "10.0.0.7")),
            ("128.0.0.1", AF_INET, .network(address: "128.0.0.1")), ("::2", AF_INET6, .network(address: "::2")),
            ("fe80::1", AF_INET6, .network(address: "fe80::1")), ("0.0.0.0", AF_INET, .network(address: "0.0.0.0")),
        ]
        for (address, family, path) in table {
            #expect(Transport.path(of: bytes(address, family), family) == path)
            #expect(Transport(path: path, encryption: nil).isExposed == (path != .loopback), "\(address)")
            #expect(!Transport(path: path, encryption: "TLSv1.3").isExposed, "\(address)")
        }
    }

    @Test("a Unix socket is seen as such")
    func socket() async throws {
        let connection = try await TestDatabase.connect()
        #expect(await connection.transport == Transport(path: .socket, encryption: nil))
        #expect(await !connection.transport.isExposed)
    }
}
