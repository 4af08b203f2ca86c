import EntitlementCore

/// What of an X.509 certificate decides whether it may vouch for the store (RFC 5280).
///
/// Its signature is not looked at: that is for whoever knows the way to the root.
struct StoreCertificate: Hashable, Sendable {
    /// Names as they are encoded, since Apple writes them the same way in both places.
    let subject: [UInt8]
    let issuer: [UInt8]
    let notBefore: Timestamp
    /// The first instant at which it is not valid any more.
    let notAfter: Timestamp
    /// The public key as a point of P-256 in X9.63 form; `nil` for any other.
    let p256Key: [UInt8]?
    /// Whether it may issue certificates.
    let isAuthority: Bool
    /// The identifiers of its extensions, as they are encoded.
    private let extensions: Set<[UInt8]>

    /// 1.2.840.113635.100.6.11.1: signs for the App Store.
    static let leafMarker: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x63, 0x64, 0x06, 0x0B, 0x01]
    /// 1.2.840.113635.100.6.2.1: Apple Worldwide Developer Relations, which issues those.
    static let intermediateMarker: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x63, 0x64, 0x06, 0x02, 0x01]

    private static let basicConstraints: [UInt8] = [0x55, 0x1D, 0x13]
    /// What stands before the point of an uncompressed P-256 key: its algorithm and curve, and the head of the bits.
    private static let p256Prefix: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48,
        0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]

    /// Reads a certificate in DER; `nil` for anything else.
    init?(der: [UInt8]) {
        typealias Tag = DERReader.Tag
        var outside = DERReader(der[...])
        guard let certificate = outside.next(Tag.sequence), outside.isAtEnd else { return nil }
        var parts = certificate.inside
        guard var signed = parts.next(Tag.sequence)?.inside, signed.next(Tag.version) != nil,
            signed.next(Tag.integer) != nil, signed.next(Tag.sequence) != nil,
            let issuer = signed.next(Tag.sequence), var validity = signed.next(Tag.sequence)?.inside,
            let notBefore = validity.next().flatMap(Timestamp.init(certificateTime:)),
            let notAfter = validity.next().flatMap(Timestamp.init(certificateTime:)),
            let subject = signed.next(Tag.sequence), let key = signed.next(Tag.sequence)
        else { return nil }
        self.issuer = Array(issuer.whole)
        self.subject = Array(subject.whole)
        (self.notBefore, self.notAfter) = (notBefore, notAfter)
        let isP256 = key.whole.starts(with: Self.p256Prefix) && key.whole.count == Self.p256Prefix.count + 65
        p256Key = isP256 ? Array(key.whole.dropFirst(Self.p256Prefix.count)) : nil

        var rows: DERReader?
        while let element = signed.next() {
            if element.tag == Tag.extensions {
                var inside = element.inside
                rows = inside.next(Tag.sequence)?.inside
            }
        }
        var (extensions, isAuthority) = (Set<[UInt8]>(), false)
        while var row = rows?.next(Tag.sequence)?.inside {
            guard let identifier = row.next(Tag.identifier) else { return nil }
            _ = row.next(Tag.boolean)
            guard let value = row.next(Tag.octets) else { return nil }
            extensions.insert(Array(identifier.content))
            guard Array(identifier.content) == Self.basicConstraints else { continue }
            var constraints = value.inside
            var members = constraints.next(Tag.sequence)?.inside
            isAuthority = members?.next(Tag.boolean)?.content.first == 0xFF
        }
        (self.extensions, self.isAuthority) = (extensions, isAuthority)
    }

    func has(_ marker: [UInt8]) -> Bool { extensions.contains(marker) }

    func isValid(at instant: Timestamp) -> Bool { notBefore <= instant && instant < notAfter }
}

extension Timestamp {
    /// A time of a certificate, which is in UTC, with seconds, and without fractions.
    fileprivate init?(certificateTime element: DERReader.Element) {
        var text = String(decoding: element.content, as: UTF8.self)
        switch element.tag {
        case DERReader.Tag.utcTime:
            // Two digits of the year: those from 50 on are of the century before.
            guard let year = Int(text.prefix(2)) else { return nil }
            text = (year < 50 ? "20" : "19") + text
        case DERReader.Tag.generalizedTime: break
        default: return nil
        }
        let characters = Array(text)
        guard characters.count == 15, characters[14] == "Z", characters[..<14].allSatisfy(\.isWholeNumber) else {
            return nil
        }
        let date = "\(String(characters[..<4]))-\(String(characters[4..<6]))-\(String(characters[6..<8]))"
        let time = "\(String(characters[8..<10])):\(String(characters[10..<12])):\(String(characters[12..<14]))"
        self.init(rfc3339: "\(date)T\(time)Z")
    }
}
