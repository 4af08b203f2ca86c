import Testing

@testable import EntitlementCore

/// Each test is a sentence of the contract on what was paid for on the web.
@Suite("Web checkout: paid lines")
struct WebLineTests {
    @Test("a line of a paid invoice is a period from its start until its end, and not beyond, to the millisecond")
    func period() {
        let given = WebGiven(paidLine("1", from: 0, to: 30))
        #expect(given.reasons() == ["0..30 active paid_period", "30.. expired expired"])
        #expect(given.answer(at: day(0).adding(milliseconds: -1)) == nil)
        #expect(given.answer(at: day(0))?.givesAccess == true)
        #expect(given.answer(at: day(30).adding(milliseconds: -1))?.givesAccess == true)
        #expect(given.answer(at: day(30))?.givesAccess == false)
        #expect(given.answer(at: 3)?.reading.source == .webCheckout)
        #expect(given.answer(at: 3)?.reading.originalTransactionID == "sub_1")
    }

    @Test(
        "what was sold is a product of the catalog by its price, else by its product; else it gives nothing and shows")
    func mapping() {
        var other = paidLine("1", from: 0, to: 30)
        other = other.with { $0.invoices[0].lines[0].product = WebProduct(price: "price_new", product: "prod_pro") }
        #expect(WebGiven(other).timeline() == ["0..30 active pro", "30.. expired pro"])
        let byPrice = other.with {
            $0.invoices[0].lines[0].product = WebProduct(price: "price_pro", product: "prod_basic")
        }
        #expect(WebGiven(byPrice).timeline() == ["0..30 active pro", "30.. expired pro"])
        let stranger = other.with { $0.invoices[0].lines[0].product = WebProduct(price: "price_x", product: "prod_x") }
        let given = WebGiven(stranger)
        #expect(given.timeline().isEmpty)
        let chains = given.facts.originals["sub_1"]?.chains(given.facts.catalog) ?? []
        #expect(chains.flatMap(\.periods).map(\.fact.productID) == ["prod_x"])
    }

