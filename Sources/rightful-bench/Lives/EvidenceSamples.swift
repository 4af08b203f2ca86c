import EntitlementCore
import Foundation
import Ledger
import OpenSSLCrypto
import StoreSimulator

/// Writes pieces of evidence as the ledger keeps them before it compresses them, one file each, to train the dictionary
/// with that they are compressed by.
///
/// They are of as many kinds as the simulated store signs, and of many signers, apps and products, so that the dictionary
/// learns what all have in common. Half of the signers write a payload's members in the order of the alphabet, as the
/// simulated store does everywhere else, and half in Apple's.
struct EvidenceSamples {
    /// Signers, each with an app of its own.
    private static let stores = 40
    /// Random lives of each signer's customers.
    private static let customers = 5

    /// The order in which Apple writes members; others come last.
    private static let order: [String: Int] = {
        let names = [
            "notificationType", "subtype", "notificationUUID", "data", "summary", "version", "appAppleId",
            "transactionId",
            "originalTransactionId", "webOrderLineItemId", "bundleId", "bundleVersion", "autoRenewProductId",
            "productId",
            "autoRenewStatus", "renewalPrice", "subscriptionGroupIdentifier", "purchaseDate", "originalPurchaseDate",
            "expiresDate", "quantity", "type", "appAccountToken", "inAppOwnershipType", "signedDate", "environment",
            "recentSubscriptionStartDate", "renewalDate", "signedTransactionInfo", "signedRenewalInfo", "status",
            "transactionReason", "storefront", "storefrontId", "price", "currency", "appTransactionId",
        ]
        return Dictionary(uniqueKeysWithValues: names.enumerated().map { ($1, $0) })
    }()

    private let directory: URL

    init(_ words: [String]) throws {
        guard words.count == 1 else { throw BenchmarkUsageError("samples takes the directory to write them to") }
        directory = URL(fileURLWithPath: words[0])
    }

    func write() throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        var count = 0
        func write(_ jws: [String]) throws {
            guard !jws.isEmpty else { return }
            let steps = try EvidenceParts.steps(of: EvidenceParts(jws: Array(jws.joined(separator: "\n").utf8)).bytes)
            count += 1
            try Data(steps).write(to: directory.appending(path: String(format: "%05d", count)))
        }
        for number in 0..<Self.stores {
            let store = try Signer(number)
            var lives = [StoreLife.random(seed: UInt64(number), customers: Self.customers)]
            // A few times is enough of each scenario.
            if number % 10 < 2 { lives += Scenario.all.map { $0.life(seed: UInt64(1000 + number)) } }
            for life in lives {
                try life.notifications.forEach { try write([store.sign($0)]) }
                // What a device posts: its transactions and what they say of renewal, one a line.
                for start in stride(from: 0, to: life.notifications.count, by: 4) {
                    let held = life.notifications[start..<min(start + 4, life.notifications.count)]
                    try write(held.compactMap(\.transaction).map(store.sign))
                    try write(held.compactMap(\.renewal).map(store.sign))
                }
            }
        }
        say("\(count) samples in \(directory.path())\n")
    }

    /// Signs as the store does, for an app of its own.
    private struct Signer {
        let number: Int
        let authority: SimulatedAuthority

        init(_ number: Int) throws {
            self.number = number
            authority = try SimulatedAuthority()
        }

        func sign(_ notification: StoreNotification) throws -> String {
            var inner: [String: PayloadValue] = [:]
            inner["signedTransactionInfo"] = try notification.transaction.map { .string(try sign($0)) }
            inner["signedRenewalInfo"] = try notification.renewal.map { .string(try sign($0)) }
            inner["signedAppTransactionInfo"] = try notification.appTransaction.map { .string(try sign($0)) }
            var payload = notification.payload
            for member in ["data", "appData"] {
                guard case .object(let content) = payload[member] else { continue }
                payload[member] = .object(content.merging(inner) { _, new in new })
            }
            return try sign(payload)
        }

        func sign(_ payload: [String: PayloadValue]) throws -> String {
            try authority.sign(payloadBytes: Array(text(of: .object(payload)).utf8))
        }

        private func text(of value: PayloadValue) throws -> String {
            switch value {
            case .object(let members):
                let names = members.keys.sorted { place(of: $0) < place(of: $1) }
                let written = try names.map { name in
                    try text(of: .string(name)) + ":" + text(of: members[name] ?? .null)
                }
                return "{" + written.joined(separator: ",") + "}"
            case .array(let values):
                return "[" + (try values.map(text)).joined(separator: ",") + "]"
            case .string(let string):
                let own = string.replacing("com.example", with: "org.sample\(number * 37)")
                return String(decoding: try PayloadValue.string(own).encoded(), as: UTF8.self)
            case .integer(let integer):
                let own = integer == StoreWorld.standard.appAppleID ? integer + Int64(number) * 7_919_003 : integer
                return String(own)
            case .fraction, .boolean, .null:
                return String(decoding: try value.encoded(), as: UTF8.self)
            }
        }

        private func place(of name: String) -> (Int, String) {
            (number.isMultiple(of: 2) ? 0 : EvidenceSamples.order[name] ?? EvidenceSamples.order.count, name)
        }
    }
}
