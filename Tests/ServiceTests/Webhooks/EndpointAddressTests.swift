import EntitlementCore
import Foundation
import OpenSSLCrypto
import Testing

@testable import Service

@Suite("Webhooks: addresses and retries")
struct EndpointAddressTests {
    @Test(
        "an address of the public internet is spoken to",
        arguments: [
            "8.8.8.8", "1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1",
        ])
    func allowed(text: String) throws {
        #expect(PublicAddress.contains(try #require(IPAddress(text)).bytes))
    }

    @Test(
        "an address of a private network, of the machine itself or of no network is not, however it is written",
        arguments: [
            "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
            "169.254.169.254", "100.64.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::",
            "fe80::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
            "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:c0a8:101::1", "::127.0.0.1", "100::1",
        ])
    func refused(text: String) throws {
        #expect(!PublicAddress.contains(try #require(IPAddress(text)).bytes))
    }

    @Test("what is no address of 4 or 16 bytes is refused")
    func oddLengths() {
        for count in [0, 3, 5, 15, 17] { #expect(!PublicAddress.contains(Array(repeating: 8, count: count))) }
    }

    @Test(
        "an endpoint's address is refused with what is wrong with it",
        arguments: [
            ("", "bytes"), ("example.com/hook", "address of 1 to"), ("ftp://example.com/", "begins with https"),
            ("http://example.com/", "begins with https"), ("https://user:secret@example.com/", "no user"),
            ("https://example.com/#top", "no fragment"), ("https://127.0.0.1/hook", "private address"),
            ("https://[::1]/hook", "private address"), ("https://169.254.169.254/latest", "private address"),
            ("https://2130706433/", "by its name"), ("https://0x7f.1/", "by its name"),
            ("https://127.1/", "by its name"),
            ("https://0177.0.0.1/", "by its name"), ("https://localhost/", "this machine"),
            ("https://localhost./", "this machine"), ("https://a.localhost.:8443/", "this machine"),
            ("https://a.LOCALHOST/", "this machine"), ("https://example.com:0/", "port"),
            ("https://example.com:99999/", "port"), ("https://*/", "by its name"), ("https://.../", "by its name"),
            ("https://ex%0aample.com/", "by its name"), ("https://[fe80::1%25eth0]/", "by its name"),
            ("https://", "address of 1 to"), ("https://example.com/x y", "percent-encoded"),
            ("https://example.com/é", "percent-encoded"), ("https://example.com/%2F/%zz", "percent-encoded"),
            ("https://example.com/?a=\"b\"", "percent-encoded"),
            ("https://example.com/" + String(repeating: "a", count: 2040), "bytes"),
        ])
    func refusedURLs(text: String, reason: String) {
        let refusal = #expect(throws: EndpointURL.Refusal.self) { try EndpointURL(text, allowsPrivate: false) }
        #expect(refusal?.reason.contains(reason) ?? false, "\(text): \(refusal?.reason ?? "")")
    }

    @Test("where private addresses are allowed, so is plain http")
    func privateURLs() throws {
        for text in [
            "http://127.0.0.1:8080/hook", "https://10.0.0.1/", "http://[::1]:9/x?y=z", "http://localhost:3000/",
            "http://a_b.internal./",
        ] {
            #expect(try EndpointURL(text, allowsPrivate: true).text == text)
        }
        #expect(try EndpointURL("https://Example.com:444/a", allowsPrivate: false).origin == "https://example.com:444")
    }

    @Test("attempts come after 1 s, 5 s, 30 s, 2 min, 10 min, 1 h and then every 6 h, for three days")
    func schedule() {
        let first = Timestamp(milliseconds: Int64(1_795_000_000_000))
        var now = first
        var pauses: [Int64] = []
        while let pause = DeliverySchedule.pause(after: pauses.count + 1, firstAt: first, now: now, chance: 0.5) {
            pauses.append(pause)
            now = now.adding(milliseconds: pause)
        }
        #expect(Array(pauses.prefix(8)) == [1, 5, 30, 120, 600, 3600, 21_600, 21_600].map { $0 * 1000 })
        #expect(now == first.adding(milliseconds: DeliverySchedule.patience), "the last is when the time is up")
        #expect(DeliverySchedule.pause(after: 1, firstAt: first, now: first, chance: 0) == 900)
        #expect(DeliverySchedule.pause(after: 1, firstAt: first, now: first, chance: 1) == 1100)
        #expect(DeliverySchedule.pause(after: 1, firstAt: first, now: first, wished: 60_000, chance: 0) == 60_000)
        #expect(DeliverySchedule.pause(after: 1, firstAt: first, now: first, wished: .max, chance: 0) == 21_600_000)
    }
}
