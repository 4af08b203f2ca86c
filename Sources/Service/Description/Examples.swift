/// What answers look like; each is read and written again by its type when the tests run.
enum Example {
    static let chart = """
        {"object":"chart","name":"active","environment":"production","interval":"month",
         "intervals":[{"from":"2026-09-01T00:00:00.000Z","until":"2026-10-01T00:00:00.000Z","is_over":true},
          {"from":"2026-10-01T00:00:00.000Z","until":"2026-11-01T00:00:00.000Z","is_over":false}],
         "known_at":1234,"fold_version":1,
         "lines":[{"figure":"active","counted":"at_end","product_id":"com.example.pro.yearly","source":"app_store",
          "cohort":null,"currency":null,"values":[41,44]}]}
        """

    static let catalogTrial = """
        {"object":"catalog_trial","at":"2026-11-20T19:00:00.000Z","known_at":1234,"catalog_position":3,"fold_version":1,
         "complete":true,"next_after":null,
         "customers":[{"environment":"production","count":812},{"environment":"sandbox","count":3}],
         "effects":[{"environment":"production","entitlement":"premium","effect":"loses","customers":2,
          "examples":[{"customer_id":"c-1",
           "before":{"gives_access":true,"state":"active","until":"2027-01-01T00:00:00.000Z",
            "product_id":"com.example.pro.yearly"},"after":null}]}],
         "difference":{"products_removed":["com.example.pro.yearly"],"products_added":[],"products_changed":[],
          "entitlements_removed":[],"entitlements_added":["season"],"policy_changed":false}}
        """

    static let chartTable =
        "from,until,is_over,figure,counted,product_id,source,cohort,currency,value\r\n"
        + "2026-09-01T00:00:00.000Z,2026-10-01T00:00:00.000Z,true,active,at_end,com.example.pro.yearly,app_store,,,41\r\n"

    private static let entitlement = """
        {"id":"premium","gives_access":true,"state":"active","since":"2026-01-01T00:00:00.000Z",
         "until":"2027-01-01T00:00:00.000Z","product_id":"com.example.pro.yearly","source":"app_store",
         "ownership":"purchased","original_transaction_id":"2000000123456780","will_renew":true,
         "offer":{"type":"introductory","discount":"free_trial"},"reason":{"code":"paid_period","positions":[12,15]}}
        """

    static let entitlements = """
        {"object":"entitlements","customer_id":"c-1","environment":"production","at":"2026-11-20T19:00:00.000Z",
         "known_at":1234,"fold_version":1,"entitlements":[\(entitlement)]}
        """

    static let preview = """
        {"object":"preview","environment":"production","known_at":1234,"customers":[{"customer_id":"c-1","before":[],
         "after":[\(entitlement)]}]}
        """

    static let console = """
        {"object":"console","session":{"key":{"id":"key_1","name":"support","scopes":["customers:read","events:read"],
         "environment":null,"app":null},"token":"q3Zb5vYp0m2n4o6q8s0u2w4y6A8C0E2G4I6K8M0O2Q4",
         "created_at":"2026-11-20T19:00:00.000Z","idle_ends_at":"2026-11-20T19:30:00.000Z",
         "ends_at":"2026-11-21T07:00:00.000Z"}}
        """

    private static let timelineEntitlement = """
        {"id":"premium","intervals":[{"from":"2026-01-01T00:00:00.000Z","until":"2027-01-01T00:00:00.000Z",
         "state":"active","gives_access":true,"product_id":"com.example.pro.yearly","source":"app_store",
         "original_transaction_id":"2000000123456780","positions":[12,15]}]}
        """

    static let timeline = """
        {"object":"timeline","customer_id":"c-1","environment":"production","known_at":1234,"fold_version":1,
         "entitlements":[\(timelineEntitlement)]}
        """

