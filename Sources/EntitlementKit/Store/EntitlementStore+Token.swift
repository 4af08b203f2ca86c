import EntitlementCore
public import Foundation

extension EntitlementStore {
    /// The longest that the app is waited for when it is asked for a token; meanwhile nothing is posted.
    private static let tokenPatience = Duration.seconds(20)
    /// How long before its end a token is not used any more, in milliseconds.
    private static let tokenMargin: Int64 = 30_000

    /// The token of a customer; `nil` for anybody but who is logged in, and where there is none.
    ///
    /// - Parameter isForAccount: the account token that comes with it is wanted, so one without it does not do.
    func token(of customerID: CustomerID, isForAccount: Bool = false) async -> String? {
        guard customerID == ledger.identified else { return nil }
        if let token = tokens.current, !isOver(token), !isForAccount || token.appAccountToken != nil {
            return token.value
        }
        guard let provider = configuration.tokenProvider, uptime >= tokens.notBefore else {
            // What was good until a moment ago is still the best there is: the server decides.
            return configuration.tokenProvider == nil ? tokens.current?.value : nil
        }
        let login = tokens.id
        let fetch = tokens.fetch ?? Task { await fetchToken(of: customerID, at: login, provider) }
        tokens.fetch = fetch
        let fetched = await fetch.value
        return customerID == ledger.identified ? fetched?.value : nil
    }

    private func isOver(_ token: CustomerToken) -> Bool {
        guard let end = token.expiresAt else { return false }
        return now.adding(milliseconds: Self.tokenMargin) >= Timestamp(end)
    }

    private func fetchToken(
        of customerID: CustomerID, at login: TokenState.ID, _ provider: @escaping EntitlementConfiguration.TokenProvider
    ) async -> CustomerToken? {
        let request = CustomerTokenRequest(
            customerID: customerID.value, environment: ledger.storeEnvironment?.rawValue)
        let fetched = await bounded(Self.tokenPatience) { () -> CustomerToken? in
            do {
                return try await provider(request)
            } catch {
                await self.log(.error, .sync, "the app had no token: \(error: error)")
                return nil
            }
        }
        // Somebody else may have logged in meanwhile, or the same customer with a token that the app had.
        guard customerID == ledger.identified, login == tokens.id, !isStopped else { return tokens.current }
        tokens.fetched(fetched ?? nil, keepingCurrent: tokens.current.map { !isOver($0) } ?? false, uptime: uptime)
        noteAccountToken(tokens.current?.appAccountToken)
        if tokens.current == nil { askForTokenLater() }
        return tokens.current
    }

    /// Remembers what the customer's purchases are signed with: it is theirs for good, and a token is not.
    func noteAccountToken(_ accountToken: UUID?) {
        guard let accountToken, ledger.noteIssued(accountToken) else { return }
        disk.note(.identity)
        publish()
        perform { _ = await $0.persist() }
    }

    /// What the customer's purchases are signed with.
    ///
    /// Pass it on where your app buys without ``purchase(_:options:)``, as through StoreKit's own views
    /// (`Product.PurchaseOption.appAccountToken`). `nil` where nobody is logged in, or your server has not told yet.
    public func appAccountToken() async -> UUID? {
        await ready()
        guard let customerID = ledger.identified else { return nil }
        // The first purchase after a login may come before anything was posted.
        if ledger.accountToken == nil {
            _ = await bounded(Self.accountTokenPatience) { await self.token(of: customerID, isForAccount: true) }
        }
        return ledger.accountToken
    }

    /// The longest that somebody who buys waits for it.
    private static let accountTokenPatience = Duration.seconds(5)

    /// Says that somebody who is logged in is sold something that will not bear whose it is.
    ///
    /// It is sold all the same: whoever wants to pay is not turned away because a server of the app's is away.
    func logMissingAccountToken(_ productID: String) {
        log(
            .error, .purchase,
            """
            \(name: productID) is bought without an account token, though somebody is logged in: whoever logs in first \
            with this Apple account gets it; give identify an appAccountToken, or let the tokenProvider answer with one
            """)
    }

    /// Without a token the server tells nothing of what the customer holds elsewhere, so it is tried again by itself.
    func askForTokenLater() {
        schedule(&tokenTimer, due: tokens.notBefore) { store in
            store.tokenTimer = nil
            store.ask()
        }
    }

    /// The server did not take the token that a request was made with; returns whether to send the request again at once.
    func tokenWasRefused(_ token: String, detail: String) -> Bool {
        // An answer to an earlier token says nothing of the present one.
        guard token == tokens.current?.value else { return true }
        let mayAsk = tokens.rejected(uptime: uptime)
        if configuration.tokenProvider != nil {
            if mayAsk { return true }
            askForTokenLater()
        }
        report(SyncEvent(kind: .tokenRejected, transactionIDs: [], detail: detail))
        // What was posted can still be recorded by the app's own key.
        return false
    }
}
