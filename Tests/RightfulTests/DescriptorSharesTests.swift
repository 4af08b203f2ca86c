import Testing

@testable import rightful

@Suite("How a service shares out its descriptors")
struct DescriptorSharesTests {
    @Test("with enough of them everything has its full share, and nothing is said")
    func plenty() throws {
        let shares = try DescriptorShares(of: 65_536, accounts: 3)
        #expect(shares.notice == nil)
        #expect(shares.calls == 64 && shares.webhooks == 1024)
        #expect(shares.connections.all == 1024 && shares.connections.ofAddress == 512)
    }

    @Test("the shares together are never more than there may be", arguments: [0, 1, 2, 10])
    func sum(accounts: Int) throws {
        for limit in 260...3000 {
            let shares = try DescriptorShares(of: limit, accounts: accounts)
            let (all, ofAddress) = shares.connections
            let listener = all + 2 * max(4, min(64, all / 16))
            let outgoing = 2 * shares.webhooks + 2 * accounts * (4 + shares.calls)
            #expect(64 + listener + outgoing <= limit && all >= 32 && ofAddress == all / 2, "\(limit)")
            #expect((shares.notice == nil) == (all == 1024), "\(limit)")
        }
    }

    @Test("the words name the limit, how many are served, and what is enough")
    func notice() throws {
        let shares = try DescriptorShares(of: 256, accounts: 0)
        let words = try #require(shares.notice)
        #expect(words.contains("256 open files"), "\(words)")
        #expect(words.contains(" \(shares.connections.all) connections"), "\(words)")
        let enough = try #require(words.split(separator: " ").last.flatMap { Int($0) })
        #expect(try DescriptorShares(of: enough, accounts: 0).notice == nil)
        #expect(try DescriptorShares(of: enough - 1, accounts: 0).notice != nil)
    }

    @Test("with fewer than a service needs it is refused, by the limit and what is needed")
    func tooFew() throws {
        let error = #expect(throws: CommandFailure.self) { try DescriptorShares(of: 64, accounts: 1) }
        let words = try #require(error?.description)
        let fewest = try #require(words.firstMatch(of: /needs ([0-9]+)/).flatMap { Int($0.1) })
        #expect(words.contains("64 open files") && !words.contains("\n"), "\(words)")
        _ = try DescriptorShares(of: fewest, accounts: 1)
        #expect(throws: CommandFailure.self) { try DescriptorShares(of: fewest - 1, accounts: 1) }
    }
}
