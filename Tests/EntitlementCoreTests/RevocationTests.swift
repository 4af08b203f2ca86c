import Testing

@testable import EntitlementCore

@Suite("Revocations and reversals")
struct RevocationTests {
    @Test("a revocation ends its period at the revocation date, and reads revoked from there")
    func refund() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("1", from: 0, to: 30, signed: 12, revoked: 10))
        #expect(given.reasons() == ["0..10 active paid_period", "10.. revoked refunded"])
        #expect(
            Given(oneTime("1", "lifetime", .nonConsumable, at: 0, signed: 12, revoked: 10)).timeline()
                == ["0..10 active lifetime", "10.. revoked lifetime"])
        #expect(
            Given(oneTime("1", "season", .nonRenewing, at: 0, signed: 12, revoked: 10)).timeline()
                == ["0..10 active season", "10.. revoked season"])
    }

    @Test("it reads revoked until the next period")
    func untilNext() {
        let refunded = subscription("1", from: 0, to: 30, signed: 12, revoked: 10)
        #expect(
            Given(refunded, subscription("2", from: 20, to: 50)).timeline()
                == ["0..10 active pro", "10..20 revoked pro", "20..50 active pro", "50.. expired pro"])
        #expect(
            Given(refunded, subscription("2", from: 30, to: 60, .renewal)).timeline()
                == ["0..10 active pro", "10..30 revoked pro", "30..60 active pro", "60.. expired pro"])
        #expect(
            Given(refunded, subscription("2", from: 5, to: 60, .renewal)).timeline()
                == ["0..60 active pro", "60.. expired pro"],
            "charged while the earlier still ran, so it begins where that ended: at the revocation")
        #expect(
            Given(refunded, subscription("2", from: 5, to: 28, .renewal)).timeline()
                == ["0..28 active pro", "28.. expired pro"], "also where the earlier covered it whole")
    }

    @Test("at or before the purchase it leaves nothing of the period", arguments: [5.0, 0])
    func wholly(revoked: Double) {
        let given = Given(subscription("1", from: 5, to: 30, signed: 6, revoked: revoked))
        #expect(given.timeline() == ["5.. revoked pro"])
    }

    @Test("dated after the period ended it leaves the past as it was", arguments: [30.0, 40])
    func late(revoked: Double) {
        let given = Given(subscription("1", from: 0, to: 30, signed: 50, revoked: revoked))
        #expect(
            given.timeline() == ["0..30 active pro"]
                + (revoked > 30 ? ["30..\(Int(revoked)) expired pro"] : []) + ["\(Int(revoked)).. revoked pro"])
    }

    @Test("of a superseded period it takes nothing from the one that followed")
    func superseded() {
        let given = Given(
            subscription("1", from: 0, to: 30, signed: 16, revoked: 15, upgraded: true),
            subscription("2", "pro.yearly", from: 10, to: 375))
        #expect(
            given.timeline()
                == ["0..10 active pro", "10..375 active pro.yearly", "375.. expired pro.yearly"])
    }

    @Test("of an old period it leaves the current one alone")
    func oldPeriod() {
        let given = Given(
            subscription("1", from: 0, to: 30, signed: 45, revoked: 40), subscription("2", from: 30, to: 60, .renewal))
        #expect(given.timeline() == ["0..60 active pro", "60.. expired pro"])
        let revokedWithin = Given(
            subscription("1", from: 0, to: 30, signed: 45, revoked: 20), subscription("2", from: 30, to: 60, .renewal))
        #expect(
            revokedWithin.timeline()
                == ["0..20 active pro", "20..30 revoked pro", "30..60 active pro", "60.. expired pro"])
    }

    @Test("of a renewal charged early, before it began: the earlier period runs out in full")
    func beforeItBegan() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("2", from: 28, to: 60, signed: 30, .renewal, revoked: 29))
        #expect(given.timeline() == ["0..30 active pro", "30.. revoked pro"])
    }

    @Test("it ends grace and retry at its date")
    func endsGrace() {
        let period = subscription("1", from: 0, to: 30, signed: 36, revoked: 35)
        #expect(
            Given(period, renewalInfo(signed: 30, graceEnd: 46)).timeline()
                == ["0..30 active pro", "30..35 in_grace_period pro", "35.. revoked pro"])
        #expect(
            Given(period, renewalInfo(signed: 30, retry: true)).timeline()
                == ["0..30 active pro", "30..35 in_billing_retry pro", "35.. revoked pro"])
    }

    @Test("within the period it leaves no grace or retry after it")
    func noGraceAfterRevocation() {
        let given = Given(
            subscription("1", from: 0, to: 30, signed: 12, revoked: 10), renewalInfo(signed: 30, graceEnd: 46))
        #expect(given.timeline() == ["0..10 active pro", "10.. revoked pro"])
    }

    @Test("a reversal makes the period read whole again")
    func reversed() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("1", from: 0, to: 30, signed: 12, revoked: 10),
            subscription("1", from: 0, to: 30, signed: 20))
        #expect(given.timeline() == ["0..30 active pro", "30.. expired pro"])
    }

    @Test("what a family shares is charged to whoever bought it, and to nobody else")
    func familyCharge() {
        let bought = subscription("1", from: 0, to: 30)
        let renews = renewalInfo(signed: 1, renews: true)
        let shared = bought.with { $0.ownership = .known(.familyShared) }
        func charges(_ statements: Statement...) -> [String?] {
            var given = Given()
            given.originals["1000"] = statements
            return given.facts.runningCharges(at: day(10)).map(\.productID)
        }
        #expect(charges(bought, renews) == ["pro"])
        #expect(charges(shared, renews) == [])
    }

    @Test("family sharing that ended is told from a refund")
    func family() {
        let typed = subscription("1", from: 0, to: 30, signed: 12, revoked: 10, .familyRevoke)
        #expect(Given(typed).reasons().last == "10.. revoked family_revoked")
        let untyped = subscription("1", from: 0, to: 30, signed: 12, revoked: 10, nil)
        #expect(Given(untyped).reasons().last == "10.. revoked refunded")
        let shared = untyped.with { $0.ownership = .known(.familyShared) }
        #expect(Given(shared).reasons().last == "10.. revoked family_revoked")
    }

    @Test("a prorated refund follows the policy; no other revocation does")
    func prorated() {
        let refund = subscription("1", from: 0, to: 30, signed: 12, revoked: 10, .refundProrated)
        let keeps = AccessPolicy(proratedRefund: .keepsAccess)
        #expect(Given(refund).timeline() == ["0..10 active pro", "10.. revoked pro"])
        #expect(Given(refund, policy: keeps).timeline() == ["0..30 active pro", "30.. expired pro"])
        let graced = Given(refund, renewalInfo(signed: 30, graceEnd: 46), policy: keeps)
        #expect(
            graced.timeline()
                == [
                    "0..30 active pro", "30..46 in_grace_period pro", "46..90 in_billing_retry pro", "90.. expired pro",
                ])
        for kind in [RevocationKind.refundFull, .familyRevoke, nil] {
            let other = subscription("1", from: 0, to: 30, signed: 12, revoked: 10, kind)
            #expect(Given(other, policy: keeps).timeline() == ["0..10 active pro", "10.. revoked pro"])
        }
    }
}

