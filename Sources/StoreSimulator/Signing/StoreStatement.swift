/// What a signed transaction says of whose a payment is: told by the storyteller, never read from a payload.
package struct Testimony: Sendable, Equatable {
    /// The original transaction.
    package let key: SimulatedOriginalKey
    /// The number of the payment in its original, from 0.
    package let payment: Int
    /// The instant at which it was signed; of two about one payment the newer one holds.
    package let signedDate: Int64
    /// The customer of the identity it bears, before any link; nil where it bears none.
    package let owner: CustomerKey?
}

/// A signed transaction as a device holds it, before it is signed.
package struct StoreStatement: Sendable, Equatable {
    /// What it says of whose the payment is.
    package let testimony: Testimony
    /// The transaction.
    package let transaction: [String: PayloadValue]
}

extension StoreNotification {
    /// The transaction it carries, as a device would post it; nil for a notification without one.
    package var statement: StoreStatement? {
        guard let testimony, let transaction else { return nil }
        return StoreStatement(testimony: testimony, transaction: transaction)
    }
}

extension SimulatedAuthority {
    /// Signs a transaction for a device.
    ///
    /// - Returns: a compact JWS.
    package func sign(_ statement: StoreStatement) throws -> String {
        try sign(.object(statement.transaction))
    }

    /// Signs what an app says of its own purchase on one Apple account: a device's proof of that account.
    ///
    /// - Returns: a compact JWS of an app transaction.
    package func signAppTransaction(
        _ appTransactionID: String, _ environment: SimulatedStoreEnvironment, world: StoreWorld
    ) throws -> String {
        var app: [String: PayloadValue] = [
            "receiptType": .string(environment.payloadName),
            "bundleId": .string(world.bundleID),
            "applicationVersion": .string("42"),
            "receiptCreationDate": .integer(world.start),
            "originalPurchaseDate": .integer(world.start),
            "originalApplicationVersion": .string("1"),
            "appTransactionId": .string(appTransactionID),
        ]
        if environment == .production { app["appAppleId"] = .integer(world.appAppleID) }
        return try sign(.object(app))
    }
}
