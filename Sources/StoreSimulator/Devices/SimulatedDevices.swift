import SeededRandom

/// What one device hands to an app: a signed transaction, and whether the device believes it.
package struct DeviceStatement: Sendable, Hashable {
    /// The transaction it is about, as the store knows it, whatever the signed text says.
    package let transactionID: String
    /// The compact JWS.
    package let jws: String
    /// False where the device could not verify it.
    package let isVerified: Bool
}

/// A statement that comes to a device by itself.
package struct DeviceUpdate: Sendable, Hashable {
    /// The number of the device.
    package let device: Int
    /// What it is told.
    package let statement: DeviceStatement
}

/// One transaction: a payment of an original.
package struct PaymentKey: Sendable, Hashable {
    let original: SimulatedOriginalKey
    let number: Int
}

/// One device, signed in to an Apple account.
package struct SimulatedDevice: Sendable {
    /// The number of the Apple account that downloaded the app.
    package let account: Int
    /// The number of the Apple account that buys, where the device is signed in to another one by now.
    package var buyer: Int?
    /// Whether a parent has to approve what is bought here.
    package var asksToBuy = false
    /// Whether its verification fails, so that it believes nothing that it is handed.
    package var distrustsAll = false
    /// Whether the store's answers to what is owned come out empty, as they may after a restart.
    package var readsNothing = false
    /// The percentage of finished transactions that its history leaves out, drawn at each reading.
    package var omission = 0
    /// Whether the store cannot be reached: no app transaction, no purchase.
    package var isOffline = false
    /// Whether the store is not ready to finish anything, nor to list what is unfinished, as right after a start.
    package var isUnready = false
    /// Whether the store loses its connection in the middle of a purchase: it is made, and the call throws.
    package var losesItsConnection = false
    /// What the app has not finished on this device, in the order in which it came.
    package internal(set) var unfinished: [PaymentKey] = []
    /// Statements that nobody but a forger signed.
    var forged: [DeviceStatement] = []
}

