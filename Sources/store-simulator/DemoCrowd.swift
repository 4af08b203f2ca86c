import StoreSimulator

/// A customer base around the people of the demo, so that charts, lists and lookups have something to show.
struct DemoCrowd {
    static let customers = 14
    private static let seed: UInt64 = 700

    /// What the store sent about them, in the order of time.
    let notifications: [StoreNotification]
    let count: Int

    /// Tells lives that go on until `now`; the same instant gives the same lives.
    init(now: Int64) {
        let lives = StoreLife.recent(seed: Self.seed, customers: Self.customers, until: now)
        notifications = lives.flatMap(\.notifications).sorted { $0.signedDate < $1.signedDate }
        count = lives.reduce(0) { $0 + $1.record.customers.count }
    }
}

/// What goes wrong between people, devices and the service, so that it can be seen how that is shown.
struct DemoTrouble {
    private let store: StoreClient
    private let directory: DemoDirectory

    init(_ store: StoreClient, _ directory: DemoDirectory) {
        self.store = store
        self.directory = directory
    }

    /// A device claims what is Ann's; another one still believes in what was refunded; and somebody is given something.
    func play(_ authority: SimulatedAuthority, now: Int64) async throws {
        let story = try directory.story(authority, now: now).map(\.step.notification)
        let own = story.first {
            $0.transaction?["appAccountToken"] == DemoStory.ann.account.appAccountToken.map(PayloadValue.string)
        }
        let bought = try own.flatMap { try authority.signTransaction(of: $0) }.map(PayloadValue.string)
        let app = PayloadValue.string(DemoStory.world.bundleID)
        try await store.post(
            "v1/customers/c-2/reconcile",
            json: ["app": app, "signed_transactions": .array([bought].compactMap(\.self))])
        try await store.post(
            "v1/customers/\(DemoStory.cleo.customerID)/reconcile",
            json: [
                "app": app,
                "claims": .array([
                    .object([
                        "product_id": .string(StoreWorld.ProductID.proYearly), "state": .string("active"),
                    ])
                ]),
            ])
        try await store.post(
            "v1/customers/c-3/actions/grant",
            json: ["entitlement": .string("premium"), "reason": .string("Made good for an outage in May")])
    }
}
