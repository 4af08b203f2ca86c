/// Rows of cells, the columns below each other.
struct TextTable {
    private let rows: [[String]]

    /// - Parameter rows: the first has as many cells as each.
    init(_ rows: [[String]]) { self.rows = rows }

    /// One line a row, without blanks at its end.
    var text: String {
        let widths = (rows.first ?? []).indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            let line = cells.joined(separator: "  ")
            return line.prefix(upTo: line.lastIndex { $0 != " " }.map { line.index(after: $0) } ?? line.startIndex)
                + "\n"
        }.joined()
    }
}
