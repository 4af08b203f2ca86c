import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit: what a device's files hold of other people")
struct OthersPurchasesTests {
    /// A device with the app of account B, whose files hold a purchase of account A.
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        /// Whose purchases the store shows; `nil`: it has not said yet.
        var store: Set<String>? = ["B"]
        /// Whether A's purchase was posted, as that of A.
        var isPosted = true
        /// Whether B's answer came after that.
        var isAnsweredAfter = true
        var proof = ReconciliationDocument.Proof.appTransaction
        var tellsFacts = true
        /// A second piece of news of A's purchase, which the server is yet to hear of.
        var hasNews = false
        /// The customer's backend says that A and B are one.
        var isLinked = false
        var identified: CustomerID?
        /// When the store last showed it.
        var confirmedDay = 0.0
        /// The days on which it is given, and on which it is spoken of without access, of 1, 6, 9 and 40; it ends on day 30.
        let given: [Double]
        let told: [Double]

        var testDescription: String { name }
    }

    private static let days = [1.0, 6, 9, 40]
    private static let bound: Int64 = 7 * 86_400_000

    private static let rows = [
        Row(name: "the server does not give it, nor does the store show it", given: [], told: []),
        Row(name: "the same where facts cannot be read", tellsFacts: false, given: [], told: []),
        Row(name: "the store has said nothing: the bound", store: nil, given: [1, 6], told: []),
        Row(name: "the store shows A's purchases, too", store: ["A", "B"], given: [1, 6], told: []),
        Row(
            name: "the store shows them today, and it has ended", store: ["A"], confirmedDay: 39, given: [1, 6, 9],
            told: [40]),
        Row(name: "the server was not told of it", isPosted: false, given: [1, 6], told: [9, 40]),
        Row(name: "it was told after it answered", isAnsweredAfter: false, given: [1, 6], told: [9, 40]),
        Row(name: "it was told of less than is known", hasNews: true, given: [1, 6], told: [9, 40]),
        Row(name: "its answer rests on no proof", proof: .none, given: [1, 6], told: [9, 40]),
        Row(name: "both accounts are one customer's", isLinked: true, given: [1, 6], told: [9, 40]),
        Row(name: "somebody else is logged in", identified: "c-1", given: [], told: []),
    ]

    /// Posts what is to be posted for a customer, and takes the answer.
    private func post(
        _ ids: [String], for customer: CustomerID, at day: Double, _ server: ScriptedServer,
        _ ledger: inout DeviceLedger
    ) async throws {
        let batch = SyncQueue.Batch(number: 1, customerID: customer, transactionIDs: ids, asks: true)
        let posting = ledger.posting(batch, at: Timestamp(milliseconds: Statements.instant(day)))
        let response = try await server.reconcile(
            customerID: customer.value, token: nil, body: Data(try WireJSON.encode(posting.request)))
        let wire = try WireJSON.decode(WireValue.self, from: Array(response.body))
        let answer = try #require(ServerAnswer(wire))
        let results = PostingResults(wire, transactions: posting.transactions.count, renewals: 0)
        _ = ledger.take(answer, results, to: posting)
    }

    @Test("it counts until server and store both say that it is not the customer's", arguments: rows)
    func table(_ row: Row) async throws {
        let clock = ManualClock(day: 0)
        let server = ScriptedServer(clock) { script in
            (script.proof, script.tellsFacts) = (row.proof, row.tellsFacts)
            guard row.isLinked else { return }
            let (first, second) = (script.number(of: "apple:A"), script.number(of: "apple:B"))
            script.ownership.apply(
                .link(LinkFact(identity: first, customer: second)), position: 1,
                recordedAt: Timestamp(milliseconds: Statements.start))
        }
        var ledger = DeviceLedger(
            EntitlementConfiguration(
                bundleID: Statements.bundleID,
                bundledCatalog: [.init(productID: "monthly", entitlements: ["premium"])]))
        ledger.identified = row.identified
        _ = ledger.book.join(try DeviceAppTransaction(Statements.appTransaction("B")))
        _ = ledger.book.join(try DeviceTransaction(Statements.transaction("1", until: 30)))
        _ = ledger.book.confirm("1", at: Timestamp(milliseconds: Statements.instant(row.confirmedDay)))
        if let store = row.store { _ = ledger.book.showsOnly(store) }
        let customer = try #require(ledger.customerID)
        if !row.isAnsweredAfter { try await post([], for: customer, at: 0, server, &ledger) }
        clock.advance(.seconds(1))
        if row.isPosted { try await post(["1"], for: "apple:A", at: 0, server, &ledger) }
        if row.isAnsweredAfter { try await post([], for: customer, at: 0, server, &ledger) }
        if row.hasNews {
            _ = ledger.book.join(try DeviceTransaction(Statements.transaction("1", until: 30.5, signed: 0.5)))
        }
        var (given, told): ([Double], [Double]) = ([], [])
        for day in Self.days {
            let now = Timestamp(milliseconds: Statements.instant(day))
            let lines = DeviceFold(ledger).entitlements(at: now, bound: Self.bound)
            let history = ledger.history(at: now, bound: Self.bound)
            #expect(history.isEmpty == lines.isEmpty, "day \(day)")
            if let line = lines.first { if line.givesAccess { given.append(day) } else { told.append(day) } }
        }
        #expect(given == row.given && told == row.told, "given \(given), told \(told)")
    }

    @Test(
        "what the file says of the accounts is read back, the last line counts, and what the store says here is newer")
    func file() throws {
        var book = StatementBook()
        #expect(!book.shows(["A"]) && book.accounts == nil)
        for accounts in [["A"], ["A", "B"], ["B"]] as [Set<String>] {
            let isNews = book.showsOnly(accounts)
            #expect(isNews)
        }
        #expect(book.shows(["C"]) && !book.shows(["C"]) && book.accounts == ["B", "C"])
        var file = Data()
        for accounts in [["A"], ["A", "B"], ["B"]] as [Set<String>] { file += try StatementRow.accounts(accounts).line }
        let read = StatementBook(StatementFile(file))
        #expect(read.accounts == ["B"])
        var other = StatementBook()
        other.join(read)
        #expect(other.accounts == ["B"])
        book.join(read)
        #expect(book.accounts == ["B", "C"])
        var log = StatementRowLog()
        let rows = [["A"], ["B"]].map { StatementRow.accounts(Set($0)) }
        log.note([rows[0]], replacing: false)
        log.note([rows[1]], replacing: false)
        #expect(log.missing(from: [rows[0]])?.count == 1 && log.missing(from: [rows[1]])?.isEmpty == true)
    }

    @Test("only a reading that came to its end and listed what is owned says whose purchases the store shows")
    func readings() {
        let all = StorePart.allCases
        var accounts = StoreAccounts()
        // A store that is not ready lists nothing as owned.
        for part in all { #expect(accounts.took(part, of: 1, showing: part == .all ? ["A"] : []) == nil) }
        // A part that hangs.
        for part in all where part != .statuses { #expect(accounts.took(part, of: 2, showing: ["A"]) == nil) }
        // A purchase with another account while the list was under way that was made before it.
        #expect(accounts.took(.current, of: 3, showing: ["A"]) == nil)
        accounts.took(deliveryOf: ["B"], begun: 3)
        #expect(accounts.took(.all, of: 3, showing: ["A", "C"]) == nil)
        #expect(accounts.took(.unfinished, of: 3, showing: []) == nil)
        #expect(accounts.took(.statuses, of: 3, showing: []) == ["A", "B", "C"])
        // What hung says nothing any more, for something newer is known.
        #expect(accounts.took(.statuses, of: 2, showing: ["A"]) == nil)
        for part in all.dropLast() { #expect(accounts.took(part, of: 4, showing: ["A"]) == nil) }
        #expect(accounts.took(all[all.count - 1], of: 4, showing: ["A"]) == ["A"])
        // However many hang, no more than a few wait.
        for number in 5...100 { #expect(accounts.took(.current, of: number, showing: ["A"]) == nil) }
        for part in all.dropFirst() { #expect(accounts.took(part, of: 5, showing: []) == nil) }
    }
}
