import EntitlementCore

extension [UInt8] {
    /// The same text with its control characters written as `\u009b`, but for those that make lines.
    ///
    /// A terminal does what control characters say, and the log may hold what anybody once sent. In JSON the escapes mean the
    /// same.
    var printable: [UInt8] {
        guard contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == 0xC2 }) else { return self }
        var text = ""
        for scalar in String(decoding: self, as: UTF8.self).unicodeScalars {
            guard scalar.isControl, !["\n", "\r", "\t"].contains(scalar) else {
                text.unicodeScalars.append(scalar)
                continue
            }
            text += "\\u" + Hexadecimal.text(scalar.value, digits: 4)
        }
        return Array(text.utf8)
    }
}
