import EntitlementCore
import Testing

@testable import Ledger

/// Which answers are given from memory while the log grows, loses its end, and grows again.
@Suite("The cache of answers about customers")
struct CustomerCacheTests {
    private typealias Cache = CustomerCache<String, String>

    private static func hash(_ position: Int64, _ log: UInt8 = 0) -> Digest {
        Digest([UInt8](repeating: log, count: 24) + withUnsafeBytes(of: position.bigEndian, Array.init)) ?? .zero
    }

    private static func event(_ position: Int64, _ log: UInt8 = 0) -> EventMark {
        EventMark(position: position, hash: hash(position, log))
    }

    /// What comes between two positions, about nobody.
    private static func news(after start: Int64, upTo end: Int64, _ log: UInt8 = 0) -> LogNews {
        LogNews(
            head: LogMark(position: end, hash: hash(end, log), nextIdentity: 1), previousHash: hash(start),
            hashes: (start..<end).map { hash($0 + 1, log) }, changes: [])
    }

    private static func cache(at position: Int64) -> Cache {
        let cache = Cache(capacityBytes: 1 << 20)
        cache.apply(
            LogNews(
                head: LogMark(position: position, hash: hash(position), nextIdentity: 1), previousHash: nil, hashes: [],
                changes: nil))
        return cache
    }

    private static func insert(_ key: String, restingOn rest: EventMark, into cache: Cache) {
        cache.insert("answer", for: key, in: .production, restingOn: rest, CustomerDependencies(), bytes: 10)
    }

    @Test("what was read at the end of the log, or at an event since the first look, is given")
    func known() {
        let cache = Self.cache(at: 10)
        Self.insert("at the end", restingOn: Self.event(10), into: cache)
        #expect(cache.answer(of: "at the end") == "answer")
        cache.apply(Self.news(after: 10, upTo: 14))
        Self.insert("before the end", restingOn: Self.event(12), into: cache)
        #expect(cache.answer(of: "before the end") == "answer" && cache.answer(of: "at the end") == "answer")
    }

    @Test("what was read at another event than the log holds there is not kept", arguments: [10, 12, 14] as [Int64])
    func another(position: Int64) {
        let cache = Self.cache(at: 10)
        cache.apply(Self.news(after: 10, upTo: 14))
        Self.insert("key", restingOn: Self.event(position, 1), into: cache)
        #expect(!cache.keeps("key"))
    }

    @Test("what was read before the first look is not kept, for nothing tells whether the log still holds it")
    func before() {
        let cache = Self.cache(at: 10)
        Self.insert("key", restingOn: Self.event(9), into: cache)
        #expect(!cache.keeps("key"))
    }

    @Test("what was read beyond the last look is given once the log turns out to hold its event")
    func beyond() {
        let cache = Self.cache(at: 10)
        Self.insert("key", restingOn: Self.event(12), into: cache)
        #expect(cache.keeps("key") && cache.answer(of: "key") == nil)
        cache.apply(Self.news(after: 10, upTo: 11))
        #expect(cache.keeps("key") && cache.answer(of: "key") == nil)
        cache.apply(Self.news(after: 11, upTo: 13))
        #expect(cache.answer(of: "key") == "answer")
    }

    @Test("what was read beyond the last look is forgotten where another event is there", arguments: [12, 13])
    func lost(end: Int64) {
        let cache = Self.cache(at: 10)
        Self.insert("key", restingOn: Self.event(12), into: cache)
        cache.apply(Self.news(after: 10, upTo: end, 1))
        #expect(!cache.keeps("key"))
    }

    @Test(
        "what was read beyond the last look takes no room any more once it is replaced, or has gone to make room",
        arguments: [false, true])
    func room(isReplaced: Bool) {
        let cache = Self.cache(at: 10)
        // More than may wait to be proven, and more than there is room for.
        for number in 0..<10_000 {
            Self.insert(isReplaced ? "key" : "key \(number)", restingOn: Self.event(12), into: cache)
        }
        Self.insert("last", restingOn: Self.event(12), into: cache)
        #expect(cache.keeps("last") && cache.answer(of: "last") == nil)
        cache.apply(Self.news(after: 10, upTo: 12))
        #expect(cache.answer(of: "last") == "answer")
        #expect(cache.answer(of: isReplaced ? "key" : "key 9999") == "answer" && !cache.keeps("key 0"))
    }

    @Test("whoever takes the place of what was read beyond the last look is told apart from it")
    func place() {
        let cache = Self.cache(at: 10)
        Self.insert("key", restingOn: Self.event(12, 1), into: cache)
        Self.insert("key", restingOn: Self.event(10), into: cache)
        Self.insert("another", restingOn: Self.event(12, 1), into: cache)
        Self.insert("another", restingOn: Self.event(13), into: cache)
        cache.apply(Self.news(after: 10, upTo: 12))
        #expect(cache.answer(of: "key") == "answer")
        #expect(cache.keeps("another") && cache.answer(of: "another") == nil)
        cache.apply(Self.news(after: 12, upTo: 13))
        #expect(cache.answer(of: "another") == "answer")
    }

    @Test("nothing is given that was read in a log that does not go on from the last look")
    func replaced() {
        let cache = Self.cache(at: 10)
        Self.insert("at the end", restingOn: Self.event(10), into: cache)
        Self.insert("beyond", restingOn: Self.event(12), into: cache)
        cache.apply(
            LogNews(
                head: LogMark(position: 11, hash: Self.hash(11, 1), nextIdentity: 1), previousHash: Self.hash(10, 1),
                hashes: [Self.hash(11, 1)], changes: []))
        #expect(!cache.keeps("at the end") && !cache.keeps("beyond"))
        Self.insert("later", restingOn: Self.event(11, 1), into: cache)
        #expect(cache.answer(of: "later") == "answer")
    }

    @Test("of a long log the last events are known, and what was read at earlier ones is not kept")
    func long() {
        let cache = Self.cache(at: 0)
        for start in stride(from: Int64(0), to: 100_000, by: 5000) {
            cache.apply(Self.news(after: start, upTo: start + 5000))
        }
        Self.insert("late", restingOn: Self.event(90_000), into: cache)
        Self.insert("early", restingOn: Self.event(1000), into: cache)
        #expect(cache.answer(of: "late") == "answer" && !cache.keeps("early"))
    }
}
