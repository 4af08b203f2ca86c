import Foundation

/// A line chart as SVG, made of nothing but text.
struct Chart {
    /// One line of the chart.
    struct Series {
        let name: String
        let points: [(x: Double, y: Double)]
        /// Drawn dashed: a limit rather than a figure.
        var isLimit = false
    }

    /// How an axis divides its length.
    enum Scale {
        /// From zero, in equal steps.
        case linear
        /// Equal factors are equally long.
        case logarithmic
    }

    let title: String
    let xTitle: String
    let yTitle: String
    let yScale: Scale
    let series: [Series]

    private static let width = 720.0
    private static let height = 400.0
    private static let left = 76.0
    private static let right = 20.0
    private static let top = 84.0
    private static let bottom = 52.0
    /// Colours that the colour-blind can tell apart (Okabe and Ito).
    private static let colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]

    /// The picture.
    ///
    /// - Returns: `nil` when there is nothing to draw a line of.
    func svg() -> String? {
        let drawn = series.filter { $0.points.count > 1 }
        let points = drawn.flatMap(\.points)
        let xs = Set(points.map(\.x)).sorted()
        guard let xLow = xs.first, let xHigh = xs.last, xLow > 0, let yMost = points.map(\.y).max(), yMost > 0,
            let yLeast = points.map(\.y).filter({ $0 > 0 }).min()
        else { return nil }
        let yTicks = Self.ticks(from: yLeast, to: yMost, yScale)
        guard let yLow = yTicks.first, let yHigh = yTicks.last else { return nil }
        func x(_ value: Double) -> Double {
            Self.left + (log(value) - log(xLow)) / (log(xHigh) - log(xLow)) * (Self.width - Self.left - Self.right)
        }
        func y(_ value: Double) -> Double {
            let share =
                switch yScale {
                case .linear: value / yHigh
                case .logarithmic: (log(max(value, yLow)) - log(yLow)) / (log(yHigh) - log(yLow))
                }
            return Self.height - Self.bottom - share * (Self.height - Self.top - Self.bottom)
        }
        var lines = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(Self.height))" role="img" \
            font-family="sans-serif" font-size="13">
            """,
            "<title>\(Self.escape(title))</title>",
            "<rect width=\"\(Int(Self.width))\" height=\"\(Int(Self.height))\" fill=\"#ffffff\"/>",
            Self.text(title, x: Self.left, y: 24, size: 16),
        ]
        for tick in yTicks {
            lines.append(Self.line(from: (Self.left, y(tick)), to: (Self.width - Self.right, y(tick)), "#dddddd"))
            lines.append(Self.text(Self.label(tick), x: Self.left - 8, y: y(tick) + 4, anchor: "end"))
        }
        for value in xs {
            lines.append(
                Self.line(
                    from: (x(value), Self.height - Self.bottom), to: (x(value), Self.height - Self.bottom + 5),
                    "#333333"))
            lines.append(
                Self.text(Self.label(value), x: x(value), y: Self.height - Self.bottom + 20, anchor: "middle"))
        }
        let middle = (Self.left + Self.width - Self.right) / 2
        lines.append(Self.text(xTitle, x: middle, y: Self.height - 10, anchor: "middle"))
        lines.append(Self.text(yTitle, x: Self.left, y: Self.top - 12))
        var legend = Self.left
        for (number, series) in drawn.enumerated() {
            let colour = Self.colours[number % Self.colours.count]
            let path = series.points.map { Self.number(x($0.x)) + "," + Self.number(y($0.y)) }
            lines.append(
                "<polyline points=\"\(path.joined(separator: " "))\" fill=\"none\" stroke=\"\(colour)\" stroke-width=\"2\""
                    + (series.isLimit ? " stroke-dasharray=\"6 4\"" : "") + "/>")
            for point in series.points {
                lines.append(
                    "<circle cx=\"\(Self.number(x(point.x)))\" cy=\"\(Self.number(y(point.y)))\" r=\"3\" fill=\"\(colour)\"/>"
                )
            }
            lines.append(Self.line(from: (legend, 46), to: (legend + 22, 46), colour, width: 3))
            lines.append(Self.text(series.name, x: legend + 28, y: 50))
            legend += 44 + Double(series.name.count) * 7
        }
        return lines.joined(separator: "\n") + "\n</svg>\n"
    }

    // MARK: - Parts

    /// Round values that span what is drawn.
    private static func ticks(from least: Double, to most: Double, _ scale: Scale) -> [Double] {
        switch scale {
        case .linear:
            let rough = most / 5
            let magnitude = pow(10, floor(log10(rough)))
            let step = ([1, 2, 5, 10].first { $0 * magnitude >= rough } ?? 10) * magnitude
            return stride(from: 0, through: (most / step).rounded(.up) * step + step / 2, by: step).map(\.self)
        case .logarithmic:
            let low = floor(log10(least))
            return stride(from: low, through: max(low + 1, log10(most).rounded(.up)), by: 1).map { pow(10, $0) }
        }
    }

    private static func label(_ value: Double) -> String {
        switch value {
        case 1_000_000...: number(value / 1_000_000) + " M"
        case 1000...: number(value / 1000) + " k"
        default: number(value)
        }
    }

    /// At most two digits behind the point.
    private static func number(_ value: Double) -> String {
        let rounded = (value * 100).rounded() / 100
        return rounded == rounded.rounded() ? String(Int(rounded)) : String(rounded)
    }

    private static func text(
        _ text: String, x: Double, y: Double, size: Int = 13, anchor: String = "start"
    ) -> String {
        "<text x=\"\(number(x))\" y=\"\(number(y))\" font-size=\"\(size)\" text-anchor=\"\(anchor)\" fill=\"#222222\">"
            + escape(text) + "</text>"
    }

    private static func line(
        from start: (x: Double, y: Double), to end: (x: Double, y: Double), _ colour: String, width: Int = 1
    ) -> String {
        "<line x1=\"\(number(start.x))\" y1=\"\(number(start.y))\" x2=\"\(number(end.x))\" y2=\"\(number(end.y))\" "
            + "stroke=\"\(colour)\" stroke-width=\"\(width)\"/>"
    }

    private static func escape(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }
}