/// The simulated store as devices see it: Apple accounts, the devices on them, and what the store shows to each.
///
/// The storyteller beneath it keeps the books, the notifications and the independent record. Nothing here reads the
/// signed text back. Each device has its own list of what is not finished: the hardest case an app meets.
package struct SimulatedDevices: Sendable {
    /// A purchase that a parent has not decided about.
    package struct Request: Sendable, Hashable {
        /// The device on which it was asked for.
        package let device: Int
        /// What is to be bought.
        package let productID: String
        let token: String?
    }

    /// What the store says of a purchase.
    package enum PurchaseResult: Sendable, Hashable {
        case success(DeviceStatement)
        /// A parent has to approve it.
        case pending
        /// The store could not be reached.
        case offline
    }

    /// The store's present instant, in milliseconds.
    package var now: Int64
    /// The books, the notifications and the record.
    package internal(set) var storyteller: Storyteller
    /// The Apple accounts; none of them passes a login by itself.
    package private(set) var accounts: [StoreAccount] = []
    /// The devices.
    package private(set) var devices: [SimulatedDevice] = []
    /// What no parent has decided about, in the order in which it was asked for.
    package internal(set) var requests: [Request] = []
    /// All finish calls, in order: the device and the transaction.
    package private(set) var finishCalls: [(device: Int, transactionID: String)] = []

    /// The original transactions of each account, in the order in which they were bought.
    var originals: [Int: [SimulatedOriginalKey]] = [:]
    var random: SplitMix64
    private var signed: [PaymentKey: SignedPayload] = [:]
    private var signedRenewals: [SimulatedOriginalKey: SignedPayload] = [:]
    private let authority: SimulatedAuthority
    private let forger: SimulatedAuthority

    private struct SignedPayload {
        let fields: [String: PayloadValue]
        let jws: String
    }

    /// A store with no accounts; equal seeds and deeds give equal stories.
    package init(authority: SimulatedAuthority, world: StoreWorld, seed: UInt64, now: Int64) throws {
        self.authority = authority
        forger = try SimulatedAuthority()
        storyteller = Storyteller(world: world, seed: seed)
        random = SplitMix64(seed: seed ^ 0xDE71_CE00)
        self.now = now
    }

    /// Another Apple account; one of the sandbox is a tester's, as in TestFlight.
    package mutating func addAccount(_ environment: SimulatedStoreEnvironment = .production) -> Int {
        accounts.append(storyteller.account(environment, hasToken: false))
        return accounts.count - 1
    }

    /// Another device on an Apple account.
    ///
    /// It is told of what was bought before as of everything else that it never finished: at the first launch of the
    /// app its history shows it, and nothing is redelivered.
    package mutating func addDevice(account: Int) -> Int {
        devices.append(SimulatedDevice(account: account))
        return devices.count - 1
    }

    /// Changes how a device behaves.
    package mutating func change(_ device: Int, _ change: (inout SimulatedDevice) -> Void) {
        change(&devices[device])
    }

    /// The id of an Apple account in this app.
    package func appTransactionID(account: Int) -> String {
        guard let id = accounts[account].appTransactionID else {
            preconditionFailure("the storyteller names every account")
        }
        return id
    }

    /// The environment in which a device buys.
    package func environment(of device: Int) -> SimulatedStoreEnvironment {
        accounts[devices[device].account].environment
    }

    /// The Apple account whose purchases a device's store shows.
    func payer(_ device: Int) -> Int { devices[device].buyer ?? devices[device].account }

    /// The truth so far.
    package var record: Record { storyteller.record }

    /// Everything the store has to tell the app's server, in the order in which it was told.
    package var notifications: [StoreNotification] { storyteller.notifications }

    /// Ties an Apple account to a customer in the record, as the app's server does by a link.
    @discardableResult
    package mutating func link(account: Int, to customer: CustomerKey) -> Bool {
        storyteller.record.link(appTransactionID: appTransactionID(account: account), to: customer)
    }

    // MARK: - Finishing

    /// The app says that it needs nothing more of a transaction.
    package mutating func finish(_ transactionID: String, on device: Int) {
        finishCalls.append((device, transactionID))
        devices[device].unfinished = devices[device].unfinished.filter { self.transactionID($0) != transactionID }
    }

    /// The transaction's id.
    package func transactionID(_ payment: PaymentKey) -> String {
        storyteller.book(payment.original).payments[payment.number].transactionID
    }

    /// The ids of what a device has not finished.
    package func unfinishedIDs(on device: Int) -> [String] { devices[device].unfinished.map(transactionID) }

    // MARK: - Signing

    /// A payment as it stands in the books, signed; the same text as before while the books say the same.
    mutating func statement(_ payment: PaymentKey, for device: Int) throws -> DeviceStatement {
        let book = storyteller.book(payment.original)
        let fields = storyteller.transactionPayload(book, book.payments[payment.number], signed: 0)
        let jws: String
        if let known = signed[payment], known.fields == fields {
            jws = known.jws
        } else {
            let statement = storyteller.deviceStatement(payment.original, payment: payment.number, at: now)
            jws = try authority.sign(statement)
            signed[payment] = SignedPayload(fields: fields, jws: jws)
        }
        return DeviceStatement(
            transactionID: transactionID(payment), jws: jws, isVerified: !devices[device].distrustsAll)
    }

    /// The renewal information of a subscription, signed; the same text as before while the books say the same, and nil
    /// for one-time purchases.
    mutating func renewal(_ key: SimulatedOriginalKey) throws -> String? {
        guard let fields = storyteller.renewalPayload(storyteller.book(key), signed: 0) else { return nil }
        if let known = signedRenewals[key], known.fields == fields { return known.jws }
        var dated = fields
        dated["signedDate"] = .integer(storyteller.stamp(key, action: now, signedAt: nil))
        let jws = try authority.sign(.object(dated))
        signedRenewals[key] = SignedPayload(fields: fields, jws: jws)
        return jws
    }

    /// The app's own purchase; nil while the store cannot be reached.
    package func appTransaction(of device: Int) throws -> DeviceStatement? {
        guard !devices[device].isOffline else { return nil }
        let id = appTransactionID(account: devices[device].account)
        return DeviceStatement(
            transactionID: id,
            jws: try authority.signAppTransaction(id, environment(of: device), world: storyteller.world),
            isVerified: !devices[device].distrustsAll)
    }

    /// Somebody puts a purchase onto a device that was never made.
    package mutating func forge(_ productID: String, on device: Int) throws -> DeviceUpdate {
        let statement = try forgery(of: productID, on: device)
        devices[device].forged.append(statement)
        return DeviceUpdate(device: device, statement: statement)
    }

    /// A purchase that was never made, signed by nobody who is trusted; the store knows nothing of it.
    package mutating func forgery(of productID: String, on device: Int) throws -> DeviceStatement {
        let id = storyteller.newID()
        let product = storyteller.world.product(productID)
        let jws = try forger.sign(
            .object([
                "transactionId": .string(id), "originalTransactionId": .string(id), "productId": .string(productID),
                "bundleId": .string(storyteller.world.bundleID), "type": .string(product.kind.rawValue),
                "purchaseDate": .integer(now), "signedDate": .integer(now),
                "environment": .string(environment(of: device).payloadName),
                "inAppOwnershipType": .string("PURCHASED"), "transactionReason": .string("PURCHASE"),
                "appTransactionId": .string(appTransactionID(account: devices[device].account)),
            ]))
        return DeviceStatement(transactionID: id, jws: jws, isVerified: false)
    }
}
