import SeededRandom

// What the store shows to a device when the app asks.
extension SimulatedDevices {
    /// What is owned now; nothing while the device reads nothing.
    package mutating func currentEntitlements(of device: Int) throws -> [DeviceStatement] {
        guard !devices[device].readsNothing else { return [] }
        let held = keys(of: device).compactMap { key -> PaymentKey? in
            let book = storyteller.book(key)
            return gives(book) ? PaymentKey(original: key, number: book.last.number) : nil
        }
        return try held.map { try statement($0, for: device) } + devices[device].forged
    }

    /// The history as far as the store shows it.
    package mutating func allTransactions(of device: Int) throws -> [DeviceStatement] {
        guard !devices[device].readsNothing else { return [] }
        let open = Set(devices[device].unfinished)
        var shown: [DeviceStatement] = []
        for key in keys(of: device) {
            for payment in storyteller.book(key).payments {
                let ref = PaymentKey(original: key, number: payment.number)
                // Finished consumables are no part of the history, whatever is left out otherwise.
                let isGone = payment.product.kind == .consumable || random.chance(devices[device].omission)
                if isGone, !open.contains(ref) { continue }
                shown.append(try statement(ref, for: device))
            }
        }
        return shown + devices[device].forged
    }

    /// What the app never finished on this device.
    package mutating func unfinishedTransactions(of device: Int) throws -> [DeviceStatement] {
        guard !devices[device].readsNothing, !devices[device].isUnready else { return [] }
        return try redelivery(to: device)
    }

    /// What the store hands over by itself when the app is launched.
    package mutating func redelivery(to device: Int) throws -> [DeviceStatement] {
        try devices[device].unfinished.map { try statement($0, for: device) } + devices[device].forged
    }

    /// Each subscription's latest transaction with its renewal information, and whether the device believes it.
    package mutating func subscriptionStatuses(
        of device: Int
    ) throws -> [(transaction: DeviceStatement, renewal: String)] {
        guard !devices[device].readsNothing else { return [] }
        var statuses: [(DeviceStatement, String)] = []
        for key in keys(of: device) where storyteller.book(key).renewal != nil {
            let last = PaymentKey(original: key, number: storyteller.book(key).last.number)
            if let renewal = try renewal(key) { statuses.append((try statement(last, for: device), renewal)) }
        }
        return statuses
    }

    private func keys(of device: Int) -> [SimulatedOriginalKey] { originals[payer(device)] ?? [] }

    /// Whether the store counts the last payment as owned, as `currentEntitlements` does: consumables never, grace yes.
    private func gives(_ book: StoreBook) -> Bool {
        let last = book.last
        guard last.revocation == nil, !last.isUpgraded else { return false }
        switch last.product.kind {
        case .consumable: return false
        case .nonConsumable, .nonRenewing: return true
        case .autoRenewable: return now < max(last.expiresDate ?? .max, book.renewal?.graceEnd ?? .min)
        }
    }
}
