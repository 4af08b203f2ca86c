import Foundation
import OpenSSLCrypto
import SeededRandom

/// Makes bad inputs of good ones: at random, the same ones for the same seed, and keeping their form as far as that
/// leads deeper.
package struct Mutator: Sendable {
    private var random: SplitMix64

    package init(seed: UInt64) { random = SplitMix64(seed: seed) }

    /// The longest input that is made, in bytes.
    private static let lengthLimit = 64 << 10

    /// A variant of an input; parts of another one may be spliced in.
    package mutating func mutated(_ input: [UInt8], with other: [UInt8], as form: FuzzTarget.Form) -> [UInt8] {
        var bytes = input
        for _ in 0..<random.number(in: 1...4) {
            switch form {
            case .jws where random.chance(70): bytes = mutatedJWS(bytes, with: other)
            case .json where random.chance(75): bytes = mutatedJSON(bytes, with: other)
            case .text where random.chance(50): bytes = mutatedText(bytes, with: other)
            case .bytes, .json, .jws, .text: bytes = mutatedBytes(bytes, with: other)
            }
        }
        return Array(bytes.prefix(Self.lengthLimit))
    }

    // MARK: - Bytes

    private mutating func mutatedBytes(_ input: [UInt8], with other: [UInt8]) -> [UInt8] {
        var bytes = input
        guard !bytes.isEmpty else { return Array(other.prefix(8)) + [UInt8(truncatingIfNeeded: random.next())] }
        let place = Int(random.number(in: 0...Int64(bytes.count - 1)))
        let length = Int(random.number(in: 0...Int64(min(64, bytes.count - place))))
        switch random.number(in: 0...8) {
        case 0: bytes[place] ^= 1 << UInt8(random.number(in: 0...7))
        case 1: bytes[place] = random.pick([0, 1, 0x7F, 0x80, 0xC0, 0xED, 0xF5, 0xFF, 0x0A, 0x0D, 0x22, 0x2E])
        case 2: bytes.removeSubrange(place..<(place + length))
        case 3: bytes.insert(contentsOf: bytes[place..<(place + length)], at: place)
        case 4: bytes.removeLast(bytes.count - place)
        case 5: bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: place)
        case 6 where !other.isEmpty:
            let start = Int(random.number(in: 0...Int64(other.count - 1)))
            bytes.replaceSubrange(place..., with: other[start...])
        case 7 where place + 8 <= bytes.count:
            // As counts and numbers stand in the canonical form.
            let number: UInt64 = random.pick([0, 1, 0xFFFF_FFFF, 0x7FFF_FFFF, .max, 1 << 63, 1 << 32, random.next()])
            let size = random.pick([4, 8])
            for index in 0..<size {
                bytes[place + index] = UInt8(truncatingIfNeeded: number >> (8 * (size - 1 - index)))
            }
        default: bytes[place] = UInt8(truncatingIfNeeded: random.next())
        }
        return bytes
    }

    private static let oddTexts = [
        "%00", "%2e%2e", "%", "+", "\u{0}", "é", "\u{200d}", "٣", "9223372036854775808", "-1", "1e9", "P1Y", "PT0S",
        "P999999999Y", "0000-00-00T00:00:00Z", "9999-12-31T23:59:60.999Z", "2026-02-30T24:00:00+99:99", "//", "?",
        "&&==",
        "\n\n", "— ", "\u{2028}", "::1/128", "0.0.0.0/33", "known_at=", "at=",
    ]

    private mutating func mutatedText(_ input: [UInt8], with other: [UInt8]) -> [UInt8] {
        var bytes = input
        let place = Int(random.number(in: 0...Int64(bytes.count)))
        let end = min(bytes.count, place + Int(random.number(in: 0...6)))
        bytes.replaceSubrange(place..<end, with: Array(random.pick(Self.oddTexts).utf8))
        return bytes
    }

    // MARK: - Signed forms

    private mutating func mutatedJWS(_ input: [UInt8], with other: [UInt8]) -> [UInt8] {
        var parts = input.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { Array($0) }
        let others = other.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { Array($0) }
        let index = Int(random.number(in: 0...Int64(parts.count - 1)))
        if random.chance(15), others.indices.contains(index) {
            parts[index] = others[index]
        } else if let decoded = Base64.decodeURL(parts[index]) {
            let isJSON = index < 2 && random.chance(80)
            let changed = isJSON ? mutatedJSON(decoded, with: []) : mutatedBytes(decoded, with: [])
            parts[index] = Array(Base64.encodeURL(changed).utf8)
        } else {
            parts[index] = mutatedBytes(parts[index], with: [])
        }
        return Array(parts.joined(separator: [UInt8(ascii: ".")]))
    }

    // MARK: - JSON

    private static let oddValues = [
        "null", "true", "false", "0", "-0", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
        "1e999", "-1e308", "0.1", "1E-400", "1767225600000.5", "\"\"", "\"\\u0000\"", "\"\\ud800\"", "\"\u{10FFFF}\"",
        "[]",
        "{}", "[[]]", "{\"\":{}}", "\"9999-12-31T23:59:59.999Z\"", "\"sandbox\"", "\"P90D\"", "nul", "1.", "01", "\"",
        "99999999999999999999999999999999999999",
    ]

    private mutating func mutatedJSON(_ input: [UInt8], with other: [UInt8]) -> [UInt8] {
        let tokens = Self.tokens(of: input)
        guard let last = tokens.indices.last else { return mutatedBytes(input, with: other) }
        var bytes = input
        let first = Int(random.number(in: 0...Int64(last)))
        let token = tokens[first]
        let run = token.lowerBound..<tokens[min(last, first + Int(random.number(in: 0...6)))].upperBound
        switch random.number(in: 0...8) {
        case 0...2: bytes.replaceSubrange(token, with: Array(random.pick(Self.oddValues).utf8))
        case 3: bytes.removeSubrange(run)
        case 4: bytes.insert(contentsOf: bytes[run], at: run.upperBound)
        case 5:
            // A member twice: its name, a colon and its value.
            let end = tokens[min(last, first + 2)].upperBound
            bytes.insert(contentsOf: [UInt8(ascii: ",")] + bytes[token.lowerBound..<end], at: end)
        case 6:
            let depth = Int(random.pick([2, 100, 511, 512, 513, 3000]))
            let (open, close) = random.pick([("[", "]"), ("{\"a\":", "}")])
            let nested = String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)
            bytes.replaceSubrange(token, with: Array(nested.utf8))
        case 7:
            let others = Self.tokens(of: other)
            guard !others.isEmpty else { return mutatedBytes(input, with: other) }
            bytes.replaceSubrange(token, with: other[random.pick(others)])
        default:
            guard token.count > 2, bytes[token.lowerBound] == UInt8(ascii: "\"") else {
                return mutatedBytes(input, with: other)
            }
            let inside = (token.lowerBound + 1)..<(token.upperBound - 1)
            bytes.replaceSubrange(inside, with: mutatedContent(Array(bytes[inside])))
        }
        return bytes
    }

    /// Changes what a text in JSON holds, in its own form where it has one.
    private mutating func mutatedContent(_ content: [UInt8]) -> [UInt8] {
        if content.count > 100, content.count(where: { $0 == UInt8(ascii: ".") }) == 2 {
            return mutatedJWS(content, with: [])
        }
        if content.count > 30, random.chance(80), let decoded = Base64.decode(content) {
            return Array(Base64.encode(mutatedBytes(decoded, with: [])).utf8)
        }
        return random.chance(50) ? mutatedText(content, with: []) : mutatedBytes(content, with: [])
    }

    /// Where the tokens of JSON are; of what is none, where they would be.
    private static func tokens(of bytes: [UInt8]) -> [Range<Int>] {
        var tokens: [Range<Int>] = []
        var index = 0
        while index < bytes.count, tokens.count < 4000 {
            let start = index
            index += 1
            switch bytes[start] {
            case UInt8(ascii: "\""):
                while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
                    index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
                }
                index = min(index + 1, bytes.count)
            case UInt8(ascii: " "), 0x0A, 0x0D, 0x09: continue
            case let byte where isWord(byte):
                while index < bytes.count, isWord(bytes[index]) { index += 1 }
            default: break
            }
            tokens.append(start..<index)
        }
        return tokens
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}
