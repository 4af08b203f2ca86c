/// What Stripe says in words, for logs, where nothing may stand that names a person.
enum StripeWords {
    /// Ids of what is sold, which name nobody, and without which an operator does not know what to mend.
    private static let told = ["price", "prod", "acct", "req", "evt", "we"]

    /// Leaves out ids of people and of what they bought, such as `cus_…`, addresses of mail, and whatever else is to be hidden.
    static func withoutIDs(_ text: String, hiding names: [String]) -> String {
        var text = text
        for name in names { text = hide(name, in: text) }
        var result = ""
        var word = ""
        for character in text {
            if isPartOfWord(character) {
                word.append(character)
            } else {
                result += shortened(word)
                result.append(character)
                word = ""
            }
        }
        return result + shortened(word)
    }

    private static func isPartOfWord(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || "_-.@+".contains(character)
    }

    /// What stays of a word: of an id only what kind it is.
    private static func shortened(_ word: String) -> String {
        if word.contains("@") { return "…" }
        let parts = word.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count > 1, let kind = parts.first, (2...6).contains(kind.count),
            kind.allSatisfy({ $0.isLowercase && $0.isASCII }), !told.contains(String(kind)),
            // Stripe's own words, such as resource_missing, hold small letters alone.
            parts.dropFirst().contains(where: { $0.contains { $0.isNumber || $0.isUppercase } })
        else { return word }
        return "\(kind)_…"
    }

    /// Replaces a name where it stands by itself: a short one may be a part of any word.
    private static func hide(_ name: String, in text: String) -> String {
        guard !name.isEmpty else { return text }
        var result = ""
        var rest = text[...]
        while let range = rest.firstRange(of: name) {
            let before = range.lowerBound == text.startIndex ? nil : text[text.index(before: range.lowerBound)]
            let after = range.upperBound == text.endIndex ? nil : text[range.upperBound]
            let isWhole = [before, after].allSatisfy { $0.map { !($0.isLetter || $0.isNumber) } ?? true }
            result += rest[..<range.lowerBound] + (isWhole ? "…" : name)
            rest = rest[range.upperBound...]
        }
        return result + rest
    }
}