    static let explanation = """
        {"object":"explanation","customer_id":"c-1","environment":"production","at":"2026-11-20T19:00:00.000Z",
         "known_at":1234,"fold_version":1,
         "catalog":{"position":3,"recorded_at":"2025-12-01T09:00:00.000Z","policy":\(policy),"products":[\(product)]},
         "entitlements":[{"id":"premium","decision":\(entitlement),
          "rule":{"code":"paid_period","sentence":"On 20 November 2026, 19:00 UTC, premium is open, because \
        com.example.pro.yearly is paid from 1 January 2026, 00:00 UTC until 1 January 2027, 00:00 UTC."},
          "events":[{"position":15,"type":"renewed","occurred_at":"2026-01-01T00:00:01.000Z",
           "recorded_at":"2026-01-01T00:00:02.120Z","source":"app_store_notification","evidence_sha256":"\(hash)",
           "notification":{"type":"DID_RENEW","subtype":null,"uuid":"3838df56-31ab-4e2d-9f44-9b2b3b6b9a11"},
           "ownership":"purchased"}],
          "considered":[],"would_change":[{"code":"renewal","at":"2027-01-01T00:00:00.000Z",
           "sentence":"The store is to renew com.example.pro.yearly by 1 January 2027, 00:00 UTC; that renewal has \
        not been heard of yet."}],"catalog_change":null}],"conflicts":[]}
        """

    static let transfer = """
        {"object":"transfer","position":null,"dry_run":true,"environment":"production",
         "original_transaction_id":"2000000123456780","from":{"customer_id":"c-1","before":[\(entitlement)],"after":[]},
         "to":{"customer_id":"c-2","before":[],"after":[\(entitlement)]},
         "others":[{"customer_id":"c-3","before":[],"after":[]}]}
        """

    static let subscription = """
        {"object":"subscription","original_transaction_id":"2000000123456780","environment":"production",
         "at":"2026-11-20T19:00:00.000Z","known_at":1234,"fold_version":1,"state":"active",
         "product_id":"com.example.pro.yearly","will_renew":true,"renews_as":null,"awaits_consent":false,
         "paused":false,"claimed":true,
         "periods":[{"product_id":"com.example.pro.yearly","transaction_ids":["2000000123456790"],
          "starts_at":"2026-01-01T00:00:00.000Z","ends_at":"2027-01-01T00:00:00.000Z",
          "expires_at":"2027-01-01T00:00:00.000Z","ended_by":"expiry","revoked_at":null,"refunded_in_part":false,
          "ownership":"purchased","offer":null,"customer_id":"c-1","positions":[15],"needs_store_check":false}],
         "without_period":[]}
        """

    static let storeCheck = """
        {"object":"store_check","original_transaction_id":"2000000123456780","app":"com.example.app",
         "environment":"production","checked_at":"2026-11-20T19:00:00.000Z",
         "before":{"ledger":\(subscription),
          "store":{"state":"active","status":1,"stripe_status":null,"product_id":"com.example.pro.yearly",
           "transaction_id":"2000000123456790","expires_at":"2027-01-01T00:00:00.000Z","revoked_at":null,
           "will_renew":true,"grace_ends_at":null,"transactions":2}},
         "recorded":[{"position":1235,"original_transaction_id":"2000000123456780"}],
         "after":{"ledger":\(subscription)},"agrees":true,"refused":0}
        """

    static let drift =
        #"{"object":"list","items":[\#(driftItem)],"has_more":false,"next_after":51,"#
        + #""unexplained":0,"not_compared":0,"read_to":53}"#

    static let driftItem = """
        {"object":"drift","position":51,"environment":"production","between":"device_ledger",
         "class":"late_notification","customer_id":"c-1","product_id":"com.example.pro.yearly",
         "original_transaction_id":"2000000123456780","app":"com.example.app","found_at":"2026-11-20T14:00:00.000Z",
         "claimed":{"state":"active","until":"2027-11-20T13:00:00.000Z"},"actual":{"state":"expired","until":null},
         "explanation":"The device was right: the store's notification arrived later.",
         "resolved":{"at":"2026-11-20T14:02:10.000Z","position":53,"by":"notification"}}
        """

    private static let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

