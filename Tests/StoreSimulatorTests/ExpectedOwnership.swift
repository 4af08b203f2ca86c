// What the scenarios of this kind must come to, worked out by hand.
let expectedOwnership: [String: [String]] = [
    "no_account_token": [
        "apple-ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "nobodys_purchase": [],
    "token_in_upper_case": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01"
    ],
    "two_logins_on_one_account": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01",
        "bob news: +active news.monthly 02-01 | expired news.monthly 04-01",
    ],
    "two_logins_taking_turns": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01 | +active news.monthly 05-01 | "
            + "expired news.monthly 06-01",
        "bob news: +active news.monthly 03-01 | expired news.monthly 04-01",
    ],
    "family_shared": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01",
        "apple-bob news: +active news.monthly 01-01 | revoked news.monthly 02-10",
    ],
    "family_shared_again": [
        "apple-bob news: +active news.monthly 01-01 | revoked news.monthly 01-10 | +active news.monthly 01-20 | "
            + "expired news.monthly 02-20"
    ],
    "family_shared_lifetime": [
        "apple-bob premium: +active lifetime 01-01 | revoked lifetime 02-01"
    ],
    "sandbox_beside_production": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01",
        "ann(sandbox) news: +active news.monthly 01-05 | revoked news.monthly 01-10",
    ],
    "two_originals_one_entitlement": [
        "ann plus: +active pro.monthly 01-01 | revoked pro.monthly 01-20",
        "ann premium: +active pro.monthly 01-01 | +active lifetime 01-15",
    ],
    "one_source_lapses_the_other_stays": [
        "ann news: +active newsbundle.yearly 01-01 | expired newsbundle.yearly 2027-01-01",
        "ann plus: +active pro.monthly 01-10 | +in_grace_period pro.monthly 02-10 | "
            + "in_billing_retry pro.monthly 02-13 | expired pro.monthly 04-11",
        "ann premium: +active newsbundle.yearly 01-01 | expired newsbundle.yearly 2027-01-01",
    ],
    "grace_shown_before_retry": [
        "ann plus: +active pro.monthly 01-01 | +in_grace_period pro.monthly 02-01 | "
            + "in_billing_retry pro.monthly 02-05 | expired pro.monthly 04-02",
        "ann premium: +active pro.monthly 01-01 | +active studio.monthly 01-02 | "
            + "+in_grace_period pro.monthly 02-02 | in_billing_retry studio.monthly 02-05 | "
            + "expired studio.monthly 04-03",
        "ann studio: +active studio.monthly 01-02 | in_billing_retry studio.monthly 02-02 | "
            + "expired studio.monthly 04-03",
    ],
    "revoked_shown_before_expired": [
        "ann plus: +active pro.monthly 01-05 | expired pro.monthly 02-05",
        "ann premium: +active lifetime 01-01 | +active pro.monthly 01-05 | revoked lifetime 02-05",
    ],
    "day_pass_bridges_a_gap": [
        "ann premium: +active studio.monthly 01-01 | +active daypass 01-31 12:00 | "
            + "+active studio.monthly 02-01 06:00 | expired studio.monthly 03-01 06:00",
        "ann studio: +active studio.monthly 01-01 | expired studio.monthly 02-01 | "
            + "+active studio.monthly 02-01 06:00 | expired studio.monthly 03-01 06:00",
    ],
]
