import EntitlementAPI
import EntitlementCore
import Ledger

extension StatusDocument {
    /// The endpoints of outgoing webhooks.
    struct Webhooks: Encodable {
        /// Whether services with this configuration send anything.
        let isEnabled: Bool
        /// Those that took the last message, or had none yet.
        let active: Int64
        /// Those that did not.
        let failing: Int64
        /// Those to which nothing is sent until somebody resumes them.
        let paused: Int64
        /// Those to which nothing can be sent, because the database has lost what the log does not hold.
        let lost: Int
        /// Since when the one fails that fails the longest.
        @Nullable var failingSince: String?
        /// For how long the delivery is due that waits the longest to be sent.
        let overdueSeconds: Double
        /// For how long something is in the log, or has run out, that was not looked at yet.
        let untoldSeconds: Double

        init(_ health: EndpointHealth, lost: Int, isEnabled: Bool, at now: Timestamp) {
            self.isEnabled = isEnabled
            (active, failing, paused) = (health.active, health.failing, health.paused)
            self.lost = lost
            func seconds(since instant: Timestamp?) -> Double {
                Double(instant.map { max(0, now.milliseconds - $0.milliseconds) } ?? 0) / 1000
            }
            overdueSeconds = seconds(since: health.overdueSince)
            untoldSeconds = seconds(since: health.untoldSince)
            _failingSince = Nullable(wrappedValue: health.failingSince?.description)
        }
    }

    /// For people: nothing while there are no endpoints.
    var webhookRows: [(String, String)] {
        guard let webhooks, webhooks.active + webhooks.failing + webhooks.paused + Int64(webhooks.lost) > 0 else {
            return []
        }
        let since = webhooks.failingSince.map { " (since \($0))" } ?? ""
        let cure =
            webhooks.failing + webhooks.paused + Int64(webhooks.lost) > 0 ? ": `rightful webhooks list` shows them" : ""
        let lost = webhooks.lost > 0 ? ", \(webhooks.lost) lost" : ""
        let reason =
            if !webhooks.isEnabled {
                "webhooks.enabled is false in the configuration"
            } else if (servingAs ?? []).isEmpty {
                "no service is connected"
            } else {
                "a receiver is slow, or the service is behind"
            }
        var late = ""
        if webhooks.overdueSeconds >= Self.noticedDelay {
            late = "; what is due is not sent for \(webhooks.overdueSeconds) s: \(reason)"
        } else if !webhooks.isEnabled {
            late = "; nothing is sent: \(reason)"
        }
        let behind =
            webhooks.untoldSeconds >= Self.noticedDelay
            ? "; what came \(webhooks.untoldSeconds) s ago was not looked at yet" : ""
        return [
            (
                "webhooks",
                "\(webhooks.active) active, \(webhooks.failing) failing\(since), \(webhooks.paused) paused\(lost)\(cure)\(late)\(behind)"
            )
        ]
    }

    /// In seconds: a service takes what is due within a fraction of one.
    private static let noticedDelay = 10.0
}
