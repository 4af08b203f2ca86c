/// Why a payload cannot be used.
///
/// Everything else about a payload is a remark, never an error.
package enum PayloadError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The bytes are not one JSON object, or exceed a limit of ``JSONObject``.
    case malformed(String)
    /// A mandatory field is missing, empty or of another type, so the payload is not what it was taken for.
    case inconsistent(String)

    package var description: String {
        switch self {
        case .malformed(let what), .inconsistent(let what): what
        }
    }
}
