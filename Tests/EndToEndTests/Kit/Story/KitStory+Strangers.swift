import EntitlementKit
import Foundation
import SeededRandom
import StoreSimulator
import Testing

// Somebody gets a device whose files came from another person's: a backup, or a directory that was copied.
extension KitStory {
    /// How long what nobody confirms is given at most.
    static let strangersBound = 8 * Span.day

    mutating func copyFiles(to device: KitDevice) async throws {
        let (account, environment) = (rig.account(device), rig.environment(device))
        let others = rig.devices.filter { other in
            rig.account(other) != account && rig.environment(other) == environment && other.wasLaunched
                && isAtHome(other) && strangers[other.number] == nil
        }
        guard let other = others.first, isAtHome(device) else { return }
        note("\(device.number) gets the files of \(other.number)")
        await other.kill()
        await device.killWidget()
        await device.kill()
        device.wallet.mayForget()
        strangers[device.number] = rig.account(other)
        try? FileManager.default.removeItem(at: device.directory)
        guard FileManager.default.fileExists(atPath: other.directory.path) else { return }
        try FileManager.default.copyItem(at: other.directory, to: device.directory)
    }

    /// Nobody has logged in there, and its store was never signed in to another account.
    private func isAtHome(_ device: KitDevice) -> Bool {
        !loggedIn.contains(device.number) && visits[device.number] == nil
            && !visits.values.contains(rig.account(device))
    }

    /// What came with others' files is shown no longer than anything that nobody confirms; and no longer than until server
    /// and store were asked, where the store shows something that the device's own Apple account owns.
    mutating func letStrangersFilesRunOut() throws {
        let silent = try strangers.keys.filter { number in
            try rig.store.with { try $0.currentEntitlements(of: number).isEmpty }
        }
        if !silent.isEmpty { rig.service.clock.advance(by: Self.strangersBound) }
        strangers = [:]
    }
}
