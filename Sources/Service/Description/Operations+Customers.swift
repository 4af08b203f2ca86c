import EntitlementAPI
import EntitlementCore
import RevenueCatAPI

// What the routes about one customer take and answer.
extension APIOperation {
    static let readEntitlements = APIOperation(
        "readEntitlements", .customers, "Read entitlements",
        "What the customer holds and held, lapsed ones included. Somebody unknown has an empty list; `also_in` then names the "
            + "environments that know them. The entity tag covers the list `entitlements` alone.",
        [.customer, .environment, .at, .knownAt, .minPosition, .ifNoneMatch],
        answer: .document(EntitlementsDocument.self, Example.entitlements), headers: [.ledgerPosition, .entityTag],
        codes: [.positionNotReached, .unprocessable])

    static let readTimeline = APIOperation(
        "readTimeline", .customers, "Read the timeline",
        "How each entitlement read and will read over time: intervals in order, without gaps from the first one on.",
        [.customer, .environment, .knownAt, .entitlement],
        answer: .document(TimelineDocument.self, Example.timeline), codes: [.unprocessable])

    static let explain = APIOperation(
        "explainEntitlements", .customers, "Explain",
        "The decision, the events behind it, what else was considered (also what was bought on the web and is not paid yet: "
            + "`unpaid`, `payment_failed`, `not_billed_yet`), and what would change it. `catalog_change` is looked for among "
            + "the last \(CustomerHistory.catalogLimit - 1) changes of the catalog, and `null` where none of these made a "
            + "difference.",
        [.customer, .environment, .entitlement, .at, .knownAt],
        answer: .document(ExplanationDocument.self, Example.explanation), codes: [.unprocessable])

    static let listCustomerEvents = APIOperation(
        "listCustomerEvents", .customers, "List a customer's events",
        "The customer's events, [by the links in force](privacy.md#what-is-handed-out-of-others). What a link, a transfer or the "
            + "undoing of one adds or takes away may lie before a cursor: whoever keeps a copy reads it again from 0 after an event "
            + "`linked`, `transferred` or `transfer_undone`.",
        [.customer, .environment, .after, .limit],
        answer: .document(ListDocument<EventDocument>.self, Example.events), codes: [.unprocessable])

