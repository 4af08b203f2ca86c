import EntitlementCore

extension ComponentNotes {
    /// Of webhooks in RevenueCat's format.
    static let revenueCatEvents: [String: ComponentNotes] = [
        "RevenueCatTestMessage": ComponentNotes("A webhook `TEST`, in RevenueCat's format"),
        "RevenueCatPurchaseEvent": ComponentNotes(
            "What became of a purchase, as RevenueCat's receivers know it; `sequence`, `before` and `after` are Rightful's own",
            [
                "id": "The same however often the event is told",
                "app_id": "The bundle id; `null` for what is of no app",
                "event_timestamp_ms": "When it was found",
                "aliases":
                    "The customer's own id and those linked to it, at most 50; one that is a UUID in lower case and in upper case",
                "subscriber_attributes": "Always empty", "entitlement_id": "The first of `entitlement_ids`",
                "expiration_at_ms":
                    "Until when it gives access without a break, as far as is known, a grace period included; `null` for what does not end",
                "price":
                    "What was paid, in dollars; less than nothing where it went back; `null` where that is not known or was no dollars",
                "is_trial_conversion": "Of `RENEWAL`", "cancel_reason": "Of `CANCELLATION`",
                "expiration_reason": "Of `EXPIRATION`",
                "grace_period_expiration_at_ms": "Of `BILLING_ISSUE`; `null` where there is no grace period",
                "new_product_id": "Of `PRODUCT_CHANGE`", "experiments": "Always empty",
                "sequence": "1, 2, 3… for each customer, environment and endpoint; not of `TEST`",
                "before":
                    "The customer's `entitlements`, as `GET /revenuecat/v1/subscribers/{app_user_id}` has them, before; not of `TEST`",
                "after": "The same after; not of `TEST`",
            ]),
        "RevenueCatTransferEvent": ComponentNotes(
            "That purchases went from one customer to another",
            [
                "transferred_from": "One id, a UUID in lower case and in upper case; empty where they were forgotten",
                "transferred_to": "The same of whom they went to",
            ]),
        "RevenueCatEventStore": ComponentNotes("RevenueCat's `store` of events; what was granted is `PROMOTIONAL`"),
        "RevenueCatEventEnvironment": ComponentNotes("RevenueCat's `environment` of events"),
        "RevenueCatEventPeriodType": ComponentNotes("RevenueCat's `period_type` of events"),
        "RevenueCatEndReason": ComponentNotes("RevenueCat's `cancel_reason` and `expiration_reason`"),
    ].merging(
        MessageType.allCases.filter { $0.format == .revenueCat }.map { type in
            (type.componentName, ComponentNotes("A webhook `\(type.rawValue)`, in RevenueCat's format"))
        }
    ) { $1 }
}
