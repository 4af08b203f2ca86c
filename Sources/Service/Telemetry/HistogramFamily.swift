/// What is measured, in seconds where it is time.
enum HistogramFamily: String, CaseIterable, Sendable {
    case requestDuration = "rightful_http_request_duration_seconds"
    case verificationDuration = "rightful_notification_verification_duration_seconds"
    case batchDuration = "rightful_append_batch_duration_seconds"
    case batchEvents = "rightful_append_batch_events"

    var help: String {
        switch self {
        case .requestDuration: "From the request line read to the answer made, by route."
        case .verificationDuration: "Verifying all signatures of one notification, without waiting for a thread."
        case .batchDuration: "Committing one batch of appends."
        case .batchEvents: "New events of one committed batch."
        }
    }

    var labels: [String] {
        switch self {
        case .requestDuration: ["route"]
        case .verificationDuration, .batchDuration, .batchEvents: []
        }
    }

    /// The upper bounds of the buckets, ascending.
    var bounds: [Double] {
        switch self {
        case .requestDuration, .batchDuration:
            [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
        case .verificationDuration:
            [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1]
        case .batchEvents:
            [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
        }
    }
}
