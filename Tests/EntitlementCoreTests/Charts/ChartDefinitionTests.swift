import Testing

@testable import EntitlementCore

/// What each figure counts, told in single lives.
@Suite("What charts count")
struct ChartDefinitionTests {
    struct Life: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let chart: ChartName
        let statements: [Statement]
        /// By figure, product and cohort or currency: the number of each day.
        let expected: [String: [Int64: Int64]]

        init(
            _ description: String, _ chart: ChartName, _ statements: [Statement],
            _ expected: [String: [Int64: Int64]]
        ) {
            (testDescription, self.chart, self.statements, self.expected) = (description, chart, statements, expected)
        }
    }

    struct WebLife: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let chart: ChartName
        let told: [WebTold]
        let expected: [String: [Int64: Int64]]

        init(
            _ description: String, _ chart: ChartName, _ told: [WebTold], _ expected: [String: [Int64: Int64]]
        ) {
            (testDescription, self.chart, self.told, self.expected) = (description, chart, told, expected)
        }
    }

    private static func figures(_ state: OriginalState, _ chart: ChartName) -> [String: [Int64: Int64]] {
        var figures: [String: [Int64: Int64]] = [:]
        for (series, days) in ChartCells(state.chartContribution())[chart].series {
            let name = [series.figure.name, series.product.id(.empty), series.detail].filter { !$0.isEmpty }
            figures[name.joined(separator: " ")] = Dictionary(
                uniqueKeysWithValues: days.map { ($0.key - day(0).daysSinceEpoch, $0.value) })
        }
        return figures
    }

    /// A period at full price, or at another.
    private static func month(
        _ id: String, from start: Double, to end: Double, _ reason: TransactionReason? = .renewal,
        _ product: String = "pro", price: Int64? = 9990, offer: Int64? = nil, signed: Double? = nil,
        _ change: (inout TransactionFact) -> Void = { _ in }
    ) -> Statement {
        subscription(id, product, from: start, to: end, signed: signed, reason).with {
            $0.price = price.flatMap { Money(thousandths: $0, currency: "EUR") }
            $0.offer = offer.map { Offer(type: $0, discount: "PAY_AS_YOU_GO") }
            change(&$0)
        }
    }

    /// A period that costs nothing under an offer.
    private static func free(
        _ id: String, from start: Double, to end: Double, _ reason: TransactionReason? = .purchase, offer: Int64 = 1
    ) -> Statement {
        month(id, from: start, to: end, reason, price: 0) { $0.offer = Offer(type: offer, discount: "FREE_TRIAL") }
    }

    private static let lives: [Life] = [
        // Who comes from before.
        Life(
            "a renewal that is heard of first is taken over", .churn, [month("1", from: 0, to: 30)],
            ["taken_over pro": [0: 1], "subscribed pro": [1: 1, 31: -1], "churned pro": [30: 1]]),
        Life("who is taken over is in no cohort", .retention, [month("1", from: 0, to: 30)], [:]),
        Life(
            "a promotional offer is for who has subscribed before", .churn,
            [month("1", from: 0, to: 30, .purchase, offer: 2)],
            ["taken_over pro": [0: 1], "subscribed pro": [1: 1, 31: -1], "churned pro": [30: 1]]),
        Life(
            "so is a win-back offer", .churn, [month("1", from: 0, to: 30, .purchase, offer: 4)],
            ["taken_over pro": [0: 1], "subscribed pro": [1: 1, 31: -1], "churned pro": [30: 1]]),
        Life(
            "an introductory offer is not", .churn, [month("1", from: 0, to: 30, .purchase, offer: 1)],
            ["begun pro": [0: 1], "subscribed pro": [1: 1, 31: -1], "churned pro": [30: 1]]),
        Life(
            "what comes before is known once its statement is there", .churn,
            [month("2", from: 30, to: 60), month("1", from: 0, to: 30, .purchase)],
            ["begun pro": [0: 1], "subscribed pro": [1: 1, 61: -1], "churned pro": [60: 1]]),
        Life(
            "what follows a trial that is known begins", .churn,
            [free("1", from: 0, to: 7), month("2", from: 7, to: 37)],
            ["begun pro": [7: 1], "subscribed pro": [8: 1, 38: -1], "churned pro": [37: 1]]),
        Life(
            "a free renewal that is heard of first is no trial", .churn,
            [free("1", from: 0, to: 30, .renewal), month("2", from: 30, to: 60)],
            ["taken_over pro": [0: 1], "subscribed pro": [1: 1, 61: -1], "churned pro": [60: 1]]),
        // Trials and renewals.
        Life(
            "a trial that is converted is no renewal", .renewals,
            [free("1", from: 0, to: 7), month("2", from: 7, to: 37)], ["due pro": [37: 1]]),
        Life("a trial that runs out was not due", .renewals, [free("1", from: 0, to: 7)], [:]),
        Life(
            "a trial that is cancelled is no cancelled period", .renewals,
            [free("1", from: 0, to: 7), renewalInfo(signed: 3, renews: false)], [:]),
        Life(
            "a gift to somebody who pays is due for renewal", .renewals,
            [
                month("1", from: 0, to: 30, .purchase), free("2", from: 30, to: 60, .renewal, offer: 3),
                month("3", from: 60, to: 90),
            ],
            ["due pro": [30: 1, 60: 1, 90: 1], "made pro": [30: 1, 60: 1], "made_of_due pro": [30: 1, 60: 1]]),
        // Late renewals.
        Life(
            "a late renewal neither ends a subscription nor takes it up again", .churn,
            [month("1", from: 0, to: 30, .purchase), month("2", from: 75, to: 105)],
            ["begun pro": [0: 1], "subscribed pro": [1: 1, 106: -1], "churned pro": [105: 1]]),
        Life(
            "and retention goes on across the gap", .retention,
            [month("1", from: 0, to: 30, .purchase), month("2", from: 75, to: 105)],
            ["begun pro 2026-01": [0: 1], "retained pro 2026-01": [1: 1, 106: -1]]),
        Life(
            "but it reads active only while it is paid for", .active,
            [month("1", from: 0, to: 30, .purchase), month("2", from: 75, to: 105)],
            ["active pro": [1: 1, 31: -1, 76: 1, 106: -1]]),
        Life(
            "after sixty days it is no late renewal any more", .churn,
            [month("1", from: 0, to: 30, .purchase), month("2", from: 90.5, to: 120.5)],
            [
                "begun pro": [0: 1], "subscribed pro": [1: 1, 31: -1, 91: 1, 121: -1], "churned pro": [30: 1, 120: 1],
                "resumed pro": [90: 1],
            ]),
        Life(
            "who buys again has left before", .churn,
            [month("1", from: 0, to: 30, .purchase), month("2", from: 40, to: 70, .purchase)],
            [
                "begun pro": [0: 1], "subscribed pro": [1: 1, 31: -1, 41: 1, 71: -1], "churned pro": [30: 1, 70: 1],
                "resumed pro": [40: 1],
            ]),
        Life(
            "what was refunded is over, whatever is renewed later", .churn,
            [
                month("1", from: 0, to: 30, .purchase) {
                    $0.revocation = Revocation(date: day(20), kind: .known(.refundFull))
                }, month("2", from: 30, to: 60),
            ],
            [
                "begun pro": [0: 1], "subscribed pro": [1: 1, 21: -1, 31: 1, 61: -1], "churned pro": [20: 1, 60: 1],
                "resumed pro": [30: 1],
            ]),
        // Trials.
        Life("a free win-back heard of first is no trial", .trials, [free("1", from: 0, to: 30, offer: 4)], [:]),
        Life("nor is a free promotional offer", .trials, [free("1", from: 0, to: 30, offer: 2)], [:]),
        Life("nor is what is free on a renewal", .trials, [free("1", from: 0, to: 30, .renewal)], [:]),
        Life("an offer code is one", .trials, [free("1", from: 0, to: 30, offer: 3)], ["started pro": [0: 1]]),
        Life(
            "a trial of several periods is one", .trials,
            [
                free("1", from: 0, to: 30, offer: 3), free("2", from: 30, to: 60, .renewal, offer: 3),
                month("3", from: 60, to: 90),
            ], ["started pro": [0: 1], "converted pro": [60: 1], "converted_of_started pro": [0: 1]]),
        Life(
            "what is paid for more than sixty days after the trial converts nothing", .trials,
            [
                free("1", from: 0, to: 7), month("2", from: 7, to: 37, price: 0),
                month("3", from: 37, to: 67, price: 0),
                month("4", from: 67.5, to: 97),
            ], ["started pro": [0: 1]]),
        Life(
            "what is paid for sixty days after it does", .trials,
            [
                free("1", from: 0, to: 7), month("2", from: 7, to: 37, price: 0),
                month("3", from: 37, to: 67, price: 0),
                month("4", from: 67, to: 97),
            ], ["started pro": [0: 1], "converted pro": [67: 1], "converted_of_started pro": [0: 1]]),
        // Billing retry.
        Life(
            "a failed period is recovered by its renewal", .billingRetry,
            [
                month("1", from: 0, to: 30, .purchase), renewalInfo(signed: 29, retry: true),
                month("2", from: 40, to: 70),
            ], ["entered pro": [30: 1], "recovered pro": [40: 1]]),
        Life(
            "whoever buys something else meanwhile does not recover it", .billingRetry,
            [
                month("1", from: 0, to: 30, .purchase), renewalInfo(signed: 29, retry: true),
                month("2", from: 40, to: 70, .purchase, "pro.max"),
            ], ["entered pro": [30: 1], "lost pro": [40: 1]]),
        // Money that went back.
        Life(
            "a percentage tells the part where nobody says what kind of refund it was", .revenue,
            [month("1", from: 0, to: 30) { $0.revocation = Revocation(date: day(9), percentage: 40_000) }],
            ["charged pro EUR": [0: 9990], "refunded pro EUR": [9: 3996]]),
        Life(
            "and so does the kind of refund", .refunds,
            [
                month("1", from: 0, to: 30) {
                    $0.revocation = Revocation(date: day(9), kind: Known("NEW"), percentage: 40_000)
                }
            ], ["refunded_in_part pro": [9: 1]]),
        Life(
            "without a percentage such a refund is one of all", .revenue,
            [month("1", from: 0, to: 30) { $0.revocation = Revocation(date: day(9)) }],
            ["charged pro EUR": [0: 9990], "refunded pro EUR": [9: 9990]]),
        Life(
            "what an unknown amount gives back is unknown, too", .revenue,
            [
                month("1", from: 0, to: 30, price: nil) {
                    $0.revocation = Revocation(date: day(9), kind: .known(.refundFull))
                }
            ], ["unpriced pro": [0: 1, 9: 1]]),
        Life(
            "what cost nothing gives nothing back", .revenue,
            [
                month("1", from: 0, to: 30, price: 0) {
                    $0.revocation = Revocation(date: day(9), kind: .known(.refundProrated))
                }
            ], [:]),
    ]

    @Test("on the App Store, in whatever order it is heard of", arguments: lives)
    func appStore(life: Life) {
        #expect(Self.figures(OriginalState(life.statements), life.chart) == life.expected)
        #expect(Self.figures(OriginalState(life.statements.reversed()), life.chart) == life.expected)
    }

    private static let trialing = says("trialing", at: 0, until: 14, items: ["si_1", "si_2"], trial: (0, 14))

    private static let webLives: [WebLife] = [
        WebLife(
            "a subscription has one trial and one conversion, however many items it has", .trials,
            [
                trialing,
                paid(
                    "1", line("1", from: 0, to: 14, amount: 0),
                    line("2", "news", from: 0, to: 14, item: "si_2", amount: 0), amount: 0),
                paid(
                    "2", line("3", from: 14, to: 44, amount: 999),
                    line("4", "news", from: 14, to: 44, item: "si_2", amount: 500), amount: 1499),
            ], ["started prod_pro": [0: 1], "converted prod_pro": [14: 1], "converted_of_started prod_pro": [0: 1]]),
        WebLife(
            "a trial with a fee on its invoice is one, and what is free after it does not convert it", .trials,
            [
                trialing, paid("1", line("1", from: 0, to: 14, amount: 0), amount: 700),
                paid("2", line("3", from: 14, to: 44, amount: 0), amount: 700),
            ], ["started prod_pro": [0: 1]]),
        WebLife(
            "beside an item that is paid for nothing is a trial", .trials,
            [
                trialing,
                paid(
                    "1", line("1", from: 0, to: 14, amount: 0),
                    line("2", "news", from: 0, to: 14, item: "si_2", amount: 500), amount: 500),
            ], [:]),
        WebLife(
            "an item that is free for a while in a subscription that was paid for is no trial", .trials,
            [
                paid("1", line("1", from: 0, to: 30)),
                says("trialing", at: 30, until: 44, items: ["si_1", "si_2"], trial: (30, 44)),
                paid("2", line("2", "news", from: 30, to: 44, item: "si_2", amount: 0), amount: 0),
            ], [:]),
        WebLife(
            "a trial's line is not due", .renewals,
            [
                trialing, paid("1", line("1", from: 0, to: 14, amount: 0), amount: 0),
                paid("2", line("3", from: 14, to: 44), amount: 999),
            ], ["due prod_pro": [44: 1]]),
        WebLife(
            "a renewal that is paid for late holds the subscription", .churn,
            [paid("1", line("1", from: 0, to: 30)), paid("2", line("2", from: 30, to: 60), at: 50)],
            ["begun prod_pro": [0: 1], "subscribed prod_pro": [1: 1, 61: -1], "churned prod_pro": [60: 1]]),
        WebLife(
            "by Stripe's word alone a failed period is not recovered", .billingRetry,
            [
                paid("1", line("1", from: 0, to: 30)), says("past_due", at: 30.5, until: 60),
                says("active", at: 31, until: 60), says("canceled", at: 40, until: 60, ended: 40),
            ], ["entered prod_pro": [30: 1], "lost prod_pro": [40: 1]]),
    ]

    @Test("on the web, in whatever order it is heard of", arguments: webLives)
    func web(life: WebLife) {
        #expect(Self.figures(OriginalState(web: life.told, of: "sub_1"), life.chart) == life.expected)
        #expect(Self.figures(OriginalState(web: life.told.reversed(), of: "sub_1"), life.chart) == life.expected)
    }

    @Test("subscribers are those before, with who began, was taken over and came back, less who left")
    func footing() {
        for life in Self.lives where life.chart == .churn {
            let figures = ChartCells(OriginalState(life.statements).chartContribution())
            func sum(_ figure: ChartFigure, upTo last: Int64) -> Int64 {
                figures.series.filter { $0.key.figure == figure }.flatMap(\.value).filter { $0.key <= last }.reduce(0) {
                    $0 + $1.value
                }
            }
            for number in Int64(0)...130 {
                let midnight = day(0).daysSinceEpoch + number
                let came = [ChartFigure.begun, .takenOver, .resumed].reduce(0) { $0 + sum($1, upTo: midnight) }
                #expect(
                    sum(.subscribed, upTo: midnight + 1) == came - sum(.churned, upTo: midnight), "\(life), \(number)")
            }
        }
    }
}
