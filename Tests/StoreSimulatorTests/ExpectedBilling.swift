// What the scenarios of this kind must come to, worked out by hand.
let expectedBilling: [String: [String]] = [
    "grace_recovered": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "+active news.monthly 02-05 | expired news.monthly 03-05"
    ],
    "grace_given_up": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "expired news.monthly 02-05 01:00"
    ],
    "grace_then_retry_recovered": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | +active news.monthly 03-10 | expired news.monthly 04-10"
    ],
    "grace_then_retry_unsaid": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | expired news.monthly 04-02"
    ],
    "grace_then_sixty_days": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | expired news.monthly 04-02"
    ],
    "grace_ended_before_its_time": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-10 | expired news.monthly 04-02"
    ],
    "grace_moved": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | expired news.monthly 04-02"
    ],
    "retry_then_grace": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | "
            + "+in_grace_period news.monthly 02-02 | in_billing_retry news.monthly 02-17 | "
            + "expired news.monthly 04-02"
    ],
    "retry_recovered": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | "
            + "+active news.monthly 02-20 | expired news.monthly 03-20"
    ],
    "retry_given_up": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | expired news.monthly 02-20"
    ],
    "retry_sixty_days_in_silence": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | expired news.monthly 04-02"
    ],
    "resubscribed_in_retry": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | "
            + "+active news.monthly 02-20 | expired news.monthly 03-20"
    ],
    "grace_without_an_end": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | expired news.monthly 04-02"
    ],
    "grace_with_the_flag_down": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "+active news.monthly 02-05 | expired news.monthly 03-05"
    ],
    "failure_stated_before_the_end": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | expired news.monthly 04-02"
    ],
    "failure_withdrawn_before_the_end": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 02-01 | "
            + "+in_grace_period news.monthly 02-02 | in_billing_retry news.monthly 02-10 | "
            + "expired news.monthly 04-02"
    ],
    "failure_recovered_before_the_end": [
        "ann news: +active news.monthly 01-01 | expired news.monthly 03-01"
    ],
    "failure_stated_late": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | expired news.monthly 04-02"
    ],
    "given_up_then_failing_again": [
        "ann news: +active news.monthly 01-01 | in_billing_retry news.monthly 02-01 | "
            + "expired news.monthly 02-10 | +active news.monthly 03-01 | +in_grace_period news.monthly 04-01 | "
            + "in_billing_retry news.monthly 04-04 | expired news.monthly 05-31"
    ],
    "grace_without_access": [
        "ann news: +active news.monthly 01-01 | in_grace_period news.monthly 02-01 | "
            + "in_billing_retry news.monthly 02-17 | expired news.monthly 04-02"
    ],
    "retry_with_access": [
        "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
            + "+in_billing_retry news.monthly 02-17 | +active news.monthly 03-10 | expired news.monthly 04-10"
    ],
]
