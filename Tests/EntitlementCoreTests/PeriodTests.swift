import Testing

@testable import EntitlementCore

@Suite("Periods: which stretch a transaction pays for")
struct PeriodTests {
    @Test("a period runs from purchase to expiry, a non-consumable without end")
    func extent() {
        #expect(
            Given(subscription("1", from: 0, to: 30)).timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(Given(oneTime("1", "lifetime", .nonConsumable, at: 5)).timeline() == ["5.. active lifetime"])
    }

    @Test("an expiry at or before the purchase leaves nothing of the period but its expiry")
    func emptyExtent() {
        #expect(Given(subscription("1", from: 10, to: 10)).timeline() == ["10.. expired pro"])
        #expect(Given(subscription("1", from: 10, to: 3)).timeline() == ["10.. expired pro"])
    }

    @Test("a consumable or non-renewing purchase runs for the catalog's duration, and repeats overlap")
    func catalogDuration() {
        for kind in [ProductKind.consumable, .nonRenewing] {
            #expect(
                Given(oneTime("1", "season", kind, at: 0)).timeline()
                    == ["0..90 active season", "90.. expired season"])
            let twice = Given(oneTime("1", "season", kind, at: 0)).and("1001", oneTime("2", "season", kind, at: 30))
            #expect(
                twice.origins() == ["0..30 active 1000", "30..120 active 1001", "120.. expired 1001"],
                "the later end is shown, and nothing is stacked")
            let oneOriginal = Given(oneTime("1", "season", kind, at: 0), oneTime("2", "season", kind, at: 30))
            #expect(oneOriginal.timeline() == ["0..120 active season", "120.. expired season"])
        }
    }

    @Test("without a duration it grants nothing, whatever its kind")
    func withoutDuration() {
        let consumable = Given(oneTime("1", "coins", .consumable, at: 0))
        #expect(consumable.timeline() == [])
        let nonRenewing = Given(oneTime("1", "coins", .nonRenewing, at: 0))
        #expect(nonRenewing.timeline() == [])
        let unmapped = Given(oneTime("1", "unheard-of", .nonRenewing, at: 0))
        #expect(unmapped.timeline() == [])
    }

    @Test("a kind nobody stated takes the store's expiry, else the catalog's duration, else grants nothing")
    func unknownKind() {
        let dated = subscription("1", from: 0, to: 30).with { $0.kind = .unknown("Rental") }
        #expect(Given(dated).timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(
            Given(oneTime("1", "season", nil, at: 0)).timeline() == ["0..90 active season", "90.. expired season"])
        #expect(Given(oneTime("1", "lifetime", nil, at: 0)).timeline() == [])
    }

    @Test("a product nothing maps to gives nothing, and the catalog answers for every instant")
    func unmapped() {
        #expect(Given(subscription("1", "unheard-of", from: 0, to: 30)).facts.timelines().isEmpty)
    }

    @Test("a period may be known under several ids with one line item")
    func severalIDs() {
        let given = Given(
            subscription("1", from: 0, to: 30, signed: 0, lineItem: "x"),
            subscription("2", from: 0, to: 31, signed: 1, lineItem: "x"))
        #expect(given.timeline() == ["0..31 active pro", "31.. expired pro"])
        let chains = given.facts.originals["1000"]?.chains(given.facts.catalog)
        #expect(chains?.flatMap(\.periods).map(\.transactionIDs) == [["1", "2"]])
    }

    @Test("where a line item is absent, the same product and purchase date are one period")
    func withoutLineItem() {
        func plain(_ id: String, _ product: String = "pro", from: Double, to: Double, signed: Double) -> Statement {
            subscription(id, product, from: from, to: to, signed: signed).with { $0.webOrderLineItemID = nil }
        }
        let same = Given(plain("1", from: 0, to: 30, signed: 0), plain("2", from: 0, to: 20, signed: 1))
        #expect(same.timeline() == ["0..20 active pro", "20.. expired pro"])
        let oneSided = Given(
            subscription("1", from: 0, to: 30, signed: 0), plain("2", from: 0, to: 20, signed: 1))
        #expect(oneSided.timeline() == ["0..20 active pro", "20.. expired pro"])
        let otherDate = Given(plain("1", from: 0, to: 30, signed: 0), plain("2", from: 30, to: 60, signed: 30))
        #expect(otherDate.timeline() == ["0..60 active pro", "60.. expired pro"])
    }

    @Test("the same product and purchase date under two line items stay two periods")
    func twoLineItems() {
        let given = Given(
            subscription("1", from: 0, to: 30, .renewal, lineItem: "x"),
            subscription("2", from: 0, to: 60, .renewal, lineItem: "y"))
        let periods = given.facts.originals["1000"]?.chains(given.facts.catalog).flatMap(\.periods)
        #expect(periods?.map { [label($0.start), label($0.end)] } == [["0", "30"], ["30", "60"]])
    }
}

