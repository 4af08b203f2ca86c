/// Rows of cells, the columns below each other.
struct TextTable {
    /// A row each, without blanks at its end.
    let lines: [String]

    /// - Parameter rows: the first has as many cells as each.
    init(_ rows: [[String]]) {
        let widths = (rows.first ?? []).indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        lines = rows.map { row in
            let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
        }
    }

    /// The lines, each with what ends it.
    var text: String { lines.map { $0 + "\n" }.joined() }
}
