import EntitlementCore
import Ledger

extension ServiceContext {
    /// Counts what is odd about something that was appended, and says it.
    ///
    /// - Parameters:
    ///   - remarks: what was remarked when it was read. One may quote the payload, so metrics and log get its kind, and the
    ///     event keeps the rest.
    ///   - kinds: what is odd beside that.
    func tell(
        _ remarks: [String], and kinds: [String], of what: String, _ outcome: AppendOutcome,
        in environment: StoreEnvironment
    ) {
        let kinds = remarks.map { String($0.prefix { $0 != ":" }) } + (outcome.idIsReused ? ["id_reused"] : []) + kinds
        guard !kinds.isEmpty else { return }
        for kind in kinds { metrics.count(.remarks, [kind]) }
        logger.log(
            .warning, "\(what) holds something to look at",
            [
                ("position", .integer(outcome.position)), ("environment", .string(environment.rawValue)),
                ("remarks", .string(Set(kinds).sorted().joined(separator: ","))),
            ])
    }
}
