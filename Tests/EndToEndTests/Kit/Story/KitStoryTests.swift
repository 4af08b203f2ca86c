import Foundation
import StoreSimulator
import TestSupport
import Testing

/// Random lives of the real app library against the real service, with deaths anywhere.
///
/// What they draw from, each with the suites that race it by name:
///
/// | What would hurt a customer | drawn as | by name in |
/// | --- | --- | --- |
/// | TestFlight and production | devices of both environments | `KitAccountTests` |
/// | logged-in purchases | `logIn`, linked by itself or by the app's server; sign out, `redeem`, `share` | `KitNetworkTests`, `ConflictTests` |
/// | another Apple account | `switchAccount` | `KitAccountTests`, `ConflictTests` |
/// | tokens | apps with and without a `tokenProvider`, days that pass, 401 | `TokenTests` |
/// | finishing | stores that are not ready, `finish` that hangs, refunds | `FinishingTests`, `RefundTests`, `KitRaceTests` |
/// | consumables | `grant`: at once, twice, late, at a later launch; refunds, also taken back | `ConsumableTests` |
/// | files | `KitTampering`, an extension beside the app | `KitDiskTests`, `SharedDiskTests`, `FileStorageTests` |
/// | forged disks and proxies | `forge`, `.forgery`, others' files (`copyFiles`) | `ForgedDiskTests`, `StatementChainTests`, `OthersPurchasesTests` |
/// | pruning | devices that keep a few transactions, eager buyers of coins (`expectOnlyNeedlessLetGo`) | `StatementTests` |
/// | a stalled StoreKit | calls that hang | `StalledStoreTests` |
/// | no flash at expiry | renewals, grace and ends while time passes | `EndOfPeriodTests` |
/// | launch before first unlock | locked files | `KitDiskTests`, `LockedDeviceTests` |
/// | outcomes of purchases | `buying`: cancelled, interrupted, Ask to Buy, network, pressed twice | `PurchaseOutcomeTests`, `KitRaceTests` |
/// | clocks | a device's clock set forward and back | `ClockTests`, `ClockGuardTests` |
/// | a server restored from a backup | `troubleTheServer` | `RestoredServerTests` |
/// | rested items | weather, `networkDidReturn` | `WakingTests`, `KitNetworkTests` |
/// | wire evolution | dialects of the server | `KitWireTests`, `OtherVersionsTests` |
/// | activations | twenty at once, at most one request (`expectNoStorm`) | `WakingTests` |
///
/// Only by name, since nothing of it depends on when it happens: an update of the app with a new product, account tokens that were
/// replaced, offers that are refused, and stores that tell of a changed status by themselves (`RealDevicesTests`, `OfferTests`,
/// `EndOfPeriodTests`); and sync that is off, which has no server to agree with (`LifeTests`). What `UnluckyDevicesTests` holds was
/// found by asking what else goes wrong.
///
/// Beside these a store may sign everything anew at each call, and lose its connection in the middle of a purchase.
@Suite("Kit end to end: random stories against the simulator's record", .serialized)
struct KitStoryTests {
    @Test(
        "however launches, deaths, purchases and answers interleave, all three agree once everything is delivered",
        .timeLimit(.minutes(10)), arguments: 0..<UInt64(Campaign.factor))
    func lives(batch: UInt64) async throws {
        let service = try await KitService.start()
        for seed in batch * 6 + 1...batch * 6 + 6 {
            var story = try KitStory(service, seed: seed)
            do {
                try await story.live(steps: 40)
            } catch {
                await story.rig.close()
                throw error
            }
            await story.rig.close()
        }
        await service.stop()
    }
}
