// What the scenarios of this kind must come to, worked out by hand.
let expectedOneTime: [String: [String]] = [
    "lifetime_purchase": [
        "ann premium: +active lifetime 01-01"
    ],
    "consumable_without_duration": [],
    "consumable_with_duration": [
        "ann premium: +active daypass 01-01 09:30 | expired daypass 01-02 09:30"
    ],
    "season_without_duration": [],
    "season_repeats_overlap": [
        "ann season: +active season 01-01 | +active season 02-01 | expired season 05-02"
    ],
    "season_of_a_calendar_month": [
        "ann season: +active term 01-31 15:30 | expired term 02-28 15:30"
    ],
    "season_with_leeway": [
        "ann season: +active term 01-01 | expired term 02-01 01:00"
    ],
    "product_nobody_mapped": [],
]