    static let makeToken = APIOperation(
        "createCustomerToken", .customers, "Make a customer's token",
        "A token for the customer's device, and the `app_account_token` that their purchases are to bear.",
        [.customer, .environment, .idempotencyKey],
        body: Body(
            CustomerTokenRequestDocument.self, #"{"environment":"production","expires_in":3600}"#, isRequired: false),
        answer: .document(
            CustomerTokenDocument.self,
            """
            {"object":"customer_token","token":"rc_AgAAAAGMs…","customer_id":"c-1","environment":"production",
             "expires_at":"2026-11-20T20:00:00.000Z","app_account_token":"0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"}
            """), headers: [], codes: [.unprocessable, .notFound])

    static let link = APIOperation(
        "linkCustomer", .customers, "Link",
        "Ties an identity or another customer id to this one; `undo` takes a link back. `remarks` say what may be a slip: "
            + "`not_a_uuid:…` of an `app_account_token`, and `not_a_number:…` of an `app_transaction_id`, that no purchase in the App "
            + "Store can bear. See [whose purchases](#whose-purchases).",
        [.customer, .environment, .idempotencyKey],
        body: Body(LinkRequest.self, #"{"customer_id":"device-17"}"#),
        answer: .document(
            LinkDocument.self,
            """
            {"object":"link","position":21,"environment":"production","customer_id":"c-1","linked":"device-17",
             "until_now":null}
            """), codes: [.ownershipConflict, .unprocessable, .notFound])

    static let transfer = APIOperation(
        "transferPurchase", .customers, "Transfer",
        "Moves an original transaction from this customer to another, or gives one that is nobody's to this customer, "
            + "where `to` names them; `undo` takes a transfer back. With `dry_run` it answers what would be, and records "
            + "nothing. `others` is there where periods of somebody else go along, or come back. "
            + "See [whose purchases](#whose-purchases).",
        [.customer, .environment, .idempotencyKey],
        body: Body(
            TransferRequest.self,
            #"{"original_transaction_id":"2000000123456780","to":"c-2","reason":"changed their account","dry_run":true}"#
        ),
        answer: .document(TransferDocument.self, Example.transfer),
        codes: [.ownershipConflict, .unprocessable, .notFound])

    static let grant = APIOperation(
        "grantEntitlement", .customers, "Grant",
        "Gives an entitlement without a purchase. Without `until` it has no end. The `reason` is kept in the log for good: it "
            + "names nobody. `remarks` say what may be a slip: `unknown_entitlement:…`, `unknown_member:…`.",
        [.customer, .environment, .idempotencyKey],
        body: Body(
            GrantRequest.self,
            #"{"entitlement":"premium","until":"2027-01-01T00:00:00.000Z","reason":"made good for an outage"}"#),
        answer: .document(
            GrantDocument.self,
            """
            {"object":"grant","position":22,"environment":"production","grant_id":"grant_0f3a9c5d7e1b2468","customer_id":"c-1",
             "entitlement":"premium","until":"2027-01-01T00:00:00.000Z","reason":"made good for an outage"}
            """), codes: [.unprocessable, .notFound])

    static let revokeGrant = APIOperation(
        "revokeGrant", .customers, "Revoke a grant", "Ends a grant.",
        [.customer, .environment, .idempotencyKey],
        body: Body(RevokeGrantRequest.self, #"{"grant_id":"grant_0f3a9c5d7e1b2468","reason":"given by mistake"}"#),
        answer: .document(
            GrantRevocationDocument.self,
            """
            {"object":"grant_revocation","position":23,"environment":"production","grant_id":"grant_0f3a9c5d7e1b2468",
             "customer_id":"c-1","reason":"given by mistake"}
            """), codes: [.unprocessable, .notFound])

    static let preview = APIOperation(
        "previewCommand", .customers, "Foresee a command",
        "What a grant, the revocation of one, or a link would change, as it stands now: everybody whom it names, before and "
            + "after. Nothing is recorded, and what would be refused is refused. A transfer has `dry_run`.",
        [.customer, .environment],
        body: Body(
            PreviewRequest.self,
            #"{"grant":{"entitlement":"premium","until":"2027-01-01T00:00:00.000Z","reason":"made good for an outage"}}"#
        ),
        answer: .document(PreviewDocument.self, Example.preview),
        codes: [.ownershipConflict, .unprocessable, .notFound])

    static let forgetCustomer = APIOperation(
        "forgetCustomer", .customers, "Forget a customer",
        "Erases who somebody is, and the evidence that says so, [for good](privacy.md): it is not undone. The events stay, and with "
            + "them every hash. It takes a role that owns the tables: with an embedded database, or where "
            + "`migrate_database_url` is configured. Under an `Idempotency-Key` the answer is kept, which names nobody. Of the key and the "
            + "request hashes alone are kept, from which nobody finds out who was forgotten without the key: so let it be "
            + "random.",
        [.customer, .idempotencyKey],
        body: Body(ForgetRequest.self, #"{"confirm":"c-1"}"#),
        answer: .document(
            ForgettingDocument.self,
            """
            {"object":"forgetting","dry_run":false,"identities":2,"evidence":5,"shared_app_transactions":0,
             "kept_aliases":0,"shared_mail_addresses":0,"unreadable_evidence":0,"charges":[{"original_transaction_id":"2000000123456780",
              "environment":"production","product_id":"com.example.pro.yearly","by":"app_store"}],"positions":[1235]}
            """), codes: [.notFound, .unprocessable])

    static let exportCustomer = APIOperation(
        "exportCustomer", .customers, "Export a customer",
        "What the log [ties to a customer](privacy.md#what-is-handed-out-of-others), as the file that `rightful export` writes: "
            + "events with their facts and evidence, identities, every catalog that was ever applied, and a signed checkpoint that "
            + "binds them. Of more than 50,000 events in an environment none is made: `unprocessable`. One is made at a time, within "
            + "seconds; where that is not enough, the answer is `unavailable`, and `rightful export` makes it.",
        [.customer, .exportEnvironment],
        answer: .foreign("A customer's export", #"{"object":"customer_export"}"#),
        headers: [.ledgerPosition, .disposition], codes: [.notFound, .unprocessable])

    static let findCustomers = APIOperation(
        "findCustomers", .customers, "Find whose a purchase is",
        "Whoever has a purchase that bears it now, a thousand purchases at most: of more `has_more` is `true`, and no cursor leads "
            + "on. Exactly one of the four is named; see [whose a purchase is](#whose-a-purchase-is).",
        [.transactionID, .appAccountToken, .appTransactionID, .orderID],
        answer: .document(
            ListDocument<CustomerMatchDocument>.self,
            """
            {"object":"list","items":[{"customer_id":"c-1","environment":"production",
             "original_transaction_id":"2000000123456780"}],"has_more":false,"next_after":null}
            """), codes: [.unprocessable])

    static let readRevenueCatSubscriber = APIOperation(
        "readRevenueCatSubscriber", .customers, "Read as RevenueCat does",
        "The customer [as RevenueCat's REST API v1 shows them](revenuecat.md); errors have its shape, too.",
        [.appUser, .environment, .isSandbox],
        answer: .document(SubscriberDocument.self, Example.revenueCatSubscriber), codes: [.unprocessable])

    // MARK: - Devices

    static let reconcile = APIOperation(
        "reconcileDevice", .devices, "Reconcile",
        "A device's signed statements in; the truth, what to finish, the drift and a pass out. "
            + "See [devices](#devices).",
        [.customer, .environment],
        body: Body(
            ReconcileRequest.self,
            """
            {"app":"com.example.app","environment":"auto","signed_transactions":["eyJhbGciOiJFUzI1NiIsIng1YyI6W10…"],
             "signed_renewal_infos":[],"app_transaction":"eyJhbGciOiJFUzI1NiIsIng1YyI6W10…",
             "claims":[{"product_id":"com.example.pro.yearly","state":"active","until":"2027-01-01T00:00:00.000Z"}]}
            """, limit: { $0.reconcileBytes }),
        answer: .document(ReconciliationDocument.self, Example.reconciliation),
        codes: [.unknownApp, .wrongEnvironment, .unprocessable])

    static let openCheckout = APIOperation(
        "openCheckout", .devices, "Open a checkout",
        "Opens a [page of Stripe's](web-checkout.md#the-checkout) on which is paid. A publishable key sends an "
            + "`app_transaction` that proves whose device it is. `already_owned` is about this product alone: "
            + "[what is refused](web-checkout.md#what-is-refused), and what is left to whoever asks.",
        [.customer, .environment, .idempotencyKey],
        body: Body(
            CheckoutRequest.self, #"{"product_id":"com.example.pro.yearly","app_transaction":"eyJhbGciOiJFUzI1NiIs…"}"#,
            limit: { $0.checkoutBytes }),
        answer: .document(
            CheckoutDocument.self,
            """
            {"object":"checkout","id":"cs_live_a1b2c3","url":"https://checkout.stripe.com/c/pay/cs_live_a1b2c3",
             "expires_at":"2026-11-20T20:00:00.000Z","product_id":"com.example.pro.yearly"}
            """), headers: [], codes: [.alreadyOwned, .unprocessable, .unknownApp, .wrongEnvironment])

    static let openPortal = APIOperation(
        "openPortal", .devices, "Open the portal",
        "Opens a page of Stripe's on which the customer [looks after](web-checkout.md#the-portal) what they bought. "
            + "`not_found` where it is not known that they [paid](web-checkout.md#who-paid) for anything.",
        [.customer, .environment],
        body: Body(
            PortalRequest.self, #"{"return_url":"https://example.com/account"}"#, isRequired: false,
            limit: { $0.checkoutBytes }),
        answer: .document(
            PortalDocument.self, #"{"object":"portal","url":"https://billing.stripe.com/p/session/live_YWNjdF8x"}"#),
        headers: [], codes: [.notFound, .unprocessable, .unknownApp, .wrongEnvironment])
}
