/// A page in the Prometheus text format, version 0.0.4.
struct PrometheusPage {
    private(set) var text = ""

    mutating func family(_ name: String, _ type: String, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    mutating func sample(_ name: String, _ labels: [(String, String)], _ value: String) {
        text += name
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",") + "}"
        }
        text += " \(value)\n"
    }

    mutating func histogram(
        _ name: String, _ labels: [(String, String)], bounds: [Double], counts: [UInt64], sum: Double
    ) {
        var total: UInt64 = 0
        for (index, count) in counts.enumerated() {
            total += count
            let bound = index < bounds.count ? String(bounds[index]) : "+Inf"
            sample(name + "_bucket", labels + [("le", bound)], String(total))
        }
        sample(name + "_sum", labels, String(sum))
        sample(name + "_count", labels, String(total))
    }

    private static func escaped(_ value: String) -> String {
        // By scalars: to `Character`, a quotation mark with a combining mark behind it is no quotation mark.
        value.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }
}
