import EntitlementAPI
import EntitlementCore

/// The answer to a device, with gaps for what differs each time it is given.
enum ReconciliationTemplate {
    static let cacheControl: StaticString = "no-store"

    private static let instant = Timestamp(milliseconds: Int64(171_085_107_581_587))
    private static let position: Int64 = 7_391_587_410_903_051_709
    private static let pass = "<a pass 4be1a0c7d35f>"
    private static let markers = ["\"\(instant)\"", "\(position)", "\"\(pass)\""]

    /// A document with a marker in the place of each value that differs; the document is made for them.
    ///
    /// - Returns: `nil` where text of the answer reads like a marker.
    /// - Throws: what the encoder throws.
    static func make(
        _ document: (_ at: Timestamp, _ position: Int64, _ pass: String) -> ReconciliationDocument
    ) throws -> AnswerTemplate? {
        AnswerTemplate(try WireJSON.encode(document(instant, position, pass)), markers: markers)
    }

    /// What fills the gaps: an instant, a position, and the pass as JSON text.
    static func values(at instant: String, position: String, pass: String) -> [String] {
        ["\"\(instant)\"", position, pass]
    }
}
