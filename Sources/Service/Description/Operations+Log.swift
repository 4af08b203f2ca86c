import EntitlementAPI

// What the routes about purchases, the log and the catalog take and answer.
extension APIOperation {
    static let readSubscription = APIOperation(
        "readSubscription", .purchases, "Read an original transaction",
        "One original transaction: its periods, owners and state, claimed or not. What was bought and has no period, such as coins, is "
            + "in `without_period`.",
        [.original, .environment, .at, .knownAt],
        answer: .document(SubscriptionDocument.self, Example.subscription), codes: [.notFound, .unprocessable])

    static let checkSubscription = APIOperation(
        "checkSubscription", .purchases, "Ask the store now",
        "[Asks the store](#asking-the-store), records what the ledger did not know, and answers when that is recorded.",
        [.original, .environment, .idempotencyKey],
        body: Body(StoreCheckRequest.self, #"{"app":"com.example.app"}"#, isRequired: false),
        answer: .document(StoreCheckDocument.self, Example.storeCheck),
        codes: [.notFound, .unprocessable, .wrongEnvironment])

    static let extendSubscription = APIOperation(
        "extendSubscription", .purchases, "Extend a subscription",
        "Asks the App Store to move a subscription's renewal date, as `rightful extend` does: what was asked is an event before it "
            + "is sent, and what the store answered is another. Of the same wish, sent again because no answer came, the store "
            + "carries out one. With `dry_run` nothing is sent; `customer_id` says whose it is, and `doubts` why it will be "
            + "refused.",
        [.original, .environment, .idempotencyKey],
        body: Body(
            ExtensionRequest.self,
            #"{"days":7,"reason_code":"service_issue","reason":"the outage of May","dry_run":true}"#),
        answer: .document(
            ExtensionDocument.self,
            """
            {"object":"renewal_extension","original_transaction_id":"2000000123456780","app":"com.example.app",
             "environment":"production","product_id":"com.example.pro.yearly","customer_id":"c-1","days":7,
             "reason_code":"service_issue","expires_at":"2027-01-01T00:00:00.000Z","would_expire_at":"2027-01-08T00:00:00.000Z",
             "extended_within_year":0,"doubts":[],"unsettled":null,"position":null,"settled_position":null,
             "extended_until":null}
            """), codes: [.notFound, .unprocessable])

    static let signOffer = APIOperation(
        "signOffer", .purchases, "Sign a promotional offer",
        "Signs a [promotional offer](#promotional-offers) for a device, with the app's key from App Store Connect.",
        body: Body(
            OfferSignatureRequest.self,
            """
            {"product_id":"com.example.pro.yearly","offer_id":"half_price_back",
             "app_account_token":"0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"}
            """),
        answer: .document(
            OfferSignatureDocument.self,
            """
            {"object":"offer_signature","app":"com.example.app","product_id":"com.example.pro.yearly",
             "offer_id":"half_price_back","key_id":"ABC1234567","nonce":"1f0c5e9a-5b0e-4c55-9f6e-2f4d8b6a7c10",
             "timestamp":1795374000000,"signature":"MEUCIQDa…"}
            """), headers: [], codes: [.unprocessable])

    static let listDrift = APIOperation(
        "listDrift", .purchases, "List differences",
        "[Differences](operating.md#what-device-ledger-and-store-say-differently) between device, ledger and store of one "
            + "environment, in the order in which they were found, and what resolved each.",
        [.environment, .driftClass, .resolved, .after, .limit],
        answer: .document(DriftListDocument.self, Example.drift))

    static let listCharts = APIOperation(
        "listCharts", .purchases, "List charts", "Which charts there are, and what [figures](charts.md) each has.",
        answer: .document(
            ChartListDocument.self,
            #"{"object":"list","items":[{"name":"refunds","figures":[{"name":"refunded","counted":"within"}]}]}"#),
        headers: [])

    static let readChart = APIOperation(
        "readChart", .purchases, "Read a chart",
        "Figures over time: [what each of them counts](charts.md); as a table where `format` or `Accept` says so. At most 400 "
            + "intervals, and 100,000 numbers.",
        [
            .chart, .environment, .chartFrom, .chartTo, .interval, .product, .knownAt, .minPosition, .chartFormat,
        ],
        answer: .table(ChartDocument.self, Example.chart, csv: Example.chartTable),
        headers: [.ledgerPosition, .disposition], codes: [.notFound, .positionNotReached, .unprocessable])

    // MARK: - The log

    static let listRemarks = APIOperation(
        "listRemarks", .log, "List what is not known",
        "Kinds of things in what stores sent that this version does not know, and products that were sold and of which the "
            + "catalog in force knows nothing, or not how long they run: at most 1000 of each, of every app and environment. Of "
            + "what was sold on the web `stripe` says what the catalog has to name, a price each.",
        answer: .document(
            RemarksDocument.self,
            """
            {"object":"remarks","counted_to":1234,
             "remarks":[{"name":"unknown_field","events":3,"first_position":15,"last_position":1201}],
             "unmapped_products":[{"name":"com.example.new","events":1,"first_position":1201,"last_position":1201},
              {"name":"prod_1","stripe":{"price":"price_1","product":"prod_1"},"events":1,"first_position":1202,
               "last_position":1202}],
             "products_without_duration":[]}
            """))

    static let listEvents = APIOperation(
        "listEvents", .log, "List events",
        "The log as a cursor feed. A transaction comes as often as somebody states it, such as a device and the store: "
            + "count what is used up by `transaction_id`. To a key of one environment or app a page may be short or empty "
            + "while `has_more` is `true`: go on with `next_after` for as long as it is. Beyond the end of the log there is an "
            + "empty page: where `Ledger-Position` stays less than `after`, the log has lost events, as by a restored backup, "
            + "and what takes their place would be passed over.",
        [.after, .limit],
        answer: .document(ListDocument<EventDocument>.self, Example.events))

    static let readEvent = APIOperation(
        "readEvent", .log, "Read an event",
        "One event with its evidence: the signed bytes, and what they say. How many were bought at once stands there alone, as "
            + "`quantity` in the transaction that the App Store has signed.",
        [.eventPosition],
        answer: .document(EventDocument.self, Example.event), codes: [.notFound])

    static let proveEvent = APIOperation(
        "proveEvent", .log, "Prove that an event is in the log",
        "What proves that the event is among the first `size`; see [auditing](auditing.md). A `size` out of range is "
            + "`unprocessable`.", [.eventPosition, .size],
        answer: .document(
            InclusionProofDocument.self,
            """
            {"object":"inclusion_proof","position":15,"size":16,
             "leaf_hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
             "hashes":["60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"]}
            """), codes: [.notFound, .unprocessable])

    static let readLedger = APIOperation(
        "readLedger", .log, "Read the end of the log", "The end of the log and its hash.",
        answer: .document(
            LedgerDocument.self,
            """
            {"object":"ledger","position":1234,"hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
             "fold_version":1,"ledger_id":"5f0f6a1e-0000-4000-8000-000000000001",
             "projections":[{"name":"originals","checkpoint":1234,"version":1}]}
            """))

    static let readCheckpoint = APIOperation(
        "readCheckpoint", .log, "Read a checkpoint",
        "How long the log is and what it holds, signed: a C2SP `tlog-checkpoint`, which covers every event that was acknowledged 5 s "
            + "before it. See [auditing](auditing.md).",
        answer: .texts([
            "text/plain":
                "rightful/5f0f6a1e-0000-4000-8000-000000000001\n1234\nTszzRgjTG6xce+z2AG31kAXYKBgQVtCSCE40HmuwBb0=\n\n"
                + "— rightful/5f0f6a1e-0000-4000-8000-000000000001 VGhpcyBpcyBhbiBleGFtcGxl…\n"
        ]))

    static let proveConsistency = APIOperation(
        "proveConsistency", .log, "Prove that the log only grew",
        "What proves that the first `to` events begin with the first `from`. Sizes out of range are `unprocessable`.",
        [.from, .to],
        answer: .document(
            ConsistencyProofDocument.self,
            """
            {"object":"consistency_proof","from":2,"to":4,
             "hashes":["60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"]}
            """), codes: [.unprocessable])

    // MARK: - The catalog

    static let readCatalog = APIOperation(
        "readCatalog", .catalog, "Read the catalog",
        "Which product gives what. The entity tag is the position at which it was written.", [.ifNoneMatch],
        answer: .document(CatalogForm.self, Example.catalog), headers: [.ledgerPosition, .entityTag])

    static let replaceCatalog = APIOperation(
        "replaceCatalog", .catalog, "Replace the catalog",
        "One event, whatever the number of customers it touches. What of `policy` is left out takes its default. Members that a "
            + "catalog does not have are ignored, and remarked: `\"remarks\": [\"unknown_member:policy.grace_gives_acces\"]`. Where "
            + "it is in force already nothing is written, and the answer is what is in force.",
        [.ifMatch, .idempotencyKey],
        body: Body(CatalogBodyForm.self, Example.catalogBody, limit: { $0.catalogBytes }),
        answer: .document(CatalogForm.self, Example.catalog), headers: [.ledgerPosition, .entityTag],
        codes: [.preconditionFailed])

    static let tryCatalog = APIOperation(
        "tryCatalog", .catalog, "Try a catalog",
        "[What a catalog would change](operating.md#trying-a-catalog) for whom, without applying it. It looks at as many "
            + "customers as it can in six seconds; where these are not all, `next_after` says how to go on.",
        [.at, .knownAt, .after],
        body: Body(CatalogBodyForm.self, Example.catalogBody, limit: { $0.catalogBytes }),
        answer: .document(CatalogTrialDocument.self, Example.catalogTrial), codes: [.unprocessable])

    static let listProducts = APIOperation(
        "listProducts", .catalog, "List products",
        "The catalog's products, where they are sold, and [what they cost on the web](web-checkout.md#prices).",
        [.environment],
        answer: .document(
            ListDocument<ProductDocument>.self,
            """
            {"object":"list","items":[{"product_id":"com.example.pro.yearly","entitlements":["premium"],"app_store":true,
             "web":{"amount":3900,"currency":"eur","interval":"year","interval_count":1,
              "as_of":"2026-11-20T19:00:00.000Z"}}],"has_more":false,"next_after":null}
            """))
}
