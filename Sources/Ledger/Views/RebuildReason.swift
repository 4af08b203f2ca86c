import EntitlementCore

/// Why the views should be rebuilt.
package enum RebuildReason: Sendable, Equatable, CustomStringConvertible {
    /// They are of another fold version (`nil`: of none).
    case otherVersion(Int64?)
    /// They claim to reach beyond the end of the log.
    case ahead(checkpoint: Int64, head: Int64)
    /// The snapshot of an original transaction is missing or too old.
    case unproven(originalTransactionID: String)
    /// A rebuild was begun and not finished.
    case unfinished

    package var description: String {
        switch self {
        case .otherVersion(let version):
            "the views are of fold version \(version.map(String.init) ?? "none"), this is \(OriginalState.foldVersion)"
        case .ahead(let checkpoint, let head): "the views claim position \(checkpoint), the log ends at \(head)"
        case .unproven(let original): "the snapshot of original transaction \(original) is missing or out of date"
        case .unfinished: "a rebuild was not finished"
        }
    }
}
