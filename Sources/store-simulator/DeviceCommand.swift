import StoreSimulator

/// Prints what the device of one of the demonstration's customers holds, as it posts it to be reconciled.
struct DeviceCommand {
    let directory: DemoDirectory
    let name: String

    func run(now: Int64) throws {
        let people = DemoStory.people
        guard let person = people.first(where: { $0.name.lowercased() == name.lowercased() }) else {
            throw SimulatorUsageError(
                "nobody of the demo is called '\(name)'; there are \(people.map(\.name).joined(separator: ", "))")
        }
        let authority = try directory.authority()
        let held = try directory.story(authority, now: now).map(\.step.notification).filter {
            $0.transaction?["appAccountToken"] == person.account.appAccountToken.map(PayloadValue.string)
        }
        var body: [String: PayloadValue] = [
            "app": .string(DemoStory.world.bundleID),
            "signed_transactions": .array(
                try held.compactMap { try authority.signTransaction(of: $0) }.map(PayloadValue.string)),
            "signed_renewal_infos": .array(
                try held.compactMap(\.renewal).map { .string(try authority.sign(.object($0))) }),
        ]
        body["app_transaction"] = try person.account.appTransactionID.map {
            .string(try authority.signAppTransaction($0, .production, world: DemoStory.world))
        }
        say(String(decoding: try PayloadValue.object(body).encoded(), as: UTF8.self))
    }
}
