import Foundation
import StoreSimulator
import Testing

/// Random lives of the real app library against the real service, with deaths anywhere.
@Suite("Kit end to end: random stories against the simulator's record", .serialized)
struct KitStoryTests {
    @Test(
        "however launches, deaths, purchases and answers interleave, all three agree once everything is delivered",
        .timeLimit(.minutes(10)), arguments: 0..<UInt64(LongTests.factor))
    func lives(batch: UInt64) async throws {
        let service = try await KitService.start()
        for seed in batch * 10 + 1...batch * 10 + 10 {
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
