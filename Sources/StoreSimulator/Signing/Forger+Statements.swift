// Everything properly signed, but not belonging together, not complete, or not for this server.
extension Forger {
    /// The good notification's own statements, signed.
    func statements() throws -> [String: PayloadValue] {
        [
            "signedTransactionInfo": try signed(good.transaction),
            "signedRenewalInfo": try signed(good.renewal),
        ]
    }

    func swappedStatements() throws -> [Forgery] {
        let (transaction, renewal) = ("signedTransactionInfo", "signedRenewalInfo")
        let strangeBundle = PayloadValue.string("com.example.other")
        let sandbox = PayloadValue.string(SimulatedStoreEnvironment.sandbox.payloadName)
        return [
            try swapped("transaction_of_another_original", [transaction: signed(other.transaction)]),
            try swapped("renewal_of_another_original", [renewal: signed(other.renewal)]),
            try swapped(
                "transaction_of_another_bundle",
                [transaction: signed(good.transaction, with: ["bundleId": strangeBundle])]),
            try swapped(
                "transaction_of_another_environment",
                [transaction: signed(good.transaction, with: ["environment": sandbox])]),
            try swapped(
                "renewal_of_another_environment",
                [renewal: signed(good.renewal, with: ["environment": sandbox])]),
            try swapped("transaction_in_the_renewal_slot", [renewal: signed(good.transaction)]),
            try swapped("renewal_in_the_transaction_slot", [transaction: signed(good.renewal)]),
            inconsistent("transaction_posted_as_notification", try authority.sign(.object(good.transaction ?? [:]))),
            inconsistent("renewal_posted_as_notification", try authority.sign(.object(good.renewal ?? [:]))),
        ]
    }

    /// One mandatory field left out at a time.
    func missingFields() throws -> [Forgery] {
        var forgeries: [Forgery] = []
        for field in ["notificationType", "notificationUUID", "data"] {
            var lacking = good
            lacking.payload[field] = nil
            forgeries.append(inconsistent("notification_without_\(field)", try authority.sign(lacking)))
        }
        let ofTransactions = [
            "transactionId", "originalTransactionId", "productId", "bundleId", "purchaseDate", "environment",
        ]
        for field in ofTransactions {
            var lacking = good
            lacking.transaction?[field] = nil
            forgeries.append(inconsistent("transaction_without_\(field)", try authority.sign(lacking)))
        }
        for field in ["originalTransactionId", "environment"] {
            var lacking = good
            lacking.renewal?[field] = nil
            forgeries.append(inconsistent("renewal_without_\(field)", try authority.sign(lacking)))
        }
        return forgeries
    }

    /// Genuine, for somebody else.
    func wrongApps() throws -> [Forgery] {
        [
            Forgery(
                "another_bundle", try authority.sign(everywhere("bundleId", .string("com.example.other"))),
                "unknown_app"),
            Forgery(
                "another_app_id", try authority.sign(everywhere("appAppleId", .integer(world.appAppleID + 1))),
                "unknown_app"),
            Forgery(
                "environment_xcode", try authority.sign(everywhere("environment", .string("Xcode"))),
                "wrong_environment"),
            Forgery(
                "environment_local_testing",
                try authority.sign(everywhere("environment", .string("LocalTesting"))), "wrong_environment"),
            Forgery(
                "sandbox_where_only_production",
                try authority.sign(
                    everywhere(
                        "environment", .string(SimulatedStoreEnvironment.sandbox.payloadName), dropping: "appAppleId")),
                "wrong_environment", needsProductionOnly: true),
        ]
    }

    /// The good notification with one field another value wherever the field occurs.
    private func everywhere(_ field: String, _ value: PayloadValue, dropping dropped: String? = nil)
        -> StoreNotification
    {
        var changed = good
        if case .object(var data) = changed.payload["data"] {
            if data[field] != nil { data[field] = value }
            if let dropped { data[dropped] = nil }
            changed.payload["data"] = .object(data)
        }
        if changed.transaction?[field] != nil { changed.transaction?[field] = value }
        if changed.renewal?[field] != nil { changed.renewal?[field] = value }
        return changed
    }

    private func swapped(_ name: String, _ replaced: [String: PayloadValue]) throws -> Forgery {
        inconsistent(name, try authority.sign(good, inner: statements().merging(replaced) { _, new in new }))
    }

    private func inconsistent(_ name: String, _ signedPayload: String) -> Forgery {
        Forgery(name, signedPayload, "inconsistent_payload")
    }

    private func signed(
        _ statement: [String: PayloadValue]?, with changes: [String: PayloadValue] = [:]
    ) throws -> PayloadValue {
        .string(try authority.sign(.object((statement ?? [:]).merging(changes) { _, new in new })))
    }
}
