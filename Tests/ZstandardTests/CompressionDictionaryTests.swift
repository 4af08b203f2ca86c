import Foundation
import SeededRandom
import Testing

@testable import Zstandard

@Suite("Compression with a dictionary")
struct CompressionDictionaryTests {
    /// The dictionary that evidence is compressed by.
    private static func bytes() throws -> [UInt8] {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return Array(try Data(contentsOf: root.appending(path: "Sources/Ledger/Log/evidence-1.dictionary")))
    }

    private static func dictionary(level: Int32 = -1) throws -> CompressionDictionary {
        try CompressionDictionary(bytes(), level: level)
    }

    private static let text = Array(
        #"{"bundleId":"org.sample.app","currency":"EUR","environment":"Production","signedDate":1771286401000}"#.utf8)

    /// Texts of many lengths, some like what the dictionary knows, some like nothing.
    private static func texts(seed: UInt64) -> [[UInt8]] {
        var random = SplitMix64(seed: seed)
        return (0..<200).map { number in
            let count = Int.random(in: 0..<(number.isMultiple(of: 20) ? 200_000 : 4000), using: &random)
            return number.isMultiple(of: 2)
                ? Array(Array(repeating: text, count: count / text.count + 1).joined().prefix(count))
                : (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
    }

    @Test("what was compressed comes back, and the same gives the same", arguments: 1...3 as ClosedRange<UInt64>)
    func roundTrip(seed: UInt64) throws {
        let dictionary = try Self.dictionary()
        let other = try Self.dictionary()
        for text in Self.texts(seed: seed) {
            let frame = dictionary.compress(text)
            #expect(try dictionary.decompress(frame, limit: text.count) == text, "seed \(seed)")
            #expect(other.compress(text) == frame, "seed \(seed)")
            #expect(try other.decompress(frame, limit: 1 << 20) == text, "seed \(seed)")
        }
        #expect(dictionary.compress(Self.text).count < Self.text.count / 2)
    }

    @Test("many threads use one dictionary at once")
    func concurrency() async throws {
        let dictionary = try Self.dictionary()
        let texts = Self.texts(seed: 4)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<64 {
                group.addTask {
                    for text in texts[(task % 8 * 20)..<(task % 8 * 20 + 40)] {
                        let again = try dictionary.decompress(dictionary.compress(text), limit: text.count)
                        #expect(again == text)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("what is no whole frame, or no frame of this dictionary, is refused")
    func refused() throws {
        let dictionary = try Self.dictionary()
        let frame = dictionary.compress(Self.text)
        for count in 0..<frame.count {
            #expect(throws: CompressionError.self, "\(count) bytes of \(frame.count)") {
                try dictionary.decompress(Array(frame.prefix(count)), limit: 1000)
            }
        }
        let wrong = [Self.text, frame + [0], frame + frame, Array(repeating: 0xFF, count: 100)]
        for bytes in wrong {
            #expect(throws: CompressionError.self) { try dictionary.decompress(bytes, limit: 1000) }
        }
        // The dictionary's number is in its fifth to eighth byte.
        var renumbered = try Self.bytes()
        renumbered[4] = 2
        let second = try CompressionDictionary(renumbered, level: -1)
        #expect(second.number == 2 && dictionary.number == 1)
        #expect(throws: CompressionError.self) { try second.decompress(frame, limit: 1000) }
    }

    @Test("more than the limit is not decompressed, however small the frame")
    func limit() throws {
        let dictionary = try Self.dictionary()
        let long = [UInt8](repeating: 7, count: 1 << 20)
        let frame = dictionary.compress(long)
        #expect(frame.count < 1000)
        #expect(throws: CompressionError.self) { try dictionary.decompress(frame, limit: long.count - 1) }
        #expect(try dictionary.decompress(frame, limit: long.count) == long)
    }

    @Test("a damaged frame is refused or gives something else, and never more than it says", arguments: [5 as UInt64])
    func damaged(seed: UInt64) throws {
        let dictionary = try Self.dictionary()
        var random = SplitMix64(seed: seed)
        let text = Array(Array(repeating: Self.text, count: 4).joined())
        let frame = dictionary.compress(text)
        var refused = 0
        for _ in 0..<20_000 {
            var damaged = frame
            for _ in 0...Int.random(in: 0..<3, using: &random) {
                damaged[Int.random(in: damaged.indices, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
            }
            do {
                let bytes = try dictionary.decompress(damaged, limit: 4096)
                #expect(bytes.count <= 4096, "seed \(seed)")
            } catch {
                refused += 1
            }
        }
        #expect(refused > 1000)
    }

    @Test("bytes that are no dictionary with a number are refused")
    func noDictionary() throws {
        for bytes in [[], Self.text, Array(try Self.bytes().prefix(60))] {
            #expect(throws: CompressionError.self) { try CompressionDictionary(bytes, level: -1) }
        }
    }
}
