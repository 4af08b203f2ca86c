/// Sebastiano Vigna's SplitMix64, the generator behind every simulated life and random test: small, fast, and the same on
/// every platform.
///
/// Draws are reduced by remainder rather than by the standard library's `random(in:using:)`, whose algorithm may
/// change between toolchains: a seed printed by a failing test has to mean the same life for ever.
package struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Starts the sequence that belongs to `seed`.
    package init(seed: UInt64) {
        state = seed
    }

    /// The next 64 bits.
    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A number from the range, both ends included.
    package mutating func number(in range: ClosedRange<Int64>) -> Int64 {
        let width = UInt64(range.upperBound - range.lowerBound) + 1
        return range.lowerBound + Int64(next() % width)
    }

    /// True in `percent` of a hundred draws.
    ///
    /// A chance of nothing draws nothing, so that a quirk that is switched off leaves the rest of the life alone.
    package mutating func chance(_ percent: Int) -> Bool {
        percent > 0 && number(in: 0...99) < Int64(percent)
    }

    /// One of the choices; the choices must not be empty.
    package mutating func pick<Choice>(_ choices: [Choice]) -> Choice {
        choices[Int(number(in: 0...Int64(choices.count - 1)))]
    }

    /// The positions of `choices` in a random order (Fisher–Yates).
    package mutating func shuffled<Choice>(_ choices: [Choice]) -> [Choice] {
        var result = choices
        for last in stride(from: result.count - 1, to: 0, by: -1) {
            result.swapAt(last, Int(number(in: 0...Int64(last))))
        }
        return result
    }

    /// A version 4 UUID in lower case.
    package mutating func uuid() -> String {
        var bytes = [UInt8]()
        for word in [next(), next()] {
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
            }
        }
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = Array("0123456789abcdef")
        var text = ""
        for (index, byte) in bytes.enumerated() {
            if [4, 6, 8, 10].contains(index) { text.append("-") }
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 0x0F)])
        }
        return text
    }
}
