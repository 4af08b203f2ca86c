import Foundation

/// Parameters as Stripe is sent them: `a[b][0]=v`, percent-encoded.
package struct StripeForm: Sendable {
    private let pairs: [(name: String, value: String)]

    package init(_ body: [UInt8]) {
        pairs = String(decoding: body, as: UTF8.self).split(separator: "&").map { pair in
            let words = pair.split(separator: "=", maxSplits: 1).map { word in
                word.replacing("+", with: " ").removingPercentEncoding ?? String(word)
            }
            return (words.first ?? "", words.count > 1 ? words[1] : "")
        }
    }

    /// An empty value means that nothing is set.
    subscript(name: String) -> String? {
        guard let value = pairs.last(where: { $0.name == name })?.value, !value.isEmpty else { return nil }
        return value
    }

    var names: [String] { pairs.map(\.name) }

    /// The members of `name[…]`.
    func texts(_ name: String) -> [String: String] {
        var texts: [String: String] = [:]
        for pair in pairs where pair.name.hasPrefix(name + "[") && pair.name.hasSuffix("]") {
            let key = String(pair.name.dropFirst(name.count + 1).dropLast())
            if !key.contains("["), !pair.value.isEmpty { texts[key] = pair.value }
        }
        return texts
    }

    /// The elements of `name[0][…]`, in order.
    func elements(_ name: String) -> [[String: String]] {
        var elements: [[String: String]] = []
        while true {
            let element = texts("\(name)[\(elements.count)]")
            if element.isEmpty { return elements }
            elements.append(element)
        }
    }
}