@Suite("Periods: what follows what")
struct PeriodChainTests {
    @Test("renewals follow each other without a seam")
    func renewals() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("2", from: 30, to: 60, .renewal),
            subscription("3", from: 60, to: 90, .renewal))
        #expect(given.timeline() == ["0..90 active pro", "90.. expired pro"])
    }

    @Test("a later purchase ends the earlier at its own purchase date, re-signed as upgraded or not")
    func upgrade() {
        let expected = ["0..10 active pro", "10..375 active pro.yearly", "375.. expired pro.yearly"]
        let upgrade = subscription("2", "pro.yearly", from: 10, to: 375)
        #expect(Given(subscription("1", from: 0, to: 30), upgrade).timeline() == expected)
        let resigned = subscription("1", from: 0, to: 30, signed: 11, upgraded: true)
        #expect(Given(resigned, upgrade).timeline() == expected)
    }

    @Test("a change of product without the entitlement reads expired, replaced")
    func replaced() {
        let given = Given(subscription("1", from: 0, to: 30), subscription("2", "basic", from: 10, to: 40))
        #expect(given.reasons() == ["0..10 active paid_period", "10.. expired replaced"])
        #expect(given.timeline("basic") == ["10..40 active basic", "40.. expired basic"])
    }

    @Test("a resubscription after a lapse leaves the lapse")
    func resubscription() {
        let given = Given(subscription("1", from: 0, to: 30), subscription("2", from: 50, to: 80))
        #expect(
            given.timeline()
                == ["0..30 active pro", "30..50 expired pro", "50..80 active pro", "80.. expired pro"])
    }

    @Test("a renewal charged early begins where the earlier ends")
    func earlyRenewal() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("2", "pro.yearly", from: 29, to: 395, .renewal))
        #expect(
            given.timeline() == ["0..30 active pro", "30..395 active pro.yearly", "395.. expired pro.yearly"])
    }

    @Test("a renewal charged early whose expiry the earlier covers leaves nothing of itself")
    func coveredRenewal() {
        let given = Given(
            subscription("1", from: 0, to: 60), subscription("2", "pro.yearly", from: 29, to: 55, .renewal))
        #expect(given.timeline() == ["0..60 active pro", "60.. expired pro"])
    }

    @Test("a renewal charged early follows an extension of the earlier period")
    func extendedEarlier() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("2", "pro.yearly", from: 29, to: 60, .renewal),
            subscription("1", from: 0, to: 35, signed: 40))
        #expect(given.timeline() == ["0..35 active pro", "35..60 active pro.yearly", "60.. expired pro.yearly"])
    }

    @Test("a purchase ends a renewal charged early before it began")
    func purchaseAfterEarlyRenewal() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("2", from: 28, to: 60, .renewal),
            subscription("3", "pro.max", from: 29, to: 59))
        #expect(given.timeline() == ["0..29 active pro", "29..59 active pro.max", "59.. expired pro.max"])
    }

    @Test(
        "without a transaction reason a change of product is a purchase, the same product a renewal",
        arguments: [nil, Known<TransactionReason>.unknown("GIFT")])
    func withoutReason(_ reason: Known<TransactionReason>?) {
        let first = subscription("1", from: 0, to: 30)
        let change = subscription("2", "pro.yearly", from: 20, to: 385).with { $0.reason = reason }
        #expect(
            Given(first, change).timeline()
                == ["0..20 active pro", "20..385 active pro.yearly", "385.. expired pro.yearly"])
        let same = subscription("2", from: 20, to: 60).with { $0.reason = reason }
        let periods = OriginalState([first, same]).chains(Catalog(products: products)).flatMap(\.periods)
        #expect(periods.map { [label($0.start), label($0.end)] } == [["0", "30"], ["30", "60"]])
    }

    @Test("upgraded, but the upgrade is unseen: ends at the statement's signed date until it is seen")
    func upgradedElsewhere() {
        let upgraded = subscription("1", from: 0, to: 30, signed: 12, upgraded: true)
        #expect(
            Given(subscription("1", from: 0, to: 30), upgraded).reasons()
                == ["0..12 active paid_period", "12..30 expired upgraded_elsewhere", "30.. expired expired"])
        let upgrade = subscription("2", "pro.yearly", from: 10, to: 375)
        #expect(
            Given(upgraded, upgrade).timeline()
                == ["0..10 active pro", "10..375 active pro.yearly", "375.. expired pro.yearly"])
        // By the clock of whoever signed it the upgrade may lie ahead.
        let signedAhead = subscription("1", from: 0, to: 30, signed: 9, upgraded: true)
        #expect(
            Given(signedAhead, upgrade).timeline()
                == ["0..10 active pro", "10..375 active pro.yearly", "375.. expired pro.yearly"])
        let resubscribed = subscription("3", "pro.yearly", from: 40, to: 405)
        #expect(
            Given(signedAhead, resubscribed).timeline()
                == [
                    "0..9 active pro", "9..40 expired pro", "40..405 active pro.yearly",
                    "405.. expired pro.yearly",
                ])
        // What was renewed in between has taken its place.
        let renewed = subscription("3", from: 15, to: 45, .renewal)
        #expect(
            Given(signedAhead, renewed, subscription("4", "pro.yearly", from: 20, to: 385)).timeline().prefix(3)
                == ["0..9 active pro", "9..15 expired pro", "15..20 active pro"])
        let signedAfterExpiry = subscription("1", from: 0, to: 30, signed: 45, upgraded: true)
        #expect(Given(signedAfterExpiry).timeline() == ["0..30 active pro", "30.. expired pro"])
        let signedBeforeStart = subscription("1", from: 10, to: 30, signed: 5, upgraded: true)
        #expect(Given(signedBeforeStart).timeline() == ["10.. expired pro"])
    }

    @Test("only the upgrade's next renewal was seen: the gap in between is not guessed")
    func upgradeUnseenRenewalSeen() {
        let given = Given(
            subscription("1", from: 0, to: 30, signed: 12, upgraded: true),
            subscription("3", "pro.yearly", from: 40, to: 70, .renewal))
        #expect(
            given.timeline()
                == [
                    "0..12 active pro", "12..40 expired pro", "40..70 active pro.yearly", "70.. expired pro.yearly",
                ])
    }

    @Test("bought at one instant: the upgraded one gives way, whatever the order of arrival")
    func sameInstant() {
        let old = subscription("9", from: 0, to: 30, upgraded: true)
        let new = subscription("1", "pro.yearly", from: 0, to: 365)
        let expected = ["0..365 active pro.yearly", "365.. expired pro.yearly"]
        #expect(Given(old, new).timeline() == expected)
        #expect(Given(new, old).timeline() == expected)
    }

    @Test("a late renewal re-opens access from its own purchase date and leaves the gap a gap")
    func lateRenewal() {
        let given = Given(subscription("1", from: 0, to: 30), subscription("2", from: 33, to: 60, .renewal))
        #expect(
            given.timeline()
                == ["0..30 active pro", "30..33 expired pro", "33..60 active pro", "60.. expired pro"])
    }
}
