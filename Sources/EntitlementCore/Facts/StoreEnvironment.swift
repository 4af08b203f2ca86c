/// Where the store's facts live.
///
/// Part of every key; facts of the two never meet.
package enum StoreEnvironment: String, Hashable, Sendable, CaseIterable, Codable {
    case production
    case sandbox
}
