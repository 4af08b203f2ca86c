package import EntitlementCore

/// Which charts there are: the answer of `GET /v1/charts`.
package struct ChartListDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Item: Codable, Hashable, Sendable {
        package let name: ChartName
        /// In the order in which they are shown.
        package let figures: [Figure]
    }

    package struct Figure: Codable, Hashable, Sendable {
        package let name: String
        package let counted: ChartCounting
    }

    package static let objectName = "list"
    package private(set) var object = Self.objectName
    package let items: [Item]

    package init() {
        items = ChartName.allCases.map { chart in
            Item(name: chart, figures: chart.figures.map { Figure(name: $0.name, counted: $0.counted) })
        }
    }
}

extension ChartFigure {
    /// How its numbers are meant.
    package var counted: ChartCounting { isStanding ? .atEnd : .within }
}
