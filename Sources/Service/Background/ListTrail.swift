/// Notices that a list which is read page by page leads in a circle, which would be followed for ever.
///
/// One place is remembered, the 1st, then the 3rd, the 7th and so on, and compared with each that comes after it (Brent's
/// algorithm). So a circle of any length is found, after less than three times as many pages as there are up to its end, and
/// memory does not grow with the list.
struct ListTrail: Sendable {
    private var remembered: String?
    private var steps = 0
    private var stride = 1

    /// - Parameter place: where reading begins; `nil` for the beginning of the list.
    init(from place: String? = nil) { remembered = place }

    /// Goes on to the next place; `false` where the list has led there before.
    mutating func follow(_ place: String) -> Bool {
        guard place != remembered else { return false }
        steps += 1
        if steps == stride { (remembered, steps, stride) = (place, 0, stride * 2) }
        return true
    }
}