@Suite("Which statement about a period wins")
struct WinningStatementTests {
    private func end(_ statements: Statement...) -> String {
        let state = OriginalState(statements)
        let period = state.chains(Catalog(products: products)).first?.periods.first
        return period.map { "\(label($0.end))\($0.ending == .revoked ? " revoked" : "")" } ?? "none"
    }

    @Test("the newest signed date, however late it arrives")
    func newest() {
        #expect(
            end(subscription("1", from: 0, to: 30, signed: 2), subscription("1", from: 0, to: 20, signed: 1)) == "30")
        #expect(
            end(
                subscription("1", from: 0, to: 30, signed: 3), subscription("1", from: 0, to: 30, signed: 2, revoked: 1)
            )
                == "30")
    }

    @Test("of one signed date the revoked one, then the later expiry, then the greater hash")
    func ties() {
        let revoked = subscription("1", from: 0, to: 20, signed: 5, revoked: 4)
        let plain = subscription("1", from: 0, to: 30, signed: 5)
        #expect(end(revoked, plain) == "4 revoked")
        #expect(end(plain, revoked) == "4 revoked")
        let longer = subscription("1", from: 0, to: 31, signed: 5)
        #expect(end(longer, plain) == "31")
        #expect(end(plain, longer) == "31")
        let earlyRefund = subscription("1", from: 0, to: 30, signed: 5, revoked: 3)
        let lateRefund = subscription("1", from: 0, to: 30, signed: 5, revoked: 4)
        #expect(end(earlyRefund, lateRefund) == end(lateRefund, earlyRefund), "by hash, never by position")
        guard case .transaction(let early, _) = earlyRefund, case .transaction(let late, _) = lateRefund else { return }
        #expect(end(earlyRefund, lateRefund) == (early.payloadHash < late.payloadHash ? "4 revoked" : "3 revoked"))
    }

    @Test("a missing signed date sorts lowest")
    func missingDate() {
        let undated = subscription("1", from: 0, to: 99).with { $0.signedDate = nil }
        #expect(end(undated, subscription("1", from: 0, to: 30, signed: -9_000)) == "30")
        #expect(end(undated) == "99")
    }

    @Test("a device alone does not withdraw what the store revoked: it asks for a check")
    func device() {
        let sold = subscription("1", from: 0, to: 30)
        let refunded = subscription("1", from: 0, to: 30, signed: 12, revoked: 10)
        let reversed = subscription("1", from: 0, to: 30, signed: 20)
        func needsCheck(_ statements: Statement...) -> [Bool] {
            OriginalState(statements).chains(Catalog(products: products)).flatMap(\.periods).map(\.needsStoreCheck)
        }
        #expect(end(sold, refunded, reversed.fromDevice) == "10 revoked")
        #expect(needsCheck(sold, refunded, reversed.fromDevice) == [true])
        #expect(end(sold, refunded, reversed.fromDevice, reversed) == "30", "the store said so too")
        #expect(needsCheck(sold, refunded, reversed.fromDevice, reversed) == [false])
        #expect(end(sold, refunded.fromDevice, reversed.fromDevice) == "30", "only a device knew of the refund")
        #expect(end(sold, refunded.fromDevice) == "10 revoked", "a device may bring a refund")
        #expect(end(reversed.fromDevice, refunded.fromDevice, refunded) == "10 revoked", "confirmed later by the store")
        let serverAPI = refunded
        guard case .transaction(let fact, _) = serverAPI else { return }
        #expect(end(.transaction(fact, .serverAPI), reversed.fromDevice) == "10 revoked")
    }

    @Test("a device withdraws nothing under another spelling of the transaction either")
    func deviceRespelled() {
        let refunded = subscription("1", from: 0, to: 30, signed: 12, revoked: 10, lineItem: "x")
        let respelled = subscription("2", from: 0, to: 30, signed: 20, lineItem: "x").fromDevice
        #expect(end(refunded, respelled) == "10 revoked")
        #expect(end(respelled, refunded) == "10 revoked")
    }

    @Test("a newer statement of the store outlives a device's, and a device's newer news is believed otherwise")
    func deviceNewer() {
        #expect(
            end(subscription("1", from: 0, to: 30), subscription("1", from: 0, to: 35, signed: 3).fromDevice) == "35")
        #expect(
            end(
                subscription("1", from: 0, to: 35, signed: 3).fromDevice, subscription("1", from: 0, to: 32, signed: 4))
                == "32")
    }

    @Test("one spelling without a line item and one with an empty line item stay two statements, joined once each")
    func emptyLineItem() {
        let bare = subscription("1", from: 0, to: 30).with { $0.webOrderLineItemID = nil }
        let empty = subscription("1", from: 0, to: 30).with { $0.webOrderLineItemID = "" }
        for order in [[bare, empty, empty, bare], [empty, bare, bare, empty]] {
            let kept = OriginalState(order).transactions.map(\.fact.webOrderLineItemID)
            #expect(kept == [nil, ""])
        }
    }
}