    @Test("a line of a trial costs nothing, and is a period; it shows as a free trial")
    func trial() {
        let given = WebGiven(
            paidLine("1", from: 0, to: 14, amount: 0), says("trialing", at: 0, until: 14, trial: (0, 14)),
            paidLine("2", from: 14, to: 44))
        #expect(given.timeline() == ["0..44+1h active pro", "44+1h.. expired pro"])
        #expect(given.answer(at: 13)?.reading.offer?.discount == "FREE_TRIAL")
        #expect(given.answer(at: 14)?.reading.offer == nil)
        #expect(
            WebGiven(paidLine("1", from: 0, to: 14, amount: 0)).answer(at: 1)?.reading.offer == nil, "free for ever")
    }

    @Test("what was sold is what lines that are time name, and what was paid for once where our own name is not given")
    func sold() {
        let invoice = paidLine("1", from: 0, to: 30).with { fact in
            fact.invoices[0].lines += [
                line("2", from: 30, to: 60), line("3", "basic", from: 0, to: 30, proration: true, amount: -5),
                line("4", "fee", from: 0, to: 0), line("5", "trial", from: 0, to: 9, amount: 0),
            ]
            fact.invoices[0].lines[1].product = WebProduct(price: nil, product: nil)
        }
        #expect(invoice.fact.sold == [EntitlementCoreTests.sold("pro"), EntitlementCoreTests.sold("trial")])
        for name in [nil, "lifetime"] {
            let payment = WebTold("checkout.session.completed", at: 0, of: "pi_1") { fact in
                fact.payment = WebPayment(
                    paidAt: day(0), isPaidByEvent: true, amount: 1, catalogProductID: name,
                    products: [EntitlementCoreTests.sold("once")])
            }
            #expect(payment.fact.sold == (name == nil ? [EntitlementCoreTests.sold("once")] : []))
        }
    }

    @Test("empty lines and credits are no periods")
    func none() {
        #expect(WebGiven(paidLine("1", from: 5, to: 5)).timeline().isEmpty)
        #expect(WebGiven(paidLine("1", from: 5, to: 4)).timeline().isEmpty)
        #expect(WebGiven(paidLine("1", from: 5, to: 9, proration: true, amount: -100)).timeline().isEmpty)
    }

    @Test("of one item the later line begins where the earlier ends")
    func consecutive() {
        let given = WebGiven(paidLine("1", from: 0, to: 30), paidLine("2", "pro.yearly", from: 20, to: 60))
        #expect(given.timeline() == ["0..30 active pro", "30..60 active pro.yearly", "60.. expired pro.yearly"])
    }

    @Test("where a proration begins the earlier line ends")
    func proration() {
        let given = WebGiven(
            paidLine("1", from: 0, to: 30),
            paid(
                "2", line("2a", from: 10, to: 30, proration: true, amount: -666),
                line("2b", "pro.max", from: 10, to: 30, proration: true, amount: 1666), at: 10),
            paidLine("3", "pro.max", from: 30, to: 60))
        #expect(given.timeline() == ["0..10 active pro", "10..60 active pro.max", "60.. expired pro.max"])
        #expect(given.timeline("max") == ["10..60 active pro.max", "60.. expired pro.max"])
    }

    @Test("a proration that is paid with the next invoice still counts from where it begins")
    func lateProration() {
        let given = WebGiven(
            paidLine("1", from: 0, to: 30),
            paid(
                "2", line("2a", from: 10, to: 30, proration: true, amount: -666),
                line("2b", "pro.max", from: 10, to: 30, proration: true, amount: 1666),
                line("2c", "pro.max", from: 30, to: 60), at: 30 + hours(1)))
        #expect(
            given.timeline() == [
                "0..10 active pro", "10..30 active pro.max", "30..30+1h expired pro.max",
                "30+1h..60 active pro.max", "60.. expired pro.max",
            ])
    }

    @Test("a new interval that is sold with a credit for the rest of the old one takes its place")
    func newInterval() {
        let given = WebGiven(
            paidLine("1", from: 0, to: 30),
            paid(
                "2", line("2a", from: 10, to: 30, proration: true, amount: -666),
                line("2b", "pro.yearly", from: 10, to: 375), at: 10))
        #expect(given.timeline() == ["0..10 active pro", "10..375 active pro.yearly", "375.. expired pro.yearly"])
    }

    @Test("of two prorations of 0 the one of the product that ran before is the credit")
    func freeProration() {
        let trial = paidLine("1", from: 0, to: 14, amount: 0)
        let switched = paid(
            "2", line("2a", from: 5, to: 14, proration: true, amount: 0),
            line("2b", "pro.max", from: 5, to: 14, proration: true, amount: 0), at: 5)
        #expect(WebGiven(trial, switched).timeline("max") == ["5..14 active pro.max", "14.. expired pro.max"])
        #expect(
            WebGiven(trial, switched).timeline()
                == ["0..5 active pro", "5..14 active pro.max", "14.. expired pro.max"])
    }

    @Test(
        "credited and sold again, as when its quantity changes, it goes on in a period of its own, whatever it costs",
        arguments: [0, 1])
    func quantity(price: Int64) {
        let beside = line("2", "pro.max", from: 0, to: 30, item: "si_2")
        let change = paid(
            "3", line("3a", from: 10, to: 30, proration: true, amount: -666 * price),
            line("3b", from: 10, to: 30, proration: true, amount: 1332 * price), at: 10)
        let month = paid("1", line("1", from: 0, to: 30, amount: 999 * price), beside)
        let given = WebGiven(month, change)
        let periods = given.facts.originals["sub_1"]?.chains(given.facts.catalog).first?.periods ?? []
        #expect(periods.map(\.start) == [day(0), day(10)] && periods.map(\.end) == [day(10), day(30)])
        #expect(
            given.timeline() == ["0..10 active pro.max", "10..30 active pro", "30.. expired pro"],
            "until then the other one ends later")
        let late = given.with { $0.told = [change, month] }
        #expect(late.timeline() == given.timeline())
    }

    @Test("what is changed while a trial runs is of the trial as well", arguments: ["pro", "pro.max"])
    func changedTrial(product: String) {
        let given = WebGiven(
            paidLine("1", from: 0, to: 14, amount: 0), says("trialing", at: 0, until: 14, trial: (0, 14)),
            paid(
                "2", line("2a", from: 5, to: 14, proration: true, amount: 0),
                line("2b", product, from: 5, to: 14, proration: true, amount: 0), at: 5))
        let answer = given.answer(at: 6)
        #expect(answer?.reading.productID == product && answer?.since == day(0))
        #expect(answer?.reading.offer?.discount == "FREE_TRIAL")
    }

    @Test("a line that names no item is of the only item there is")
    func withoutItem() {
        let change = paidLine("2", "pro.max", from: 10, to: 30, item: nil, proration: true)
        let given = WebGiven(paidLine("1", from: 0, to: 30), change)
        #expect(given.timeline() == ["0..10 active pro", "10..30 active pro.max", "30.. expired pro.max"])
    }

    @Test("items of one subscription run beside each other")
    func items() {
        let given = WebGiven(
            paid("1", line("a", "basic", from: 0, to: 30), line("b", "pro", from: 0, to: 10, item: "si_2")))
        #expect(given.timeline("basic") == ["0..30 active basic", "30.. expired basic"])
        #expect(given.timeline() == ["0..10 active pro", "10.. expired pro"])
    }

    @Test("all pages of a long invoice count, whichever came when")
    func pages() {
        let first = paid("1", line("a", "basic", from: 0, to: 30), at: 0, told: 0)
        let second = paid("1", line("b", "pro", from: 0, to: 30, item: "si_2"), at: 0, told: 1)
        for told in [[first, second], [second, first]] {
            var given = WebGiven()
            given.told = told
            #expect(given.timeline("basic").first == "0..30 active basic")
            #expect(given.timeline().first == "0..30 active pro")
        }
    }

    @Test("a line restated otherwise counts as it was stated last")
    func restated() {
        let (short, long) = (paidLine("1", from: 0, to: 30), paidLine("1", from: 0, to: 31, at: 1))
        #expect(WebGiven(short, long).timeline().first == "0..31 active pro")
        #expect(WebGiven(long, short).timeline().first == "0..31 active pro")
    }

    @Test("a one-time payment runs from the event that said it was paid, without end or for the catalog's duration")
    func oneTime() {
        #expect(WebGiven(paidOnce(at: 3)).reasons() == ["3.. active one_time_purchase"])
        #expect(WebGiven(paidOnce(at: 3)).answer(at: 4)?.willRenew == nil)
        #expect(WebGiven(paidOnce("season", at: 3)).reasons() == ["3..93 active paid_period", "93.. expired expired"])
        #expect(
            WebGiven(paidOnce(at: 3), paidOnce(at: 5), paidOnce(at: 1, byEvent: false)).reasons()
                == ["3.. active one_time_purchase"], "the first event that said so, before any reading")
        #expect(WebGiven(paidOnce(at: 7, byEvent: false)).reasons() == ["7.. active one_time_purchase"])
    }

    @Test("its product is in our metadata, else it is what was looked up")
    func oneTimeProduct() {
        #expect(WebGiven(paidOnce(nil, at: 3)).timeline().isEmpty)
        #expect(WebGiven(paidOnce(nil, at: 3), bought("lifetime", at: 4)).timeline() == ["3.. active lifetime"])
        #expect(
            WebGiven(paidOnce("basic", at: 3), bought("lifetime", at: 4)).timeline().isEmpty, "metadata comes first")
        let two = WebGiven(paidOnce(nil, at: 3), bought("lifetime", "basic", at: 4))
        #expect(two.timeline() == ["3.. active lifetime"] && two.timeline("basic") == ["3.. active basic"])
    }

    @Test(
        "what is sold as a subscription gives nothing when it is paid for once, unless the catalog gives it a duration")
    func subscriptionSoldOnce() {
        for told in [[paidOnce("pro", at: 3)], [paidOnce(nil, at: 3), bought("pro", at: 4)]] {
            let given = WebGiven().with { $0.told = told }
            #expect(given.timeline().isEmpty)
            let state = given.facts.originals["pi_1"]
            #expect(given.facts.idlePurchases(giving: "premium", at: day(5)).map(\.productID) == ["pro"])
            #expect(state?.winningStatements().map(\.fact.statedOwner) == [alice], "and it is somebody's all the same")
            let back = given.with { $0.told = told + [refunded(at: 6, 4999, of: "pi_1")] }
            #expect(back.facts.idlePurchases(giving: "premium", at: day(5)).count == 1)
            #expect(back.facts.idlePurchases(giving: "premium", at: day(7)).isEmpty, "it was refunded")
        }
        let season = CatalogProduct(
            productID: "pro", entitlements: ["premium"],
            duration: products.first { $0.productID == "season" }?.duration,
            stripe: StripeProduct(price: "price_pro", mode: .subscription))
        let state = OriginalState(web: [paidOnce("pro", at: 3)], of: "pi_1")
        let periods = state.chains(Catalog(products: [season])).flatMap(\.periods)
        #expect(periods.map(\.end) == [day(93)])
    }

    @Test("a session in which nothing was due is an original of its own")
    func free() {
        let given = WebGiven(paidOnce(at: 3, amount: 0, original: "cs_1"))
        #expect(given.answer(at: 4)?.reading.originalTransactionID == "cs_1")
    }
}
