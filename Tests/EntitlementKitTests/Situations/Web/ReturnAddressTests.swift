import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what an address says of a page", .timeLimit(.minutes(1)))
struct ReturnAddressTests {
    private static func web(_ success: String?, _ cancel: String?) -> WebCheckout {
        WebCheckout(successURL: success.flatMap { URL(string: $0) }, cancelURL: cancel.flatMap { URL(string: $0) }) {
            _ in .left
        }
    }

    @Test(
        "of two addresses that fit the more specific one counts, and of two that are as specific the cancelled one",
        arguments: [
            ("https://a.example/paid", "https://a.example/shop", "https://a.example/paid?x=1", true),
            ("https://a.example/paid", "https://a.example/shop", "https://a.example/shop/?x=1", false),
            ("https://a.example/paid", "https://a.example/shop", "https://a.example/else", nil),
            (
                "https://a.example/paid", "https://a.example/paid?cancelled=1", "https://a.example/paid?cancelled=1",
                false
            ),
            (
                "https://a.example/paid", "https://a.example/paid?cancelled=1", "https://a.example/paid?cancelled=2",
                true
            ),
            ("https://a.example/paid", "https://a.example/paid?cancelled=1", "https://a.example/paid?more=1", true),
            ("https://a.example/paid?ok=1", "https://a.example/paid", "https://a.example/paid?ok=1", true),
            ("https://a.example/paid?ok=1", "https://a.example/paid", "https://a.example/paid", false),
            (
                "https://a.example/paid?c={CHECKOUT_SESSION_ID}", "https://a.example/paid",
                "https://a.example/paid?c=cs_9", true
            ),
            (
                "https://a.example/paid?c={CHECKOUT_SESSION_ID}", "https://a.example/paid", "https://a.example/paid",
                false
            ),
            ("https://a.example/paid?c={CHECKOUT_SESSION_ID}", nil, "https://a.example/paid", true),
            ("https://a.example/paid", "https://a.example/paid", "https://a.example/paid", false),
            (nil, "https://a.example/paid", "https://a.example/paid", false),
            (nil, nil, "https://a.example/paid", nil),
            ("https://a.example/paid", nil, "http://a.example/paid", nil),
        ] as [(String?, String?, String, Bool?)])
    func readings(_ success: String?, _ cancel: String?, _ opened: String, _ isPaid: Bool?) throws {
        #expect(Self.web(success, cancel).saysPaid(try #require(URL(string: opened))) == isPaid)
    }

    @Test(
        "addresses that cannot work are told when the store is made",
        arguments: [
            ("https://a.example/paid", "https://a.example/shop", []),
            (nil, nil, []),
            ("https://a.example/paid?c={CHECKOUT_SESSION_ID}", "https://a.example/paid", []),
            ("https://a.example/paid", "https://a.example/paid?cancelled=1", []),
            ("http://localhost:8080/paid", "http://127.0.0.1/shop", []),
            ("https://a.example/paid", "https://A.example/paid/", [.sameAddresses]),
            (
                "https://a.example/p?c={CHECKOUT_SESSION_ID}", "https://a.example/p?c={CHECKOUT_SESSION_ID}",
                [.sameAddresses]
            ),
            ("myapp://paid", "https://a.example/shop", [.successURLNotTaken]),
            ("https://a.example/paid", "http://a.example/shop", [.cancelURLNotTaken]),
            ("https://me:secret@a.example/paid", "paid", [.successURLNotTaken, .cancelURLNotTaken]),
        ] as [(String?, String?, [WebCheckoutProblem])])
    func problems(_ success: String?, _ cancel: String?, _ problems: [WebCheckoutProblem]) {
        let web = Self.web(success, cancel)
        #expect(web.problems == problems)
        let log = LogNotebook()
        _ = KitRig.web(Payer()) { _ in
        } configuration: {
            $0.webCheckout = web
            $0.logger = log
        }
        #expect(log.lines.filter { $0.contains("webCheckout") }.count == problems.count)
        for problem in problems { #expect(log.lines.contains { $0.hasSuffix(problem.rawValue) }) }
    }

    @Test("a page that was left by an address that fits both is cancelled, and keeps nobody from buying")
    func cancelledByQuery() async throws {
        let payer = Payer { _ in .left }
        let rig = KitRig.web(payer) {
            $0.purchase = .success(.userCancelled)
        } configuration: {
            $0.webCheckout?.cancelURL = URL(string: "https://app.example.com/paid?cancelled=1")
        }
        _ = await rig.buy("monthly", via: .web, payer)
        #expect(await rig.store.handle(try #require(URL(string: "https://app.example.com/paid?cancelled=1"))))
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
        #expect(await rig.store.purchase("monthly") == .userCancelled)
        #expect(rig.device.state.purchases.count == 1)
    }

    /// What the server says of a page that says it was paid, when the product is bought again on the web.
    enum Word: CaseIterable {
        case knowsOfNoPayment
        case wasPaidAndNotHeard
        case makesAnotherPage
        case isOver
        case isOwned
    }

    @Test("a page that says it was paid is asked about again, and nobody pays for it twice", arguments: Word.allCases)
    func completed(_ word: Word) async throws {
        let payer = Payer { _ in .completed }
        let rig = KitRig.web(payer) { _ in
        } server: {
            $0.shop.leadsToSamePage = word != .makesAnotherPage
        }
        #expect(await rig.buy("monthly", via: .web, payer).outcome == .pending)
        let page = try #require(rig.server.lastPage)
        let asked = rig.server.state.shop.asked.count
        switch word {
        case .knowsOfNoPayment, .makesAnotherPage: break
        case .wasPaidAndNotHeard, .isOver: #expect(rig.server.pay(page))
        case .isOwned: rig.server.shop { $0.mood = .status(409) }
        }
        if word == .isOver { rig.clock.advance(days: 1.1) }
        await payer.set { [server = rig.server] shown in
            let isPaid = server.pay(shown.checkoutID)
            server.hear(shown.checkoutID)
            return isPaid ? .completed : .left
        }
        let report = await rig.buy("monthly", via: .web, payer)
        let pages = await payer.pages.map(\.checkoutID)
        switch word {
        case .knowsOfNoPayment, .wasPaidAndNotHeard:
            #expect(report.outcome.purchase != nil && pages == [page, page])
            #expect(await rig.store.unfinishedCheckouts().isEmpty)
        case .makesAnotherPage, .isOver, .isOwned:
            guard case .failed(let error) = report.outcome else {
                Issue.record("\(report)")
                return
            }
            #expect(error.reason == (word == .isOwned ? .alreadyOwned : .checkoutUnfinished))
            #expect(pages == [page])
            let isHeld = word != .isOwned
            #expect(isHeld == (error.unfinishedCheckout?.id == page))
        }
        #expect(rig.server.state.shop.charges.count <= 1)
        #expect(rig.server.state.shop.asked.count == asked + (word == .isOver ? 0 : 1))
    }
}
