/// The links that the service makes by itself: for the account tokens that it issues, and at logins.
extension OwnershipMap {
    /// The account token that was issued to a customer and still leads to them; `nil` before the first.
    ///
    /// - Parameter links: every link that was ever made about them.
    package func issuedToken(of customer: IdentityRef, links: [RecordedLink]) -> IdentityRef? {
        links.last {
            $0.fact.cause == .issued && $0.fact.customer == customer
                && alias(of: $0.fact.identity)?.customer == customer
        }?.fact.identity
    }

    /// Whether somebody is linked with an app transaction, whichever of the two was made the other's alias.
    ///
    /// Account tokens that were issued to its default customer are that customer's own. Whoever a login with a token of one
    /// app made its alias does not count either: that is another Apple account, not the person behind this one.
    ///
    /// - Parameter links: every link that was ever made about it.
    package func isTaken(appTransaction app: IdentityRef, links: [RecordedLink]) -> Bool {
        if alias(of: app) != nil { return true }
        return links.contains { link in
            guard let alias = alias(of: link.fact.identity), alias.position == link.position else { return false }
            return alias.customer == app && link.fact.cause != .issued && link.fact.cause != .appLogin
        }
    }

    /// Decides whether a login ties an app transaction to a customer: once, where nobody is linked with it, and never
    /// again what was undone.
    ///
    /// - Parameter links: every link that was ever made about either.
    package func decideLogin(
        with app: IdentityRef, of customer: IdentityRef, links: [RecordedLink]
    ) -> LinkFact? {
        let person = self.customer(of: customer)
        guard self.customer(of: app) != person, !isTaken(appTransaction: app, links: links) else { return nil }
        if wereLinked(app, customer, links: links) { return nil }
        return LinkFact(identity: app, customer: customer, cause: .login)
    }

    /// Whether one of the links in force from an app transaction to its customer was made by a login with a token of one app.
    ///
    /// - Parameter links: every link that was ever made about either.
    package func restsOnAppLogin(_ app: IdentityRef, links: [RecordedLink]) -> Bool {
        path(of: app).contains { identity in
            guard let alias = alias(of: identity) else { return false }
            return links.contains { $0.position == alias.position && $0.fact.cause == .appLogin }
        }
    }

    /// Whether an app transaction's default customer owns a purchase of another app, however it came to them.
    ///
    /// - Parameter originals: those in which that customer has a part.
    package func owns(
        _ app: IdentityRef, outside scope: AppScope, among originals: some Sequence<OriginalState>
    ) -> Bool {
        let customer = customer(of: app)
        return originals.contains { original in
            original.transactions.contains { !scope.isOfApp($0.fact) && currentOwner(of: $0.fact) == customer }
        }
    }

    /// Whether an app transaction and a customer were ever linked, whichever of the two was made the other's alias.
    func wereLinked(_ app: IdentityRef, _ customer: IdentityRef, links: [RecordedLink]) -> Bool {
        let person = self.customer(of: customer)
        return links.contains { link in
            let ends = [link.fact.identity, link.fact.customer]
            return ends.contains(app) && ends.contains { $0 == customer || self.customer(of: $0) == person }
        }
    }
}