    private static func event(_ more: String = "") -> String {
        """
        {"position":15,"id":"evt_0f3a9c5d7e1b2468","type":"renewed","environment":"production",
         "source":"app_store_notification",
         "customer_id":"c-1","original_transaction_id":"2000000123456780","transaction_id":"2000000123456790",
         "product_id":"com.example.pro.yearly","occurred_at":"2026-01-01T00:00:01.000Z",
         "recorded_at":"2026-01-01T00:00:02.120Z",
         "notification":{"type":"DID_RENEW","subtype":null,"uuid":"3838df56-31ab-4e2d-9f44-9b2b3b6b9a11"},
         "facts":{"bundle_id":"com.example.app","remarks":[]},"evidence_sha256":"\(hash)","previous_hash":"\(hash)",
         "hash":"\(hash)"\(more)}
        """
    }

    static let recordedEvent = event()
    static let event = event(
        #","evidence":{"signed_payload":"eyJhbGciOiJFUzI1NiIsIng1YyI6W10…","payload":{"notificationType":"DID_RENEW"}}"#
    )
    static let events = #"{"object":"list","items":[\#(event())],"has_more":true,"next_after":15}"#

    private static let product = #"{"product_id":"com.example.pro.yearly","entitlements":["premium"]}"#
    private static let policy = """
        {"grace_gives_access":true,"billing_retry_gives_access":false,"leeway_seconds":0,"prorated_refund":"ends_access"}
        """
    static let catalog = #"{"object":"catalog","position":3,"products":[\#(product)],"policy":\#(policy)}"#
    static let catalogBody = """
        {"products":[\(product),{"product_id":"com.example.season","entitlements":["season"],"duration":"P90D"}],
         "policy":{"grace_gives_access":true}}
        """

    static let reconciliation = """
        {"object":"reconciliation","customer_id":"c-1","environment":"production","position":1234,"fold_version":1,
         "at":"2026-11-20T19:00:00.000Z","entitlements":[\(entitlement)],"timeline":[\(timelineEntitlement)],
         "catalog":\(catalog),"finish":["2000000123456790"],
         "results":[{"transaction_id":"2000000123456790","status":"recorded"}],"renewal_results":[],
         "app_transaction":{"status":"accepted"},"proof":"app_transaction","drift":[],"pass":"eyJhbGciOiJFUzI1NiIs…",
         "ledger_id":"5f0f6a1e-0000-4000-8000-000000000001"}
        """

    static let streamItem = """
        {"app":"com.example.app","environment":"production","source":"app_store",
         "last_heard_at":"2026-11-20T13:58:04.120Z","silent":false,"overdue":2,
         "oldest_overdue_at":"2026-11-20T06:00:00.000Z",
         "sweep":{"state":"idle","from":"2026-11-20T11:00:00.000Z","completed_until":"2026-11-20T14:00:00.000Z",
          "completed_at":"2026-11-20T14:00:01.310Z","last_error":null,"gap":null}}
        """
    static let streams = #"{"object":"list","items":[\#(streamItem)]}"#

    static func endpoint(secret: Bool = false) -> String {
        """
        {"object":"webhook_endpoint","id":"we_1","url":"https://example.com/rightful",
         "types":["entitlements.changed"],"environment":"production","app":null,"format":"standard",
         "has_authorization_header":false,"description":null,
         "status":"active","health":"ok","paused_because":null,"failing_since":null,"held_until":null,"waiting":0,"failed":0,
         "created_at":"2026-11-20T12:00:00.000Z","position":30\(secret ? #","secret":"whsec_AAECAwQFBgcICQoL…""# : "")}
        """
    }
    static let endpoints = #"{"object":"list","items":[\#(endpoint())],"has_more":false,"next_after":30}"#
    static let delivery = """
        {"object":"webhook_delivery","id":"msg_0b9f2c4d6e8a4f1c9d3e5a7b1c2d4e6f","number":7,"state":"delivered","type":"entitlements.changed",
         "position":31,"at":"2026-11-20T12:00:00.000Z","environment":"production","customer_id":"c-1","sequence":1,
         "attempts":1,"first_attempt_at":"2026-11-20T12:00:00.100Z","last_attempt_at":"2026-11-20T12:00:00.100Z",
         "next_attempt_at":null,"status":200,"failure":null}
        """
    static let testDelivery = """
        {"object":"webhook_delivery","id":"msg_5d1e7f3a9b2c4e8f8a6d0c3b5e7f9a1d","number":8,"state":"waiting","type":"test",
         "position":31,"at":"2026-11-20T12:00:00.000Z","environment":null,"customer_id":null,"sequence":null,
         "attempts":0,"first_attempt_at":null,"last_attempt_at":null,
         "next_attempt_at":"2026-11-20T12:00:00.000Z","status":null,"failure":null}
        """
    static let deliveries = #"{"object":"list","items":[\#(delivery)],"has_more":false,"next_after":7}"#

