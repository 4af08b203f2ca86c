/// What is counted.
enum CounterFamily: String, CaseIterable, Sendable {
    case requests = "rightful_http_requests_total"
    case verdicts = "rightful_notification_verdicts_total"
    case notifications = "rightful_notifications_total"
    case remarks = "rightful_notification_remarks_total"
    case statements = "rightful_device_statements_total"
    case conflicts = "rightful_ownership_conflicts_total"
    case drift = "rightful_device_drift_total"
    case rateLimited = "rightful_rate_limited_total"
    case immediateReads = "rightful_immediate_reads_total"
    case repeatedLaunches = "rightful_repeated_launches_total"
    case freshness = "rightful_reads_proven_fresh_total"
    case storeChecks = "rightful_store_checks_total"
    case consumption = "rightful_consumption_requests_total"
    case webLookups = "rightful_stripe_lookups_total"
    case webSweeps = "rightful_stripe_swept_events_total"
    case webhooks = "rightful_webhook_attempts_total"
    case lostEnds = "rightful_log_lost_ends_total"

    var help: String {
        switch self {
        case .statements: "Signed statements that devices posted: recorded, known, or the code of the refusal."
        case .conflicts:
            "Claims of another customer's purchase, counted each time; and events of a web checkout that name another customer than the owner."
        case .drift:
            "Differences between a device and the ledger, by outcome: recorded, known, unproven, foreign, unknown_product, limited, overtaken; `agreed` counts differences that ended."
        case .requests: "Requests answered, by route and status."
        case .verdicts: "Notifications by what became of them: accepted, duplicate, or the code of the refusal."
        case .notifications: "New notifications by the ledger's word for them; unknown is a type it does not know."
        case .remarks: "Things in new notifications that a person should look at, by kind."
        case .immediateReads: "Reads answered on the event loop, by whether the answer was in memory or was loaded."
        case .freshness:
            "Reads and reconciliations of the two kinds above, by what proved that nothing newer was known: the database, or this instance's read lease."
        case .repeatedLaunches: "Reconciliations of devices that posted what they posted before, answered from memory."
        case .storeChecks:
            "Questions to the store about one customer, by why and by what came of them: recorded, known, unknown or failed."
        case .consumption:
            "The store's questions about refund requests: accepted, refused, withheld, too_late, or an attempt that failed."
        case .webSweeps: "Events read from Stripe's own list: recorded, known, or refused."
        case .lostEnds:
            "Times the log was found without events that this instance had seen in it, as after a failover or a restored backup."
        case .webhooks: "Attempts to deliver a webhook: delivered, failed and tried again later, or given up."
        case .webLookups:
            "What an event of Stripe's called for, read from its API: recorded, known, foreign, withheld, or an attempt that failed."
        case .rateLimited:
            "Refused as too much, by whose limit it was: an API key's or a client address's requests, a subscription's repetitions."
        }
    }

    var labels: [String] {
        switch self {
        case .requests: ["route", "status"]
        case .immediateReads, .repeatedLaunches: ["source"]
        case .freshness: ["by"]
        case .verdicts: ["verdict"]
        case .notifications: ["type"]
        case .remarks, .rateLimited: ["kind"]
        case .statements: ["verdict"]
        case .conflicts, .lostEnds: []
        case .drift, .consumption, .webLookups, .webSweeps, .webhooks: ["outcome"]
        case .storeChecks: ["reason", "outcome"]
        }
    }
}
