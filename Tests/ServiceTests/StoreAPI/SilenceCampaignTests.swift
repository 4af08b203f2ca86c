import EntitlementCore
import HTTPServer
import StoreSimulator
import Testing

@testable import Service

/// The alarm of a service that may not ask the store, day by day, whatever is dropped.
@Suite("The silence alarm, day by day", .serialized, .timeLimit(.minutes(5)))
struct SilenceCampaignTests {
    /// Which deliveries are dropped, from the fortieth day on.
    enum Loss: String, CaseIterable, Sendable {
        case nothing, oneWeek, eachThird, renewalsOfOne, production, sandbox

        /// Of which environments something is dropped that shows.
        var environments: Set<String> {
            switch self {
            case .nothing: []
            case .oneWeek, .eachThird: ["production", "sandbox"]
            case .renewalsOfOne, .production: ["production"]
            case .sandbox: ["sandbox"]
            }
        }
    }

    private typealias Environment = SimulatedStoreEnvironment

    private static let subscribers = 8
    private static let lossBegins: Int64 = 40
    private static let days: Int64 = 85

    @Test("each day the alarm names exactly the streams that are silent, whatever is dropped", arguments: Loss.allCases)
    func alarm(loss: Loss) async throws {
        let healing = try await HealingRig.make(asksStore: false)
        let rig = healing.rig
        let start = rig.clock.now.milliseconds
        let sent = Self.renewals(from: start)
        var heard = Heard()
        var (next, silentDays) = (0, [String: Int]())
        for day in 1...Self.days {
            let now = start + day * Span.day
            while next < sent.count, sent[next].signedDate + Span.second < now {
                let notification = sent[next]
                next += 1
                if Self.isLost(notification, next, loss, from: start) { continue }
                rig.clock.now = Timestamp(milliseconds: notification.signedDate + Span.second)
                #expect(try await rig.deliver(rig.store.sign(notification)).status == 200)
                heard.note(notification)
            }
            rig.clock.now = Timestamp(milliseconds: now)
            try await healing.look()
            let expected = Environment.allCases.map { heard.standing(of: $0, at: now) }
            let streams = try await healing.streams()
            #expect(streams == expected, "\(loss), day \(day)")
            for standing in expected where standing.contains("silent") {
                silentDays[String(standing.prefix { $0 != " " }), default: 0] += 1
            }
        }
        #expect(next > 2 * Self.subscribers && Set(silentDays.keys) == loss.environments, "\(loss): \(silentDays)")
        let alarms = rig.log.lines.filter { $0.contains("the store's notifications do not arrive") }
        for environment in Environment.allCases {
            let isNamed = alarms.contains { $0.contains(#""environment":"\#(environment.rawValue)""#) }
            #expect(isNamed == loss.environments.contains(environment.rawValue), "\(loss): \(alarms)")
        }
        // A lost week is over when something is heard again; what lasts is told to the end. Of a third it depends on the day.
        guard loss != .eachThird else { return }
        let isSilent = try await healing.streams().contains { $0.contains("silent") }
        #expect(isSilent == [.production, .sandbox].contains(loss), "\(loss)")
    }

    /// Monthly plans in both environments, bought one after the other within a month and renewed on time.
    private static func renewals(from start: Int64) -> [StoreNotification] {
        var world = StoreWorld.standard
        world.start = start
        var story = Storyteller(world: world, seed: 4711)
        for environment in Environment.allCases {
            for number in 0..<subscribers {
                // The environments take turns, so that neither's silence is at the same time as the other's by chance.
                let offset = environment == .production ? 0 : 40 * Span.hour
                let bought = start + Span.hour + Int64(number) * 90 * Span.hour + offset
                let key = story.subscribe(
                    story.account(environment), to: StoreWorld.ProductID.proMonthly, at: bought)
                while let end = story.expiry(key), end < start + (days + 2) * Span.day { story.renew(key) }
            }
        }
        return story.notifications.sorted { $0.signedDate < $1.signedDate }
    }

    private static func isLost(
        _ notification: StoreNotification, _ number: Int, _ loss: Loss, from start: Int64
    ) -> Bool {
        let day = (notification.signedDate - start) / Span.day
        guard day >= lossBegins else { return false }
        return switch loss {
        case .nothing: false
        case .oneWeek: day < lossBegins + 7
        case .eachThird: number % 3 == 0
        case .renewalsOfOne: notification.originalTransactionID == "2004711000000002"
        case .production, .sandbox: notification.environment.rawValue == loss.rawValue
        }
    }

    /// What is known to whoever hears only what arrives, counted by itself.
    private struct Heard {
        /// When each subscription ends, as far as was heard.
        private var ends: [Environment: [String: Int64]] = [:]
        private var last: [Environment: Int64] = [:]

        mutating func note(_ notification: StoreNotification) {
            last[notification.environment] = notification.signedDate + Span.second
            if let original = notification.originalTransactionID,
                case .integer(let end)? = notification.transaction?["expiresDate"]
            {
                ends[notification.environment, default: [:]][original] = end
            }
        }

        /// In the words of `HealingRig.streams`.
        func standing(of environment: Environment, at now: Int64) -> String {
            // The sandbox makes one attempt; production's next one comes after an hour.
            let tolerance = (environment == .production ? 6 : 1) * Span.hour
            // What the store itself does not remember any more is given up.
            let kept = (environment == .production ? 180 : 30) * Span.day
            let overdue = (ends[environment] ?? [:]).values.filter { (now - kept..<now).contains($0 + tolerance - 1) }
            let isSilent = overdue.max().map { $0 > last[environment] ?? .min } ?? false
            return "\(environment.rawValue) \(isSilent ? "silent" : "ok")"
                + (overdue.isEmpty ? "" : " \(overdue.count) overdue")
        }
    }
}
