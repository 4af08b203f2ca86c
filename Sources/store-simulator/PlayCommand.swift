import StoreSimulator

/// Plays lives made up at random.
struct PlayCommand {
    /// The most customers of one run; their lives are held in memory.
    private static let customerLimit = 10_000

    private let directory: DemoDirectory
    private let store: StoreClient
    private let seed: Int
    private let customers: Int
    private let style: DeliveryStyle

    init(_ arguments: inout Arguments) throws {
        directory = DemoDirectory(try arguments.required("--data"))
        store = try StoreClient(&arguments)
        seed = try arguments.number("--seed", in: 0...999_999, default: 1)
        customers = try arguments.number("--customers", in: 1...Self.customerLimit, default: 10)
        style = try DeliveryStyle(&arguments)
    }

    func run() async throws {
        let authority = try directory.authority()
        let life = StoreLife.random(seed: UInt64(seed), world: DemoStory.world, customers: customers)
        var duplicates = 0
        let arrivals = Delivery.plan(life.notifications, style, seed: UInt64(seed))
        // What arrives again is the same bytes: the store signs a notification once, and no signature comes out twice.
        var signed: [Int: String] = [:]
        for arrival in arrivals {
            let payload = try signed[arrival.index] ?? authority.sign(life.notifications[arrival.index])
            if style.repeats { signed[arrival.index] = payload }
            if try await store.deliver(payload).duplicate { duplicates += 1 }
        }
        say(
            "\(customers) customers, \(life.notifications.count) notifications, \(arrivals.count) deliveries, "
                + "\(duplicates) of them duplicates (seed \(seed), \(style.rawValue))")
    }
}

extension DeliveryStyle {
    /// The one that `--delivery` names; in order unless it is given.
    init(_ arguments: inout Arguments) throws(SimulatorUsageError) {
        let name = arguments.optional("--delivery") ?? DeliveryStyle.inOrder.rawValue
        guard let style = DeliveryStyle(rawValue: name) else {
            throw SimulatorUsageError(
                "--delivery must be one of \(DeliveryStyle.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        self = style
    }

    fileprivate var repeats: Bool {
        switch self {
        case .duplicated, .chaotic: true
        case .inOrder, .shuffled, .delayed, .lossy: false
        }
    }
}
