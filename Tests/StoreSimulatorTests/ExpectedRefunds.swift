// What the scenarios of this kind must come to, worked out by hand.
let expectedRefunds: [String: [String]] = [
    "refund_of_the_running_period": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10"
    ],
    "refund_then_renewed": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10 | +active news.monthly 02-01 | "
            + "expired news.monthly 03-01"
    ],
    "refund_then_resubscribed": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10 | +active news.monthly 03-01 | "
            + "expired news.monthly 04-01"
    ],
    "refund_of_an_old_period": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "refund_after_the_end": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01 | revoked news.monthly 02-10"
    ],
    "refund_after_the_end_then_resubscribed": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01 | revoked news.monthly 02-10 | "
            + "+active news.monthly 03-01 | expired news.monthly 04-01"
    ],
    "refund_in_grace": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | revoked news.monthly 02-10"
    ],
    "refund_in_retry": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | revoked news.monthly 02-10"
    ],
    "refund_in_leeway": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 02-01 12:00"
    ],
    "refund_reversed": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "refund_reversed_after_the_end": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "refund_reversed_and_refunded_again": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-20"
    ],
    "refund_of_an_upgrade": [
        "ann plus: +active plus.monthly 01-01 | +active pro.monthly 01-15 | revoked pro.monthly 01-20",
        "ann premium: +active pro.monthly 01-15 | revoked pro.monthly 01-20",
    ],
    "refund_of_a_lifetime_purchase": [
        "ann premium: +active lifetime 01-01 | revoked lifetime 03-01"
    ],
    "refund_of_a_lifetime_purchase_reversed": [
        "ann premium: +active lifetime 01-01"
    ],
    "refund_of_a_season": [
        "ann season: +active season 01-01 | revoked season 02-01"
    ],
    "prorated_refund_ends_access": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10"
    ],
    "prorated_refund_keeps_access": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "full_refund_ends_access_all_the_same": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10"
    ],
]
