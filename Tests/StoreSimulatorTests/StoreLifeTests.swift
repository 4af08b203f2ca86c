import StoreSimulator
import Testing

@Suite("Random lives of the simulator")
struct StoreLifeTests {
    @Test("equal seeds give equal lives, other seeds others", arguments: 0..<10 as Range<UInt64>)
    func determinism(seed: UInt64) {
        let life = StoreLife.random(seed: seed, customers: 3)
        let again = StoreLife.random(seed: seed, customers: 3)
        #expect(life.notifications == again.notifications)
        #expect(lines(of: life.record) == lines(of: again.record))
        #expect(life.record.stories == again.record.stories)
        #expect(life.notifications != StoreLife.random(seed: seed + 1, customers: 3).notifications)
    }

    @Test("timelines are ordered, without gaps, and end in a stretch without end", arguments: 0..<60 as Range<UInt64>)
    func timelines(seed: UInt64) throws {
        let record = StoreLife.random(seed: seed, customers: 5).record
        #expect(!record.customers.isEmpty)
        for customer in record.customers {
            for (entitlement, intervals) in record.customer(customer).timelines {
                for (interval, next) in zip(intervals, intervals.dropFirst()) {
                    let until = try #require(interval.until, "seed \(seed), \(customer), \(entitlement)")
                    #expect(interval.from < until, "seed \(seed), \(customer), \(entitlement)")
                    #expect(until == next.from, "seed \(seed), \(customer), \(entitlement)")
                }
                let last = try #require(intervals.last)
                #expect(last.until == nil, "seed \(seed), \(customer), \(entitlement)")
            }
        }
    }

    @Test(
        "chapters of one original begin one after the other, and their stages too", arguments: 0..<60 as Range<UInt64>)
    func chapters(seed: UInt64) {
        for (key, story) in StoreLife.random(seed: seed, customers: 5).record.stories {
            for (chapter, next) in zip(story.chapters, story.chapters.dropFirst()) {
                #expect(chapter.begin < next.begin, "seed \(seed), \(key)")
            }
            for chapter in story.chapters {
                for (stage, next) in zip(chapter.stages, chapter.stages.dropFirst()) {
                    #expect(stage.from < next.from, "seed \(seed), \(key)")
                }
            }
        }
    }

    @Test("statements about one original are signed in distinct milliseconds", arguments: 0..<60 as Range<UInt64>)
    func signedDates(seed: UInt64) {
        let life = StoreLife.random(seed: seed, customers: 5)
        var seen: [SimulatedOriginalKey: Int64] = [:]
        for notification in life.notifications {
            guard let original = notification.originalTransactionID else { continue }
            let key = SimulatedOriginalKey(notification.environment, original)
            #expect(seen[key, default: .min] < notification.signedDate, "seed \(seed), \(key)")
            seen[key] = notification.signedDate
        }
        #expect(Set(life.notifications.map(\.uuid)).count == life.notifications.count)
    }

    @Test("between two boundaries nothing changes", arguments: 0..<10 as Range<UInt64>)
    func boundaries(seed: UInt64) {
        let record = StoreLife.random(seed: seed, customers: 3).record
        for customer in record.customers {
            let mine = record.customer(customer)
            let instants = mine.boundaryInstants
            for (instant, next) in zip(instants, instants.dropFirst()) where next - instant > 2 {
                #expect(
                    mine.answer(at: instant) == mine.answer(at: (instant + next) / 2),
                    "seed \(seed), \(customer), \(instant)")
            }
        }
    }

    @Test("a hundred seeds together reach every state and most kinds of notification")
    func coverage() {
        var types = Set<String>()
        var states = Set<RecordState>()
        for seed in 0..<100 as Range<UInt64> {
            let life = StoreLife.random(seed: seed, customers: 3)
            types.formUnion(life.notifications.map { $0.type + ($0.subtype.map { "/" + $0 } ?? "") })
            for customer in life.record.customers {
                states.formUnion(life.record.customer(customer).timelines.values.joined().map(\.state))
            }
        }
        #expect(states == Set(RecordState.allCases))
        let wanted: Set<String> = [
            "SUBSCRIBED/INITIAL_BUY", "SUBSCRIBED/RESUBSCRIBE", "DID_RENEW", "DID_RENEW/BILLING_RECOVERY",
            "DID_CHANGE_RENEWAL_PREF/UPGRADE", "DID_CHANGE_RENEWAL_PREF/DOWNGRADE", "DID_CHANGE_RENEWAL_PREF",
            "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED", "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED",
            "DID_FAIL_TO_RENEW", "DID_FAIL_TO_RENEW/GRACE_PERIOD", "GRACE_PERIOD_EXPIRED", "EXPIRED/VOLUNTARY",
            "EXPIRED/BILLING_RETRY", "REFUND", "REFUND_REVERSED", "REVOKE", "RENEWAL_EXTENDED", "ONE_TIME_CHARGE",
            "CONSUMPTION_REQUEST", "TEST", "PRICE_INCREASE/PENDING", "SUBSCRIPTION_TELEPORTED/SIDEWAYS",
        ]
        #expect(wanted.subtracting(types).isEmpty)
    }
}

