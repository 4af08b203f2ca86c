import AppStorePayloads
import EntitlementCore
import Foundation
import OpenSSLCrypto
import Testing

@testable import EntitlementKit

@Suite("Kit: the statement book")
struct StatementTests {
    @Test("the hash is SHA-256, at every length around its blocks")
    func hash() {
        for count in 0..<200 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ count) }
            #expect(PortableSHA256.hash(bytes).bytes == SHA256.hash(bytes), "\(count) bytes")
        }
    }

    @Test("what is no transaction is refused with a reason", arguments: ["", "a.b", "a.b.c", "a.!!.c", "e30.e30.c2ln"])
    func refused(_ jws: String) {
        #expect(throws: StatementRefusal.self) { try DeviceTransaction(SignedStatement(jws: jws)) }
    }

    @Test("the same content signed again is not new; other content is")
    func content() throws {
        let first = try DeviceTransaction(Statements.transaction("1", signed: 1))
        let later = try DeviceTransaction(Statements.transaction("1", signed: 2))
        let revoked = try DeviceTransaction(Statements.transaction("1", revoked: 2, signed: 3))
        #expect(first.contentHash == later.contentHash && first.payloadHash != later.payloadHash)
        var book = StatementBook()
        check(&book, first, .news)
        check(&book, first, .nothing)
        check(&book, later, .newerDate)
        check(&book, revoked, .news)
        check(&book, later, .nothing)
        #expect(book.transactions["1"] == revoked)
    }

    private func check(
        _ book: inout StatementBook, _ transaction: DeviceTransaction, _ learning: StatementBook.Learning
    ) {
        let learned = book.join(transaction)
        #expect(learned == learning)
    }

    @Test("statements join in any order", arguments: 0..<20 as Range<UInt64>)
    func orderFree(seed: UInt64) throws {
        var random = SeededGenerator(seed)
        let statements = try (0..<12).map { (index: Int) throws -> DeviceTransaction in
            let revoked: Double? = index % 3 == 0 ? 5 : nil
            let signed = Double(index / 4)
            return try DeviceTransaction(Statements.transaction("\(index % 4)", revoked: revoked, signed: signed))
        }
        var first = StatementBook()
        for statement in statements { _ = first.join(statement) }
        var second = StatementBook()
        for statement in statements.shuffled(using: &random) { _ = second.join(statement) }
        #expect(first.transactions == second.transactions, "seed \(seed)")
    }

    @Test("renewal information that says the same for long is kept as its first and last, and all of it is bounded")
    func renewals() throws {
        var book = StatementBook()
        for day in 0..<50 {
            _ = book.join(try DeviceRenewal(Statements.renewal(original: "1", signed: Double(day))))
        }
        #expect(book.renewals["1"]?.map(\.payload.signedDate?.milliseconds) == [0, 49].map { Statements.instant($0) })
        for day in 50..<150 {
            _ = book.join(
                try DeviceRenewal(Statements.renewal(original: "1", signed: Double(day), autoRenews: day % 2 == 0)))
        }
        #expect(book.renewals["1"]?.count == StatementBook.renewalLimit)
        #expect(book.renewals["1"]?.last?.payload.signedDate?.milliseconds == Statements.instant(149))
    }

    private static let catalog = Catalog(products: [
        CatalogProduct(productID: "pass", entitlements: ["premium"], duration: CalendarDuration(iso8601: "P1D"))
    ])

    @Test("what a consumable still gives by its duration is let go of only when it is over, whatever the limit")
    func passes() throws {
        var book = StatementBook()
        for day in 0..<5 {
            let pass = Statements.transaction(
                "\(day)", product: "pass", from: Double(day), until: nil, type: "Consumable")
            _ = book.join(try DeviceTransaction(pass))
        }
        for (day, left) in [(2.5, ["2", "3", "4"]), (3.5, ["3", "4"]), (4.9, ["4"]), (5, [])] {
            _ = book.prune(
                limit: 0, catalog: Self.catalog, isNeeded: { _ in false },
                at: Timestamp(milliseconds: Statements.instant(day)))
            #expect(book.transactions.keys.sorted() == left, "day \(day)")
        }
    }

    private func filled(_ count: Int, kind: String) throws -> StatementBook {
        var book = StatementBook()
        for index in 0..<count {
            let (id, day) = (String(1000 + index), Double(index) / 100)
            let statement =
                kind == "consumable"
                ? Statements.transaction(id, product: "coins", from: day, until: nil, type: "Consumable")
                : Statements.transaction(id, original: "life", from: day, until: day + 0.01, renewal: index > 0)
            _ = book.join(try DeviceTransaction(statement))
        }
        return book
    }

    @Test(
        "with too many statements consumables and ended periods go, never a live subscription or what was bought for good"
    )
    func pruning() throws {
        let limit = StatementBook.transactionLimit
        for kind in ["consumable", "period"] {
            var book = try filled(limit, kind: kind)
            let live = Statements.transaction("live", from: 29, until: 59)
            for statement in [live, Statements.transaction("good", product: "lifetime", until: nil)] {
                _ = book.join(try DeviceTransaction(statement))
            }
            let now = Timestamp(milliseconds: Statements.instant(30))
            let isSmaller = book.prune(
                catalog: Self.catalog, isNeeded: { $0.payload.transactionID == "1000" }, at: now)
            #expect(isSmaller)
            #expect(book.transactions.count == limit, "\(kind)")
            // What is needed stays, though it is the oldest.
            for id in ["live", "good", "1000", "\(1000 + limit - 1)"] { #expect(book.transactions[id] != nil, "\(id)") }
            #expect(book.transactions["1001"] == nil && book.transactions["1002"] == nil)
            // The store still lists them, and they say nothing new.
            let again = try filled(limit, kind: kind)
            for id in ["1001", "1002"] {
                let transaction = try #require(again.transactions[id])
                check(&book, transaction, .nothing)
            }
            // One of them is unfinished, as after a refund that was taken back: it is needed until it is finished.
            var needy = book
            let unfinished = try #require(again.transactions["1001"])
            let learned = needy.join(unfinished, isUnfinished: true)
            #expect(learned == .news && needy.transactions["1001"] != nil && needy.letGo["1001"] == nil)
            let read = StatementBook(StatementFile(try written(book)))
            #expect(read.letGo == book.letGo)
        }
    }

    @Test("of more than can be remembered of what was let go the oldest half is forgotten, and no more")
    func manyLetGo() throws {
        let all = try (95...106).map {
            try DeviceTransaction(Statements.transaction("\($0)", product: "coins", until: nil, type: "Consumable"))
        }
        var book = StatementBook()
        for transaction in all { book.letGo(of: transaction, limit: 10) }
        for var known in [book, StatementBook(StatementFile(try written(book)))] {
            let news = all.filter { known.join($0) == .news }.map(\.payload.transactionID)
            #expect(news == (95...99).map(String.init))
        }
        #expect(StatementBook.letGoLimit >= 50_000)
    }

    @Test("what the server does not hold, or the store is yet to be told about, is let go of by nobody")
    func neededStays() throws {
        var book = try filled(StatementBook.transactionLimit + 10, kind: "consumable")
        let isSmaller = book.prune(catalog: Self.catalog, isNeeded: { _ in true }, at: .latest)
        #expect(!isSmaller && book.transactions.count == StatementBook.transactionLimit + 10)
    }

    @Test("what is written is read back")
    func file() throws {
        var book = StatementBook()
        _ = book.join(try DeviceTransaction(Statements.transaction("1")))
        _ = book.join(try DeviceRenewal(Statements.renewal(original: "1", signed: 2)))
        _ = book.join(try DeviceAppTransaction(Statements.appTransaction()))
        let isWorthKeeping = book.confirm("1", at: Timestamp(milliseconds: Statements.start))
        #expect(isWorthKeeping)
        let read = StatementBook(StatementFile(try written(book)))
        let (rows, kept) = try (Set(book.rows.map { try $0.line }), Set(read.rows.map { try $0.line }))
        #expect(kept == rows && rows.count == 5)
    }

    private func say(isOn: Bool, at day: Double, in book: inout StatementBook) throws {
        _ = book.join(try DeviceTransaction(Statements.transaction("1", revoked: isOn ? nil : 5, signed: day)))
        _ = book.join(try DeviceRenewal(Statements.renewal(original: "1", signed: day, autoRenews: isOn)))
    }

    @Test("what is said again after something else is written on the same day, too; what is only signed anew is not")
    func saidAgain() throws {
        var (book, log, file) = (StatementBook(), StatementRowLog(), Data())
        var counts: [Int] = []
        for (index, isOn) in [true, true, false, true, true, false].enumerated() {
            try say(isOn: isOn, at: 5 + 0.1 * Double(index), in: &book)
            let missing = try #require(log.missing(from: book.rows))
            log.note(missing, replacing: false)
            for row in missing { file += try row.line }
            counts.append(missing.count)
            let read = StatementBook(StatementFile(file))
            #expect(read.content(of: "1") == book.content(of: "1"), "\(index)")
            #expect(read.renewals["1"]?.last?.contentHash == book.renewals["1"]?.last?.contentHash, "\(index)")
        }
        // The first time with the list of what is current.
        #expect(counts == [3, 0, 2, 2, 0, 2])
        // Another process reads that, and was told the same a little earlier or later.
        for day in [5.45, 5.55] {
            var other = StatementBook(StatementFile(file))
            log = StatementRowLog(other.rows, size: file.count)
            try say(isOn: false, at: day, in: &other)
            #expect(log.missing(from: other.rows)?.isEmpty == true, "day \(day)")
        }
    }

    private func written(_ book: StatementBook) throws -> Data {
        try book.rows.reduce(into: Data()) { $0.append(try $1.line) }
    }
}

/// Random numbers that a seed repeats.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
