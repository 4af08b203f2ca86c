import Testing

@testable import EntitlementCore

@Suite("Money, and what charts make of it")
struct RevenueTests {
    // MARK: - Amounts

    @Test(
        "Stripe's smallest units are thousandths of the unit, however many decimals it has",
        arguments: [
            (999, "usd", 9990), (500, "jpy", 500_000), (5124, "kwd", 5124), (500, "isk", 5000), (500, "ugx", 5000),
            (-250, "eur", -2500), (0, "huf", 0),
        ] as [(Int64, String, Int64)])
    func smallestUnits(amount: Int64, currency: String, thousandths: Int64) throws {
        let money = try #require(Money(stripeAmount: amount, currency: currency))
        #expect(money.thousandths == thousandths && money.currency == currency.uppercased())
    }

    @Test("what is no amount of money is none")
    func unusable() {
        for currency in ["", "us", "usdt", "u$d", "12a", "ÄÖÜ"] {
            #expect(Money(thousandths: 1, currency: currency) == nil, "\(currency)")
        }
        for amount in [Money.limit + 1, -Money.limit - 1, .max, .min] {
            #expect(Money(thousandths: amount, currency: "USD") == nil)
        }
        #expect(Money(stripeAmount: .max, currency: "usd") == nil)
        #expect(Money(stripeAmount: .min, currency: "jpy") == nil)
        #expect(Money(thousandths: Money.limit, currency: "USD")?.thousandths == Money.limit)
    }

    @Test(
        "a part is rounded to the nearest thousandth, and is never more than the whole",
        arguments: [
            (9990, 40_000, 3996), (1, 50_000, 1), (1, 49_999, 0), (-1, 50_000, -1), (9990, 100_001, 9990),
            (9990, -1, 0), (Money.limit, 100_000, Money.limit),
        ] as [(Int64, Int64, Int64)])
    func parts(thousandths: Int64, percentage: Int64, part: Int64) throws {
        #expect(try #require(Money(thousandths: thousandths, currency: "USD")).part(percentage).thousandths == part)
    }

    // MARK: - The App Store

    private static func figures(
        _ state: OriginalState, _ chart: ChartName = .revenue
    ) -> [String: [Int64: Int64]] {
        var figures: [String: [Int64: Int64]] = [:]
        for (series, days) in ChartCells(state.chartContribution())[chart].series {
            let name = [series.figure.name, series.product.id(.empty), series.detail].filter { !$0.isEmpty }
            figures[name.joined(separator: " ")] = Dictionary(
                uniqueKeysWithValues: days.map { ($0.key - day(0).daysSinceEpoch, $0.value) })
        }
        return figures
    }

    private static func priced(
        _ statement: Statement, _ amount: Int64?, _ currency: String = "EUR",
        _ change: (inout TransactionFact) -> Void = { _ in }
    ) -> Statement {
        statement.with {
            $0.price = amount.flatMap { Money(thousandths: $0, currency: currency) }
            change(&$0)
        }
    }

