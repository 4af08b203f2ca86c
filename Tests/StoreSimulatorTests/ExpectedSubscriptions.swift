// What the scenarios of this kind must come to, worked out by hand.
let expectedSubscriptions: [String: [String]] = [
    "first_purchase": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "first_notice_missed": [
        "ann news: +active news.monthly 02-01 | expired news.monthly 03-01"
    ],
    "renewed_on_time": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 04-01"
    ],
    "renewal_charged_early": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "renewal_announced_early": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "late_renewal_leaves_a_gap": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01 | +active news.monthly 02-02 12:00 | "
            + "expired news.monthly 03-02 12:00"
    ],
    "free_trial_converts": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-08"
    ],
    "free_trial_lapses": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 01-08"
    ],
    "paid_up_front": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 04-01"
    ],
    "offer_code_then_promotional": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-15"
    ],
    "auto_renew_off_and_on": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "expired_voluntarily": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "expired_for_the_price": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "resubscribed": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01 | +active news.monthly 04-10 | "
            + "expired news.monthly 05-10"
    ],
    "won_back_with_another_product": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01 | +active newsbundle.yearly 03-01 | "
            + "expired newsbundle.yearly 2027-03-01",
        "ann premium: +active newsbundle.yearly 03-01 | expired newsbundle.yearly 2027-03-01",
    ],
    "upgrade": [
        "ann plus: +active plus.monthly 01-01 | +active pro.monthly 01-15 | expired pro.monthly 02-15",
        "ann premium: +active pro.monthly 01-15 | expired pro.monthly 02-15",
    ],
    "upgrade_with_offer": [
        "ann plus: +active plus.monthly 01-01 | +active pro.monthly 01-15 | expired pro.monthly 03-15",
        "ann premium: +active pro.monthly 01-15 | expired pro.monthly 03-15",
    ],
    "upgrade_never_seen": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 01-15 06:00"
    ],
    "crossgrade_at_once": [
        "ann plus: +active pro.monthly 01-01 | expired pro.monthly 01-15",
        "ann premium: +active pro.monthly 01-01 | +active studio.monthly 01-15 | expired studio.monthly 02-15",
        "ann studio: +active studio.monthly 01-15 | expired studio.monthly 02-15",
    ],
    "downgrade_at_renewal": [
        "ann plus: +active pro.monthly 01-01 | +active plus.monthly 02-01 | expired plus.monthly 03-01",
        "ann premium: +active pro.monthly 01-01 | expired pro.monthly 02-01",
    ],
    "downgrade_charged_early": [
        "ann plus: +active pro.monthly 01-01 | +active plus.monthly 02-01 | expired plus.monthly 03-01",
        "ann premium: +active pro.monthly 01-01 | expired pro.monthly 02-01",
    ],
    "downgrade_called_off": [
        "ann plus: +active pro.monthly 01-01 | expired pro.monthly 03-01",
        "ann premium: +active pro.monthly 01-01 | expired pro.monthly 03-01",
    ],
    "renewal_extended": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-11"
    ],
    "leeway_runs_out": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-02"
    ],
    "leeway_bridges_a_late_renewal": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-02 18:00"
    ],
    "leeway_not_after_billing_problems": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | "
            + "expired news.monthly 02-01 12:00"
    ],
    "leeway_not_after_an_upgrade": [
        "ann plus: +active pro.monthly 01-01 | expired pro.monthly 01-15",
        "ann premium: +active pro.monthly 01-01 | +active studio.monthly 01-15 | expired studio.monthly 02-16",
        "ann studio: +active studio.monthly 01-15 | expired studio.monthly 02-16",
    ],
]
