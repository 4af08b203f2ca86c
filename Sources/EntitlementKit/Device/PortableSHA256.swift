import EntitlementCore

/// SHA-256 (FIPS 180-4).
///
/// The device may link neither OpenSSL nor, off Apple's systems, CryptoKit, and names statements as the server does: by
/// this hash of their payload. It guards no secret.
enum PortableSHA256 {
    private static let constants: [UInt32] = [
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    ]
    private static let initial: [UInt32] = [
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    ]

    static func hash(_ message: [UInt8]) -> Digest {
        var padded = message
        padded.append(0x80)
        padded.append(contentsOf: [UInt8](repeating: 0, count: (119 - message.count % 64) % 64))
        withUnsafeBytes(of: (UInt64(message.count) * 8).bigEndian) { padded.append(contentsOf: $0) }
        var state = initial
        var schedule = [UInt32](repeating: 0, count: 64)
        for start in stride(from: 0, to: padded.count, by: 64) {
            for index in 0..<16 {
                schedule[index] = padded[(start + index * 4)..<(start + index * 4 + 4)].reduce(0) {
                    $0 << 8 | UInt32($1)
                }
            }
            for index in 16..<64 {
                let (early, late) = (schedule[index - 15], schedule[index - 2])
                let first = rotated(early, 7) ^ rotated(early, 18) ^ early >> 3
                let second = rotated(late, 17) ^ rotated(late, 19) ^ late >> 10
                schedule[index] = schedule[index - 16] &+ first &+ schedule[index - 7] &+ second
            }
            compress(schedule, into: &state)
        }
        let bytes = state.flatMap { word in withUnsafeBytes(of: word.bigEndian) { Array($0) } }
        // Eight words are 32 bytes, always.
        return Digest(bytes) ?? .zero
    }

    private static func compress(_ schedule: [UInt32], into state: inout [UInt32]) {
        var s = state
        for index in 0..<64 {
            let sum = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)
            let choice = (s[4] & s[5]) ^ (~s[4] & s[6])
            let first = s[7] &+ sum &+ choice &+ constants[index] &+ schedule[index]
            let other = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)
            let majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2])
            s = [first &+ other &+ majority, s[0], s[1], s[2], s[3] &+ first, s[4], s[5], s[6]]
        }
        for index in 0..<8 { state[index] &+= s[index] }
    }

    private static func rotated(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }
}