    static let change = """
        {"customer_id":"c-1","endpoint":"we_1","environment":"production","sequence":2,"position":31,
         "cause":{"kind":"time","positions":[],"at":"2027-01-01T00:00:00.000Z"},"before":[\(entitlement)],"after":[]}
        """
    static let conflict = """
        {"position":40,"environment":"production","customer_id":"c-2","original_transaction_id":"2000000123456780"}
        """

    static let revenueCatEvent = """
        {"id":"6BA7B810-9DAD-81D1-80B4-00C04FD430C8","type":"INITIAL_PURCHASE","app_id":"com.example.app","store":"APP_STORE",
         "environment":"PRODUCTION","event_timestamp_ms":1795201200000,"app_user_id":"c-1","original_app_user_id":"c-1",
         "aliases":["c-1"],"subscriber_attributes":{},"product_id":"com.example.pro.yearly","entitlement_ids":["premium"],
         "entitlement_id":"premium","period_type":"NORMAL","purchased_at_ms":1795201200000,
         "expiration_at_ms":1826737200000,"transaction_id":"2000000123456789",
         "original_transaction_id":"2000000123456780","is_family_share":false,"offer_code":null,"price":null,
         "price_in_purchased_currency":null,"currency":null,"country_code":null,"tax_percentage":null,
         "commission_percentage":null,"takehome_percentage":null,"presented_offering_id":null,"renewal_number":null,
         "metadata":null,"experiments":[],"sequence":1,"before":{},"after":
         {"premium":{"expires_date":"2027-11-20T19:00:00Z","grace_period_expires_date":null,
          "product_identifier":"com.example.pro.yearly","purchase_date":"2026-11-20T19:00:00Z"}}}
        """
    static let revenueCatTransfer = """
        {"id":"6BA7B811-9DAD-81D1-80B4-00C04FD430C8","type":"TRANSFER","app_id":"com.example.app","store":"APP_STORE",
         "environment":"PRODUCTION","event_timestamp_ms":1795201200000,"transferred_from":["c-1"],
         "transferred_to":["c-2"],"sequence":1,"before":{},"after":
         {"premium":{"expires_date":"2027-11-20T19:00:00Z","grace_period_expires_date":null,
          "product_identifier":"com.example.pro.yearly","purchase_date":"2026-11-20T19:00:00Z"}}}
        """

    static let revenueCatSubscriber = """
        {"request_date":"2026-11-20T19:00:00Z","request_date_ms":1795201200000,"subscriber":{
         "entitlements":{"premium":{"expires_date":"2027-01-01T00:00:00Z","grace_period_expires_date":null,
          "product_identifier":"com.example.pro.yearly","purchase_date":"2026-01-01T00:00:00Z"}},
         "first_seen":"2025-01-01T00:00:02Z","last_seen":"2026-01-01T00:00:02Z",
         "management_url":"https://apps.apple.com/account/subscriptions","non_subscriptions":{},
         "original_app_user_id":"c-1","original_application_version":null,"original_purchase_date":null,
         "other_purchases":{},"subscriber_attributes":{},
         "subscriptions":{"com.example.pro.yearly":{"auto_resume_date":null,"billing_issues_detected_at":null,
          "display_name":null,"expires_date":"2027-01-01T00:00:00Z","grace_period_expires_date":null,
          "is_sandbox":false,"original_purchase_date":"2025-01-01T00:00:00Z","ownership_type":"PURCHASED",
          "period_type":"normal","price":null,"purchase_date":"2026-01-01T00:00:00Z","refunded_at":null,
          "store":"app_store","store_transaction_id":"2000000123456790","unsubscribe_detected_at":null}}}}
        """
}
