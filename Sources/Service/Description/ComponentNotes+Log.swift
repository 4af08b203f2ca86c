// What people are told of purchases, of the log and of the catalog.
extension ComponentNotes {
    static let log: [String: ComponentNotes] = [
        "Subscription": ComponentNotes(
            "One original transaction",
            [
                "state": "`null` before the first period, and for what grants nothing",
                "renews_as": "Another product as which it is to be renewed; `null` where it stays the same",
                "awaits_consent": "It is renewed only once the customer agrees to a higher price",
                "paused": "On the web: nothing is charged until collection goes on",
                "claimed": "Whether it is anybody's", "known_at": "The position the answer rests on",
            ]),
        "SubscriptionPeriod": ComponentNotes(
            "A stretch that one transaction pays for",
            [
                "transaction_ids": "All ids under which the store speaks of it",
                "ends_at": "When access under it ends; `null` for what does not run out",
                "expires_at": "When it would run out by itself",
                "refunded_in_part": "Only a part of what was paid for it was given back",
                "customer_id": "Whose it is; `null` when nobody has claimed it, or the customer was erased",
                "needs_store_check": "A device says that a revocation is gone which the store stated: ask the store",
            ]),
        "SubscriptionPurchase": ComponentNotes(
            "Something that was bought and has no period, such as coins, which are used up",
            [
                "refunded_in_part": "Only a part of what was paid for it was given back",
                "customer_id": "Whose it is; `null` when nobody has claimed it, or the customer was erased",
            ]),
        "SubscriptionEnd": ComponentNotes("What ends a period"),
        "StoreCheck": ComponentNotes(
            "What ledger and store say of one original transaction, before and after the store was asked",
            [
                "app": "`null` for what was bought on the web",
                "recorded": "May name other purchases of the same Apple account",
                "agrees": "`null` where the store states no state", "refused": "How many statements were not believed",
            ]),
        "StoreCheckBefore": ComponentNotes(
            "What both knew when the check began",
            ["ledger": "`null` where it knew nothing", "store": "`null` where it knows nothing"]),
        "StoreCheckAfter": ComponentNotes("What the ledger knows now"),
        "StoreCheckStore": ComponentNotes(
            "What the store says now",
            [
                "state": "`null` for a one-time purchase of the App Store's, and for what was not paid on the web",
                "status": "Apple's own number; `null` for a one-time purchase",
                "stripe_status": "Stripe's own word for a subscription; `null` of anything else",
                "transactions": "How many transactions of this original the store told of",
            ]),
        "StoreCheckRecorded": ComponentNotes("An event that the check appended"),
        "OfferSignature": ComponentNotes(
            "A signed promotional offer, as StoreKit takes it",
            ["timestamp": "In milliseconds since 1970", "signature": "In base64"]),
        "DriftList": ComponentNotes(
            "Differences between device, ledger and store",
            [
                "next_after": "What to send as `after` for the next page",
                "unexplained": "How many of the environment are open and unexplained",
                "not_compared": "Of these, how many were not compared",
                "read_to": "Up to which event the log was gone through",
            ]),
        "DriftListItem": ComponentNotes(
            "One difference, and what resolved it",
            [
                "position": "Of the event that found it", "claimed": "`null` where store and ledger were compared",
                "actual": "What the ledger knew then; `null` where that was nothing",
                "resolved": "`null` while it is open",
                "app": "Left out where nothing tells it",
            ]),
        "DriftListItemHolding": ComponentNotes("What somebody held, or believed to hold, of a product"),
        "DriftListItemResolution": ComponentNotes("What resolved a difference", ["position": "Of the event that did"]),
        "DriftComparison": ComponentNotes("Who was compared with whom"),
        "DriftClass": ComponentNotes("Why a difference came about"),
        "DriftEnd": ComponentNotes("What resolved a difference"),
        "Chart": ComponentNotes(
            "Figures over time",
            [
                "intervals": "One after the other, without gaps", "known_at": "The position the answer rests on",
                "lines": "Those that are 0 throughout are left out",
            ]),
        "ExtensionRequest": ComponentNotes(
            "Some days that a subscriber is to be given",
            [
                "reason_code": "As the store has it", "reason": "Kept with the event, for good; not told to the store",
                "dry_run": "Answers what would be, and sends nothing",
                "again": "Also where the store extended it within the last 24 hours",
            ]),
        "ExtensionReason": ComponentNotes("Why a renewal date is moved, as the store has it"),
        "Extension": ComponentNotes(
            "What moving a renewal date comes to",
            [
                "customer_id": "Whose it is, who is given the days; `null` where it is nobody's",
                "expires_at": "When it ran out before", "would_expire_at": "So many days later",
                "extended_within_year": "As far as known; the store does it twice within 365 days",
                "doubts": "Why it will be refused, as far as can be told",
                "unsettled": "The event of an extension of which nobody knows whether the store was asked",
                "position": "The event that says what was asked; `null` where nothing was sent",
                "settled_position": "The event that says what the store answered",
                "extended_until": "When it runs out now, as the store says",
            ]),
        "ChartList": ComponentNotes("Which charts there are"),
        "ChartListItem": ComponentNotes("A chart and its figures"),
        "ChartListFigure": ComponentNotes("A figure of a chart"),
        "Remarks": ComponentNotes(
            "What the log speaks of that is for a person to look at",
            [
                "counted_to": "Up to which position it is counted",
                "remarks": "By kind, such as `unknown_field`; the most frequent first",
                "unmapped_products": "Sold, and not in the catalog in force; the most frequent first",
                "products_without_duration":
                    "Sold as non-renewing subscriptions, and giving nothing, because the catalog in force has no `duration` "
                    + "for them; the most frequent first",
            ]),
        "RemarksSeen": ComponentNotes(
            "Something the log speaks of, and how often",
            [
                "events": "How many speak of it",
                "stripe": "Of a product that was sold on the web; left out of anything else",
            ]),
        "RemarksStripe": ComponentNotes(
            "What a product of the catalog has to have as `stripe.price`, or as `stripe.product`, to be this one"),
        "ChartName": ComponentNotes("A chart"),
        "ChartStep": ComponentNotes("How long the intervals of a chart are, in UTC"),
        "ChartInterval": ComponentNotes("A stretch of time of which each line has one number"),
        "ChartLine": ComponentNotes(
            "A figure of one product",
            [
                "cohort":
                    "The month in which those began who are counted, such as `2026-03`; `null` where it is all",
                "currency":
                    "In which the money was paid, by ISO 4217; `values` are thousandths of its unit. `null` where they count something else",
                "values": "One for each interval",
            ]),
        "ChartCounting": ComponentNotes(
            "Whether a number is how many there are at the end of an interval, or how many things happened within it"),
        "Event": ComponentNotes(
            "One event of the log",
            [
                "customer_id": "`null` where nobody is named, or somebody who was forgotten",
                "occurred_at": "The statement's signed date",
                "facts": "What it states; which members these are depends on `type`",
                "evidence_sha256": "Of the signed bytes; `null` where there are none",
                "previous_hash": "The `hash` of the event before",
                "evidence": "Only where one event is asked for; `null` where there is none, or it was erased",
            ]),
        "EventList": ComponentNotes(
            "A page of the log", ["next_after": "What to send as `after` for the next page"]),
        "EventNotification": ComponentNotes("The label of the notification it came in"),
        "EventEvidence": ComponentNotes(
            "The signed bytes, and what they say",
            [
                "payload":
                    "What they say, as far as common numbers and texts can: what signs is the text itself. Numbers of more digits are "
                    + "rounded, and it is `null` where it cannot be shown",
                "signature": "Of a webhook of Stripe's: the header `Stripe-Signature` that came with it",
            ]),
        "InclusionProof": ComponentNotes(
            "What proves that an event is in the log; hashes in hexadecimal digits",
            ["size": "How many events the tree covers", "hashes": "From the leaf upwards"]),
        "ConsistencyProof": ComponentNotes("What proves that the log only grew; hashes in hexadecimal digits"),
        "Ledger": ComponentNotes("The end of the log", ["ledger_id": "The ledger's own id"]),
        "LedgerProjection": ComponentNotes("Something that is derived from the log, and how far"),
        "Catalog": ComponentNotes(
            "Which product gives what",
            [
                "position": "Where it was written; 0 where none was",
                "remarks":
                    "In the answer to whoever wrote it: what a person should look at, such as `unknown_member:policy.leeway`; left "
                    + "out where there is nothing",
            ]),
        "CatalogBody": ComponentNotes("Which product is to give what"),
        "CatalogProduct": ComponentNotes(
            "A product and what it gives",
            [
                "duration":
                    "For how long, of what the store does not end by itself: an ISO 8601 duration, such as `P90D`",
                "stripe": "How it is sold on the web", "app_store": "`false` for what is sold on the web only",
            ]),
        "CatalogStripe": ComponentNotes(
            "How Stripe sells a product",
            ["price": "What a checkout sells", "sandbox_price": "The same in Stripe's test mode"]),
        "CatalogTrial": ComponentNotes(
            "What a catalog would change",
            [
                "at": "The instant at which answers were compared", "known_at": "The position the answer rests on",
                "catalog_position": "Where the catalog was written that is in force there",
                "complete": "Whether everybody was looked at",
                "next_after":
                    "What to send as `after`, with the same `at` and `known_at`, to look at the others; the counts are "
                    + "then to be added up",
                "customers": "How many were looked at of whom something is known",
                "remarks": "What a person should look at; left out where there is nothing",
            ]),
        "CatalogTrialPopulation": ComponentNotes("How many customers were looked at"),
        "CatalogTrialEffect": ComponentNotes(
            "For how many customers an entitlement would read otherwise", ["examples": "The first ten of them"]),
        "CatalogTrialExample": ComponentNotes(
            "One of them",
            ["before": "`null` where it was never held", "after": "`null` where it would never have been held"]),
        "CatalogTrialReading": ComponentNotes(
            "How the entitlement reads, or would read", ["until": "`null`: without end, as far as known"]),
        "CatalogTrialDifference": ComponentNotes(
            "In what the two catalogs differ",
            [
                "products_removed": "What the present one has, and the proposed one has not",
                "products_changed": "What both have, and of which they say something else",
                "entitlements_removed": "What some product of the present one gives, and none of the proposed one",
            ]),
        "CatalogEffectKind": ComponentNotes(
            "What would be otherwise: there is access that there is not now, there is none any more, or it ends at another "
                + "instant"),
        "CatalogPolicy": ComponentNotes(
            "What gives access and what does not; what is left out takes its default",
            [
                "web_grace_days":
                    "Answered, as `web_dispute` is, where something is sold on the web, or one of the two is not as by default"
            ]),
        "StripeProductMode": ComponentNotes("How often something is paid"),
        "ProratedRefundPolicy": ComponentNotes("What a refund of a part does"),
        "WebDisputePolicy": ComponentNotes("What a dispute of a payment does"),
        "Product": ComponentNotes(
            "A product of the catalog and where it is sold",
            [
                "app_store": "Whether the App Store sells it",
                "web": "`null` where it is not sold on the web, or its price is not known now",
            ]),
        "ProductWebPrice": ComponentNotes(
            "What a product costs on the web",
            [
                "amount": "In the currency's smallest unit; `null` where it depends on how much is bought",
                "currency": "ISO 4217, in lower case",
                "interval": "`day`, `week`, `month` or `year`; `null` for what is paid once",
                "as_of": "When Stripe said so",
            ]),
        "ProductList": ComponentNotes("The catalog's products", ["next_after": "Always `null`: there is one page"]),
    ]
}
