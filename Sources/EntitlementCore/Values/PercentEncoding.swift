/// Texts as parts of URLs and forms.
package enum PercentEncoding {
    /// Everything but letters and digits of ASCII, and some marks, is encoded.
    ///
    /// - Parameter marks: in ASCII; those that are left out never mean anything in a URL but for dots, which lead out of a
    ///   path where they are a segment.
    package static func text(_ text: String, leaving marks: String = "-._~") -> String {
        let plain = Array(marks.utf8)
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                encoded.append(byte)
            case _ where plain.contains(byte): encoded.append(byte)
            default: encoded += "%\(Hexadecimal.text([byte]).uppercased())".utf8
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
