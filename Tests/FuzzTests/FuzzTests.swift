import Foundation
import FuzzTargets
import SeededRandom
import Testing

/// A slice of the campaign that `deploy/test --fuzz` runs for longer, and guided by what it has reached.
@Suite("Inputs of strangers")
struct FuzzTests {
    /// Inputs of each target.
    private static let count = Int(ProcessInfo.processInfo.environment["RIGHTFUL_TEST_INPUTS"] ?? "") ?? 150
    private static let seed = UInt64(ProcessInfo.processInfo.environment["RIGHTFUL_TEST_SEED"] ?? "") ?? 1
    /// The longest that one input may take, without optimisation and beside other tests.
    private static let limit = Duration.seconds(5)

    @Test("every input of the corpus is taken for what it is")
    func corpus() throws {
        let corpus = try FuzzCorpus()
        for target in try FuzzTarget.all(corpus) {
            let inputs = try corpus.inputs(target.name)
            #expect(!inputs.isEmpty, "\(target.name) has no inputs")
            for (number, input) in inputs.enumerated() {
                let isTaken = try target.run(input)
                #expect(isTaken, "\(target.name), input \(number): has a format changed? see CorpusTests")
            }
        }
    }

    @Test("what is believed and not among what was signed is a finding")
    func findings() throws {
        let signed: Set<String> = ["jws", "notification", "statement", "certificate", "note", "export"]
        let corpus = try FuzzCorpus()
        for target in try FuzzTarget.all(FuzzCorpus(hiding: signed)) where signed.contains(target.name) {
            let input = try #require(corpus.inputs(target.name).first)
            #expect(throws: FuzzFinding.self, "\(target.name)") { try target.run(input) }
        }
    }

    @Test("no variant of an input crashes, hangs, or is believed")
    func variants() throws {
        let corpus = try FuzzCorpus()
        for target in try FuzzTarget.all(corpus) {
            let inputs = try corpus.inputs(target.name)
            var random = SplitMix64(seed: Self.seed)
            var taken = 0
            for number in 0..<Self.count {
                let seed = random.next()
                var mutator = Mutator(seed: seed)
                let input = mutator.mutated(random.pick(inputs), with: random.pick(inputs), as: target.form)
                LastInput.keep(input, "\(target.name), seed \(Self.seed), number \(number)")
                let start = ContinuousClock.now
                do {
                    taken += try target.run(input) ? 1 : 0
                } catch {
                    Issue.record("\(target.name), seed \(Self.seed), \(number): \(error): \(LastInput.hex(input))")
                }
                let duration = ContinuousClock.now - start
                #expect(duration < Self.limit, "\(target.name), number \(number): \(LastInput.hex(input))")
            }
            // Neither all nor nothing: else the variants would be too tame, or would get nowhere.
            #expect(taken < Self.count, "\(target.name): \(taken) of \(Self.count) were taken")
        }
    }
}
