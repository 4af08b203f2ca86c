// What the scenarios of this kind must come to, worked out by hand.
let expectedStatements: [String: [String]] = [
    "several_transaction_ids": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10"
    ],
    "refund_reversed_under_another_id": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "no_line_item_ids": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "reasons_left_out": [
        "ann plus: +active plus.monthly 01-01 | +active pro.monthly 02-15 | expired pro.monthly 03-15 | "
            + "+active pro.monthly 04-01 | expired pro.monthly 05-01",
        "ann premium: +active pro.monthly 02-15 | expired pro.monthly 03-15 | +active pro.monthly 04-01 | "
            + "expired pro.monthly 05-01",
    ],
    "signed_dates_left_out": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | expired news.monthly 04-02"
    ],
    "fractional_milliseconds": [
        "ann news: +active news.monthly 01-01 00:00:00.123 | +in_grace_period news.monthly 02-01 00:00:00.123 | "
            + "+active news.monthly 02-05 00:00:00.009 | expired news.monthly 03-05 00:00:00.009"
    ],
    "tie_refund_wins": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10"
    ],
    "tie_later_expiry_wins": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-06"
    ],
    "nothing_but_noise": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "unknown_fields_everywhere": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "unheard_of_type_carries_a_refund": [
        "ann news: +active news.monthly 01-01 | revoked news.monthly 01-10"
    ],
]