    @Test(
        "each period is paid for once, on the day on which it was bought, however often and under however many ids it is stated"
    )
    func periods() {
        let first = Self.priced(subscription("1", from: 0, to: 30), 9990)
        let second = Self.priced(subscription("2", from: 30.5, to: 60, .renewal), 10_990)
        let again = Self.priced(subscription("3", from: 30.5, to: 60, signed: 40, .renewal, lineItem: "item-2"), 10_990)
        #expect(
            Self.figures(OriginalState([first, second, again, first])) == [
                "charged pro EUR": [0: 9990, 30: 10_990]
            ])
    }

    @Test("what went back is counted on the day of the refund, and is gone when that is taken back")
    func refunds() {
        let bought = Self.priced(subscription("1", from: 0, to: 30), 9990)
        let refunded = Self.priced(subscription("1", from: 0, to: 30, signed: 10, revoked: 10), 9990)
        let part = Self.priced(
            subscription("1", from: 0, to: 30, signed: 11, revoked: 10, .refundProrated), 9990
        ) {
            $0.revocation?.percentage = 40_000
        }
        let unknownPart = Self.priced(
            subscription("1", from: 0, to: 30, signed: 12, revoked: 10, .refundProrated), 9990)
        let reversed = Self.priced(subscription("1", from: 0, to: 30, signed: 13), 9990)
        let charged: [Int64: Int64] = [0: 9990]
        #expect(
            Self.figures(OriginalState([bought, refunded])) == [
                "charged pro EUR": charged, "refunded pro EUR": [10: 9990],
            ])
        #expect(
            Self.figures(OriginalState([bought, part, refunded])) == [
                "charged pro EUR": charged, "refunded pro EUR": [10: 3996],
            ])
        #expect(
            Self.figures(OriginalState([unknownPart, part])) == [
                "charged pro EUR": charged, "unpriced pro": [10: 1],
            ])
        #expect(Self.figures(OriginalState([unknownPart, reversed])) == ["charged pro EUR": charged])
    }

    @Test(
        "a trial costs nothing, a family's share was paid by another, and what nobody priced is told apart from what is free"
    )
    func free() {
        let trial = Self.priced(subscription("1", from: 0, to: 7), nil) {
            $0.offer = Offer(type: 1, discount: "FREE_TRIAL")
        }
        let shared = Self.priced(subscription("2", from: 7, to: 37), 9990) { $0.ownership = .known(.familyShared) }
        let unpriced = Self.priced(subscription("3", from: 40, to: 70), nil)
        let free = Self.priced(subscription("4", from: 80, to: 110), 0)
        let ended = Self.priced(subscription("5", from: 120, to: 150, revoked: 130, .familyRevoke), 9990)
        #expect(
            Self.figures(OriginalState([trial, shared, unpriced, free, ended])) == [
                "unpriced pro": [40: 1], "charged pro EUR": [120: 9990],
            ])
    }

    @Test("a trial is what is free before anything was paid for, and converted by what is paid for")
    func trials() {
        func free(_ id: String, from start: Double, to end: Double, _ type: Int64) -> Statement {
            Self.priced(subscription(id, from: start, to: end), nil) {
                $0.offer = Offer(type: type, discount: "FREE_TRIAL")
            }
        }
        let trial = free("1", from: 0, to: 7, 1)
        let paid = Self.priced(subscription("2", from: 7, to: 37, .renewal), 9990)
        let gift = free("3", from: 37, to: 67, 2)
        let again = Self.priced(subscription("4", from: 67, to: 97, .renewal), 9990)
        let wonBack = free("5", from: 200, to: 230, 4)
        let converted: [String: [Int64: Int64]] = [
            "started pro": [0: 1], "converted pro": [7: 1], "converted_of_started pro": [0: 1],
        ]
        #expect(Self.figures(OriginalState([trial, paid]), .trials) == converted)
        #expect(Self.figures(OriginalState([trial, paid, gift, again, wonBack]), .trials) == converted)
        #expect(Self.figures(OriginalState([paid, gift, again, wonBack]), .trials).isEmpty)
        // What a code made free is not paid for; what follows that is.
        let coupon = Self.priced(subscription("2", from: 7, to: 37, .renewal), 0)
        let late = Self.priced(subscription("3", from: 37, to: 67, .renewal), 9990)
        #expect(Self.figures(OriginalState([trial, coupon]), .trials) == ["started pro": [0: 1]])
        #expect(
            Self.figures(OriginalState([trial, coupon, late]), .trials) == [
                "started pro": [0: 1], "converted pro": [37: 1], "converted_of_started pro": [0: 1],
            ])
    }

    @Test("what is bought once is paid for, too, and currencies are kept apart")
    func oneTimePurchases() {
        #expect(
            Self.figures(OriginalState([Self.priced(oneTime("1", "coins", .consumable, at: 3), 990, "JPY")])) == [
                "charged coins JPY": [3: 990]
            ])
    }

    // MARK: - The web

    private static func figures(_ told: [WebTold]) -> [String: [Int64: Int64]] { figures(state(told)) }

    /// A line, or a payment, as a period of it is shown.
    private static func fact(_ transactionID: String) -> TransactionFact {
        TransactionFact(
            payloadHash: .zero, signedDate: day(0), transactionID: transactionID, originalTransactionID: "sub_1",
            productID: "pro", bundleID: "", kind: nil, purchaseDate: day(0))
    }

    private static func state(_ told: [WebTold]) -> OriginalState {
        var state = OriginalState()
        for (index, told) in told.enumerated() {
            guard let original = told.fact.originalTransactionID else { continue }
            state.join(
                .web(told.fact), originalTransactionID: original, source: .serverAPI, position: Int64(index + 1))
        }
        return state
    }

    @Test(
        "an invoice is divided among its lines in proportion, what is credited and discounted included, and refunds alike"
    )
    func invoices() {
        let invoice = paid(
            "1", line("1", "pro", from: 0, to: 30, amount: 2000),
            line("2", "news", from: 0, to: 30, item: "si_2", amount: 1000),
            line("3", "old", from: 0, to: 30, item: "si_3", proration: true, amount: -500), at: 1, amount: 1000,
            by: "pi_1")
        #expect(
            Self.figures([invoice]) == ["charged prod_pro USD": [1: 6667], "charged prod_news USD": [1: 3333]])
        #expect(
            Self.figures([invoice, refunded(at: 5, 300), refunded("2", at: 6, 200, status: "pending")]) == [
                "charged prod_pro USD": [1: 6667], "charged prod_news USD": [1: 3333],
                "refunded prod_pro USD": [5: 2000], "refunded prod_news USD": [5: 1000],
            ])
    }

    @Test("what is told of a line is what charts count: its share of what was paid, and of what went back")
    func shares() {
        let lines = (
            line("1", "pro", from: 0, to: 30, amount: 1400),
            line("2", "news", from: 0, to: 30, item: "si_2", amount: 600),
            line("3", "old", from: 0, to: 30, item: "si_3", proration: true, amount: -500)
        )
        let invoice = paid("1", lines.0, lines.1, lines.2, at: 1, amount: 1000, by: "pi_1")
        let free = paid("2", lines.0, lines.1, at: 1, amount: 0, by: "pi_1")
        let unpriced = invoice.with { $0.invoices[0].amountPaid = nil }
        func told(_ told: WebTold...) -> [[Int64?]] {
            let state = Self.state(told)
            func fact(_ id: String) -> TransactionFact { Self.fact("il_\(id)") }
            return [
                ["1", "2", "3"].map { state.price(of: fact($0))?.thousandths },
                ["1", "2", "3"].map { state.refunded(of: fact($0))?.thousandths },
            ]
        }
        #expect(told(invoice) == [[7000, 3000, 0], [nil, nil, nil]])
        #expect(told(invoice, refunded(at: 5, 300)) == [[7000, 3000, 0], [2100, 900, 0]])
        #expect(told(invoice, refunded(at: 5, 300), refunded("2", at: 6, 700)) == [[7000, 3000, 0], [7000, 3000, 0]])
        #expect(told(invoice, refunded(at: 5, 300, status: "failed")) == [[7000, 3000, 0], [nil, nil, nil]])
        #expect(told(free) == [[0, 0, nil], [nil, nil, nil]])
        #expect(told(unpriced) == [[nil, nil, nil], [nil, nil, nil]])
        let once = Self.state([paidOnce(at: 2), refunded(at: 5, 1999, of: "pi_1")])
        let payment = Self.fact("pi_1")
        #expect(once.price(of: payment)?.thousandths == 49_990 && once.refunded(of: payment)?.thousandths == 19_990)
    }

    @Test("a dispute holds money back until it is won")
    func disputes() {
        let invoice = paid("1", line("1", from: 0, to: 30), by: "pi_1")
        #expect(
            Self.figures([invoice, disputed(at: 4)]) == [
                "charged prod_pro USD": [0: 9990], "disputed prod_pro USD": [4: 9990],
            ])
        #expect(
            Self.figures([invoice, disputed(at: 4), disputed(at: 4, told: 9, "won")]) == [
                "charged prod_pro USD": [0: 9990]
            ])
    }

    @Test("a one-time payment counts once, whoever tells of it, and nothing that was not paid")
    func payments() {
        #expect(
            Self.figures([paidOnce(at: 2), paidOnce(at: 3, byEvent: false), refunded(at: 5, 1999, of: "pi_1")]) == [
                "charged lifetime USD": [2: 49_990], "refunded lifetime USD": [5: 19_990],
            ])
        #expect(Self.figures([bought("lifetime", at: 2)]).isEmpty)
        #expect(Self.figures([paid("1", line("1", from: 0, to: 30), amount: 0)]).isEmpty)
    }

    @Test("an invoice and a payment without a currency are told of as not priced")
    func withoutCurrency() {
        let invoice = paid("1", line("1", from: 0, to: 30)).with { $0.invoices[0].currency = nil }
        let payment = paidOnce(at: 2).with { $0.payment?.currency = nil }
        #expect(Self.figures([invoice]) == ["unpriced prod_pro": [0: 1]])
        #expect(Self.figures([payment]) == ["unpriced lifetime": [2: 1]])
    }

    @Test("an invoice is refunded when nothing of it is left, in part until then, and disputed beside that")
    func webReturns() {
        let invoice = paid("1", line("1", from: 0, to: 30), by: "pi_1")
        func returns(_ told: WebTold...) -> [String: [Int64: Int64]] {
            Self.figures(Self.state([invoice] + told), .refunds)
        }
        #expect(returns(refunded(at: 5, 300)) == ["refunded_in_part prod_pro": [5: 1]])
        #expect(returns(refunded(at: 5, 300), refunded("2", at: 6, 699)) == ["refunded prod_pro": [6: 1]])
        #expect(
            returns(refunded(at: 5, 300), disputed(at: 7)) == [
                "refunded_in_part prod_pro": [5: 1], "disputed prod_pro": [7: 1],
            ])
        #expect(
            returns(disputed(at: 4), refunded(at: 5)) == ["refunded prod_pro": [5: 1], "disputed prod_pro": [4: 1]])
        #expect(returns(refunded(at: 5, status: "failed"), disputed(at: 4), disputed(at: 4, told: 9, "won")).isEmpty)
        // What most of it was paid for, and also where its period is none any more.
        let two = paid(
            "1", line("1", "pro", from: 0, to: 30, amount: 300),
            line("2", "news", from: 0, to: 30, item: "si_2", amount: 699), by: "pi_1")
        #expect(
            Self.figures(Self.state([two, refunded(at: 5, 10)]), .refunds) == ["refunded_in_part prod_news": [5: 1]])
    }
}
