/// What `rightful verify --json` prints.
package struct VerificationDocument: Encodable, Sendable {
    package struct Difference: Codable, Hashable, Sendable {
        package let table: String
        /// Which row.
        package let key: String
        package let problem: String

        package init(table: String, key: String, problem: String) {
            self.table = table
            self.key = key
            self.problem = problem
        }
    }

    /// What was found to be as it must be.
    package struct Checked: Codable, Hashable, Sendable {
        package let position: Int64
        package let hash: String
        /// The root of the tree over the events.
        package let root: String
        package let evidence: Int64
        /// Whether every signature was checked and every fact derived again; `--quick` leaves that out.
        package let signatures: Bool
        /// Webhooks whose secret is not configured any more: their facts were derived again, their signatures not checked.
        package let signaturesUnchecked: Int64
        /// Pieces of it that nobody signed: a server said so that was asked.
        package let evidenceUnsigned: Int64
        package let evidenceErased: Int64
        package let views: Int64
        package let viewsOutdated: Int64
        package let viewsMissing: Int64
        /// Stretches of the log whose contributions to charts were counted again.
        package let chartParts: Int64
        /// What should keep roles from changing the log, and does not.
        package let guardsOff: [String]

        package init(
            position: Int64, hash: String, root: String, evidence: Int64, signatures: Bool, signaturesUnchecked: Int64,
            evidenceUnsigned: Int64,
            evidenceErased: Int64, views: Int64, viewsOutdated: Int64, viewsMissing: Int64, chartParts: Int64,
            guardsOff: [String]
        ) {
            self.position = position
            self.hash = hash
            self.root = root
            self.evidence = evidence
            self.signatures = signatures
            self.signaturesUnchecked = signaturesUnchecked
            self.evidenceUnsigned = evidenceUnsigned
            self.evidenceErased = evidenceErased
            self.views = views
            self.viewsOutdated = viewsOutdated
            self.viewsMissing = viewsMissing
            self.chartParts = chartParts
            self.guardsOff = guardsOff
        }

        private enum CodingKeys: String, CodingKey {
            case position, hash, root, evidence, signatures, views
            case signaturesUnchecked = "signatures_unchecked"
            case evidenceUnsigned = "evidence_unsigned"
            case evidenceErased = "evidence_erased"
            case viewsOutdated = "views_outdated"
            case viewsMissing = "views_missing"
            case chartParts = "chart_parts"
            case guardsOff = "guards_off"
        }
    }

    private let object = "verification"
    private let ok: Bool
    private let foldVersion: Int
    @Nullable private var checked: Checked?
    @Nullable private var difference: Difference?

    package init(_ checked: Checked, foldVersion: Int) {
        ok = true
        self.foldVersion = foldVersion
        _checked = Nullable(wrappedValue: checked)
        _difference = Nullable(wrappedValue: nil)
    }

    package init(_ difference: Difference, foldVersion: Int) {
        ok = false
        self.foldVersion = foldVersion
        _checked = Nullable(wrappedValue: nil)
        _difference = Nullable(wrappedValue: difference)
    }

    private enum CodingKeys: String, CodingKey {
        case object, ok, checked, difference
        case foldVersion = "fold_version"
    }
}
