import HTTPServer
import Testing

@testable import Service

@Suite("The client's address")
struct ClientAddressTests {
    private static func address(_ peer: String, _ forwarded: [String], trusting: [String]) throws -> ClientAddress {
        let headers = [("Host", "h")] + forwarded.map { ("x-forwarded-FOR", $0) }
        let head = HTTPRequestHead(method: "GET", target: "/", headers: headers, remoteAddress: peer)
        return ClientAddress(of: head, trusting: try trusting.map { try #require(NetworkRange($0)) })
    }

    private static func plain(_ text: String) throws -> ClientAddress { ClientAddress(try #require(IPAddress(text))) }

    private struct Row: Sendable, CustomStringConvertible {
        let peer: String
        let forwarded: [String]
        let client: String
        let description: String

        init(_ peer: String, _ forwarded: [String], _ client: String, _ description: String) {
            self.peer = peer
            self.forwarded = forwarded
            self.client = client
            self.description = description
        }
    }

    private static let rows = [
        Row("10.0.0.1", [], "10.0.0.1", "a trusted peer that says nothing speaks for itself"),
        Row("10.0.0.1", ["1.1.1.1"], "1.1.1.1", "a trusted peer is believed"),
        Row("8.8.8.8", ["1.1.1.1"], "8.8.8.8", "any other peer is not"),
        Row("8.8.8.8", ["10.0.0.1, 10.0.0.2"], "8.8.8.8", "not even when it names trusted ones"),
        Row("10.0.0.1", ["6.6.6.6, 1.1.1.1"], "1.1.1.1", "what the client wrote itself does not count"),
        Row("10.0.0.1", ["6.6.6.6, 1.1.1.1, 10.0.0.2 ,\t10.0.0.3"], "1.1.1.1", "trusted ones are skipped"),
        Row("10.0.0.1", ["6.6.6.6", "1.1.1.1,10.0.0.3", "10.0.0.2"], "1.1.1.1", "lines are joined in order"),
        Row("10.0.0.1", ["10.0.0.4, 10.0.0.3"], "10.0.0.4", "of trusted ones alone the leftmost counts"),
        Row("10.0.0.1", ["1.1.1.1, frog, 10.0.0.3"], "10.0.0.3", "garbage ends the walk"),
        Row("10.0.0.1", ["1.1.1.1, , 10.0.0.3"], "10.0.0.3", "and so does nothing"),
        Row("10.0.0.1", ["unknown"], "10.0.0.1", "garbage alone leaves the peer"),
        Row("10.0.0.1", [""], "10.0.0.1", "an empty line leaves the peer"),
        Row("10.0.0.1", ["1.1.1.1:4711"], "1.1.1.1", "a port is left out"),
        Row("10.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1", "of IPv6 too"),
        Row("10.0.0.1", ["1.1.1.1:http"], "10.0.0.1", "a port is a number"),
        Row("10.0.0.1", ["[2001:db8::1]x"], "10.0.0.1", "behind a bracket stands a port"),
        Row("fd00::1", ["2001:db8:0:1::9"], "2001:db8:0:1::1", "a proxy may speak IPv6"),
        Row("::ffff:10.0.0.1", ["::ffff:1.1.1.1"], "1.1.1.1", "IPv4 in IPv6 is IPv4"),
        Row("fe80::1%eth0", [], "fe80::2", "an interface's name is no part of an address"),
    ]

    @Test("is the peer's, or what trusted proxies say", arguments: rows)
    private func walk(row: Row) throws {
        let found = try Self.address(row.peer, row.forwarded, trusting: ["10.0.0.0/8", "fd00::/8"])
        #expect(found == (try Self.plain(row.client)))
    }

    @Test("without trusted proxies the header means nothing")
    func untrusting() throws {
        #expect(try Self.address("10.0.0.1", ["1.1.1.1"], trusting: []) == Self.plain("10.0.0.1"))
    }

    @Test("no more than the last 32 entries are looked at, over however many lines")
    func bounded() throws {
        let trusted = (0..<40).map { "10.0.1.\($0)" }
        let oneLine = [(["1.1.1.1"] + trusted).joined(separator: ", ")]
        let last = try Self.plain("10.0.1.8")
        #expect(try Self.address("10.0.0.1", oneLine, trusting: ["10.0.0.0/8"]) == last)
        #expect(try Self.address("10.0.0.1", ["1.1.1.1"] + trusted, trusting: ["10.0.0.0/8"]) == last)
        let fitting = [(["1.1.1.1"] + trusted.prefix(31)).joined(separator: ",")]
        #expect(try Self.address("10.0.0.1", fitting, trusting: ["10.0.0.0/8"]) == Self.plain("1.1.1.1"))
    }

    @Test("neighbours of one IPv6 subscriber are one client, those of another are not, and IPv4 ones never are")
    func subscribers() throws {
        #expect(try Self.plain("2001:db8:0:1::1") == Self.plain("2001:db8:0:1:ffff::2"))
        #expect(try Self.plain("2001:db8:0:1::1") != Self.plain("2001:db8:0:2::1"))
        #expect(try Self.plain("1.1.1.1") != Self.plain("1.1.1.2"))
        #expect(try Self.address("", ["1.1.1.1"], trusting: ["0.0.0.0/0"]) == .unknown)
    }
}
