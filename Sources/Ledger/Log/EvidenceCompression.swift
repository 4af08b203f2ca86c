import EntitlementCore
import Zstandard

/// Compresses the steps of evidence by a dictionary of what the App Store's payloads have in common: the names of their
/// members and the values that keep coming back.
///
/// A notification's two kilobytes of steps become some five hundred and fifty bytes, of which two hundred are signatures.
///
/// The dictionary is part of how evidence is stored: it never changes. A better one would be added beside it, under a number
/// of its own. It was trained with what `rightful-bench samples DIRECTORY` writes, by
/// `zstd --train DIRECTORY/* --maxdict=16384 --dictID=1 -o Sources/Ledger/Log/evidence-1.dictionary`.
enum EvidenceCompression {
    /// Below zero, since the dictionary does most of the work: level 1 makes it 4 % smaller, and takes 10 % more time to
    /// compress and twice as much to decompress.
    private static let level: Int32 = -1

    /// What is shorter stays as it is.
    private static let minimum = 128

    /// What is longer stays as it is, and no frame is decompressed to more.
    static let limit = 1 << 20

    private static let dictionary: CompressionDictionary = {
        do {
            return try CompressionDictionary(PackageResources.evidence_1_dictionary, level: level)
        } catch {
            preconditionFailure("the dictionary that evidence is compressed with: \(error)")
        }
    }()

    /// A frame of the steps; `nil` where that would be no shorter.
    static func compress(_ steps: [UInt8]) -> [UInt8]? {
        guard (minimum...limit).contains(steps.count) else { return nil }
        let frame = dictionary.compress(steps)
        return frame.count < steps.count ? frame : nil
    }

    /// The steps of a frame.
    static func decompress(_ frame: [UInt8]) throws -> [UInt8] {
        do {
            return try dictionary.decompress(frame, limit: limit)
        } catch {
            throw LedgerError(.corrupt, "evidence does not decompress: \(error)")
        }
    }
}