@Suite("Payloads")
struct PayloadTests {
    private static let lives =
        Scenario.all.map { $0.life() } + (0..<20 as Range<UInt64>).map { StoreLife.random(seed: $0, customers: 3) }

    @Test("every payload has the mandatory fields")
    func mandatoryFields() {
        for notification in Self.lives.flatMap(\.notifications) {
            #expect(notification.payload["notificationType"] != nil)
            #expect(notification.payload["notificationUUID"] != nil)
            let members = ["data", "summary", "externalPurchaseToken", "appData"]
            #expect(members.filter { notification.payload[$0] != nil }.count == 1)
            for field in [
                "transactionId", "originalTransactionId", "productId", "bundleId", "purchaseDate", "environment",
            ] {
                #expect(notification.transaction == nil || notification.transaction?[field] != nil, "\(field)")
            }
            for field in ["originalTransactionId", "environment"] {
                #expect(notification.renewal == nil || notification.renewal?[field] != nil, "\(field)")
            }
        }
    }

    @Test("outer and inner statements belong together, and the app id is stated in production alone")
    func identity() {
        for notification in Self.lives.flatMap(\.notifications) {
            guard let data = notification.payload["data"] else { continue }
            let environment = PayloadValue.string(notification.environment.payloadName)
            #expect(data["environment"] == environment)
            #expect((data["appAppleId"] != nil) == (notification.environment == .production))
            guard let transaction = notification.transaction else { continue }
            #expect(transaction["environment"] == environment)
            #expect(transaction["bundleId"] == data["bundleId"])
            guard let renewal = notification.renewal else { continue }
            #expect(renewal["environment"] == environment)
            #expect(renewal["originalTransactionId"] == transaction["originalTransactionId"])
        }
    }

    @Test("JSON is written with its keys in order, whole numbers whole and flags as flags")
    func json() throws {
        let value = PayloadValue.object([
            "b": .integer(1_767_225_600_000), "a": .fraction(1_767_225_600_000.25), "c": .boolean(true),
            "d": .array([.null, .string("a/b")]),
        ])
        let text = String(decoding: try value.encoded(), as: UTF8.self)
        #expect(text == #"{"a":1767225600000.25,"b":1767225600000,"c":true,"d":[null,"a/b"]}"#)
    }

    @Test("months are the calendar's", arguments: [("P1M", 2, 28), ("P2M", 3, 31), ("P13M", 14, 28), ("P1D", 2, 1)])
    func calendar(duration: String, month: Int, day: Int) throws {
        let length = try #require(SimulatedCalendarDuration(iso8601: duration))
        let wanted = SimulatedCalendar.instant(month > 12 ? 2027 : 2026, month > 12 ? month - 12 : month, day, 7)
        #expect(SimulatedCalendar.adding(length, to: SimulatedCalendar.instant(2026, 1, 31, 7)) == wanted)
    }

    @Test("what is no duration is refused", arguments: ["", "P", "1M", "P1X", "PT1D", "P1", "PM"])
    func badDurations(text: String) {
        #expect(SimulatedCalendarDuration(iso8601: text) == nil)
    }
}

@Suite("Delivery plans")
struct DeliveryTests {
    @Test("a plan depends on the seed alone and loses nothing unless asked", arguments: DeliveryStyle.allCases)
    func plans(style: DeliveryStyle) {
        let notifications = StoreLife.random(seed: 7, customers: 4).notifications
        let plan = Delivery.plan(notifications, style, seed: 3)
        #expect(plan == Delivery.plan(notifications, style, seed: 3))
        #expect(zip(plan, plan.dropFirst()).allSatisfy { $0.instant <= $1.instant })
        #expect(plan.allSatisfy { $0.instant >= notifications[$0.index].signedDate })
        let arrived = Set(plan.map(\.index))
        switch style {
        case .lossy: #expect(arrived.count < notifications.count)
        case .inOrder: #expect(plan.map(\.index) == Array(notifications.indices))
        case .shuffled, .delayed:
            #expect(plan.map(\.index) != Array(notifications.indices))
            #expect(plan.count == notifications.count)
            #expect(arrived.count == notifications.count)
        case .duplicated, .chaotic:
            #expect(plan.count > notifications.count)
            #expect(arrived.count == notifications.count)
        }
    }
}
