import Foundation

/// What is wrong with an address that a page of the web checkout is to lead back to; new ones may come, so it is no enumeration.
public struct WebCheckoutProblem: RawRepresentable, Sendable, Hashable {
    /// The word itself.
    public let rawValue: String

    /// Takes any word, known to this version or not.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// ``WebCheckout/successURL`` is no `https` address with a host, such as one of the app's own scheme: the server makes no
    /// page that leads there.
    public static let successURLNotTaken = WebCheckoutProblem(rawValue: "success_url_not_taken")
    /// The same of ``WebCheckout/cancelURL``.
    public static let cancelURLNotTaken = WebCheckoutProblem(rawValue: "cancel_url_not_taken")
    /// Both addresses are one: a page that was paid cannot be told from one that was not, and counts as cancelled.
    public static let sameAddresses = WebCheckoutProblem(rawValue: "same_addresses")
}

extension WebCheckout {
    /// What is wrong with the two addresses; empty where nothing is.
    ///
    /// A store says it in its log when it is made. A test of your app can hold its configuration to it.
    public var problems: [WebCheckoutProblem] {
        var problems: [WebCheckoutProblem] = []
        if let successURL, !Self.isTaken(successURL) { problems.append(.successURLNotTaken) }
        if let cancelURL, !Self.isTaken(cancelURL) { problems.append(.cancelURLNotTaken) }
        if let successURL, let cancelURL {
            let example = successURL.filledIn
            let (paid, cancelled) = (example.fit(to: successURL) ?? 0, example.fit(to: cancelURL))
            if let cancelled, cancelled >= paid { problems.append(.sameAddresses) }
        }
        return problems
    }

    /// What the server takes: encrypted, but for this machine.
    private static func isTaken(_ url: URL) -> Bool {
        url.user == nil && url.password == nil && CheckoutAnswer.page(url.withPlaceholders.filledIn) != nil
    }

    /// Whether an address that the app was opened with says that a page was paid; `nil` where it is of something else.
    ///
    /// Of one that fits both the more specific one counts; of two that are as specific the one that says less: a page that is
    /// thought to be cancelled can be paid all the same, and one that is thought to be paid keeps everybody waiting.
    func saysPaid(_ url: URL) -> Bool? {
        switch (successURL.flatMap(url.fit), cancelURL.flatMap(url.fit)) {
        case (nil, nil): nil
        case (_?, nil): true
        case (nil, _?): false
        case (let paid?, let cancelled?): paid > cancelled
        }
    }
}

extension String {
    /// What the payment provider fills in, as it may be.
    fileprivate var filledIn: String { replacingOccurrences(of: "{CHECKOUT_SESSION_ID}", with: "cs_1") }
}

extension URL {
    fileprivate var filledIn: URL { URL(string: withPlaceholders.filledIn) ?? self }

    /// How far an address is one that was configured, with whatever the payment provider has added to it: the number of its query
    /// items that were asked for; `nil` where it is another.
    fileprivate func fit(to configured: URL) -> Int? {
        guard let own = URLComponents(url: self, resolvingAgainstBaseURL: true),
            let wanted = URLComponents(url: configured, resolvingAgainstBaseURL: true),
            own.scheme?.lowercased() == wanted.scheme?.lowercased(),
            own.host?.lowercased() == wanted.host?.lowercased(), own.port == wanted.port,
            own.pathWithoutLastSlash == wanted.pathWithoutLastSlash
        else { return nil }
        let (items, asked) = (own.queryItems ?? [], wanted.queryItems ?? [])
        // A value in braces is filled in by the payment provider.
        func isFilledIn(_ item: URLQueryItem) -> Bool { (item.value ?? "").hasPrefix("{") }
        guard asked.allSatisfy({ isFilledIn($0) || items.contains($0) }) else { return nil }
        return asked.filter { wanted in items.contains { $0.name == wanted.name } }.count
    }
}

extension URLComponents {
    fileprivate var pathWithoutLastSlash: String { path.hasSuffix("/") ? String(path.dropLast()) : path }
}
