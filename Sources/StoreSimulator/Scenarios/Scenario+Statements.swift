extension Scenario {
    /// How the store says things: ids, silences, ties and noise.
    static let statements: [Scenario] = [
        Scenario("several_transaction_ids") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.restate(key, underNewID: true, at: on(1, 5))
            let id = $0.restate(key, underNewID: true, at: on(1, 6))
            $0.refund(key, at: on(1, 10), transactionID: id)
        },
        Scenario("refund_reversed_under_another_id") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            let id = $0.restate(key, underNewID: true, at: on(1, 5))
            $0.refund(key, at: on(1, 10), transactionID: id)
            $0.reverseRefund(key, at: on(1, 20))
        },
        Scenario("no_line_item_ids") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1), hasLineItem: false)
            $0.renew(key)
            $0.restate(key, underNewID: true, at: on(2, 5))
        },
        Scenario("reasons_left_out") {
            $0.quirks.missingReason = 100
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.plusMonthly, at: on(1, 1))
            $0.renew(key, purchasedAt: on(1, 31, 12))
            $0.change(key, to: StoreWorld.ProductID.proMonthly, at: on(2, 15))
            $0.resubscribe(key, at: on(4, 1))
        },
        Scenario("signed_dates_left_out") {
            $0.quirks.missingSignedDate = 100
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
            $0.reverseRefund(key, at: on(1, 20))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
        },
        Scenario("fractional_milliseconds") {
            $0.quirks.fractionalMilliseconds = 100
            let key = $0.subscribe(ann, to: news, at: on(1, 1) + 123)
            $0.failToRenew(key, at: on(2, 1, 1), graceEnd: on(2, 17) + 7)
            $0.renew(key, purchasedAt: on(2, 5) + 9)
        },
        Scenario("tie_refund_wins") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.requestConsumption(key, at: on(1, 10), signedAt: on(1, 11))
            $0.allowsTies = true
            $0.refund(key, at: on(1, 10), signedAt: on(1, 11))
        },
        Scenario("tie_later_expiry_wins") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.requestConsumption(key, at: on(1, 10), signedAt: on(1, 11))
            $0.allowsTies = true
            // The renewal statements of the tie differ in a date that no rule reads.
            $0.extend(key, byDays: 5, at: on(1, 10), signedAt: on(1, 11))
        },
        Scenario("nothing_but_noise") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.requestConsumption(key, at: on(1, 2))
            $0.requestConsumption(key, at: on(1, 3))
            $0.announcePrice(key, accepted: false, at: on(1, 4))
            $0.announcePrice(key, accepted: true, at: on(1, 5))
            $0.sayTheUnheardOf(key, at: on(1, 6))
            $0.restate(key, as: "REFUND_DECLINED", at: on(1, 7))
            $0.sendTest(.production, at: on(1, 8))
            $0.sendTest(.sandbox, at: on(1, 8))
            $0.summariseExtension(.production, at: on(1, 9))
            $0.sendExternalPurchaseToken(.production, at: on(1, 10))
            $0.sendExternalPurchaseToken(.sandbox, at: on(1, 10))
            $0.rescindConsent(ann, at: on(1, 11))
        },
        Scenario("unknown_fields_everywhere") {
            $0.quirks.unknownFields = 100
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key)
        },
        Scenario("unheard_of_type_carries_a_refund") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
            $0.relabelLast("MONEY_EVAPORATED", nil)
        },
    ]
}

extension Storyteller {
    /// Calls the last notification something else; what it carries stays.
    mutating func relabelLast(_ type: String, _ subtype: String?) {
        guard let last = notifications.indices.last else { return }
        notifications[last].payload["notificationType"] = .string(type)
        notifications[last].payload["subtype"] = subtype.map(PayloadValue.string)
    }
}
