import EntitlementCore
import Foundation
import Ledger
import PostgresClient
import SeededRandom
import TestSupport

/// Appends the drafts of a seed in an order of its own and says what was acknowledged; made to be killed.
@main
enum Worker {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 6, let seed = UInt64(arguments[2]), let originals = Int(arguments[3]),
            let count = Int(arguments[4]), let order = UInt64(arguments[5])
        else {
            FileHandle.standardError.write(Data("usage: ledger-worker CONNINFO SEED ORIGINALS COUNT ORDER\n".utf8))
            exit(2)
        }
        let drafts = RandomDrafts(seed: seed, originals: originals).drafts(count)
        var random = SplitMix64(seed: order)
        let shuffled = Array(drafts.indices).shuffled(using: &random)
        let pool = PostgresPool(arguments[1], limits: PostgresPool.Limits(connections: 2))
        let writer = LedgerWriter(
            pool: pool, now: { Timestamp(milliseconds: Date().timeIntervalSince1970 * 1000) ?? .earliest })
        await withTaskGroup(of: Void.self) { group in
            for (started, index) in shuffled.enumerated() {
                if started >= 24 { await group.next() }
                group.addTask {
                    // Twice the same, at once and again: the second must find the first.
                    async let first = try? writer.append(drafts[index])
                    async let second = try? writer.append(drafts[index])
                    for outcome in await [first, second].compactMap({ $0 }) { say(index, outcome) }
                }
            }
        }
    }

    /// One write of less than a pipe's atomic size: a killed worker leaves no half line.
    static func say(_ index: Int, _ outcome: AppendOutcome) {
        FileHandle.standardOutput.write(Data("\(index) \(outcome.position)\n".utf8))
    }
}
