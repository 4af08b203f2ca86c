import EntitlementCore
import HTTPServer

/// Decides from the head of a request whether its body may come.
///
/// Bodies are held in memory until they are whole, so no body is taken from a client that will be refused anyway.
/// Nothing is charged here that is charged again for the whole request. Notifications have a memory of their own, which
/// nobody else's bodies can fill.
extension Application {
    /// Bodies up to this length are taken from whoever shows a credential, good or not: to look it up would cost more.
    static let smallBody = 16 << 10

    /// Whether the body of a request may come; for the event loop's thread, so it never waits.
    func gate(_ head: HTTPRequestHead) -> BodyGate {
        let address = ClientAddress(of: head, trusting: admission.trustedProxies)
        let owner = address.hashValue
        let length = head.header("Content-Length").flatMap { Int($0) } ?? .max
        if length <= Self.smallBody, head.header("Authorization") != nil { return .open(.shared, owner: owner) }
        // The server has read the target before it asks.
        guard let request = try? HTTPRequest(head: head) else { return .open(.shared, owner: owner) }
        var exchange = ExchangeRecord(head)
        let found: (route: Route, parameters: [String: String])
        do {
            found = try Route.find(request)
        } catch {
            // What is small is told so by the general path, and its connection goes on. `BodyLimits` look at how a path
            // begins and ends alone, so that much may be let come where there is no route.
            return length <= Self.smallBody ? .open(.shared, owner: owner) : .refuse(finish(exchange, error))
        }
        let (route, parameters) = found
        if route.access == .open {
            return .open(route.operation.subject == .stores ? .reserved : .shared, owner: owner)
        }
        exchange.route = route.template
        let presented: Authenticator.Presented
        do {
            presented = try admission.authenticator.presented(by: request)
        } catch {
            // Whoever shows nothing that could be a credential pays for that, as on the general path.
            let wait = admission.rateLimiter.take(.address(address), at: head.receivedAt)
            return .refuse(
                finish(exchange, wait.map { admission.rateLimited(.address(address), "requests", $0) } ?? error))
        }
        do throws(Problem) {
            try admission.checkRate(of: presented, address, at: head.receivedAt)
            if admission.authenticator.isRemembered(presented, at: head.receivedAt) {
                return .open(.shared, owner: owner)
            }
            return .ask(owner: owner) { [exchange] in
                do {
                    try await admission.recognise(
                        request, for: route, customer: parameters["id"].flatMap { CustomerID($0) })
                    return nil
                } catch {
                    return finish(exchange, Problem(error), claiming: head.claim)
                }
            }
        } catch {
            return .refuse(finish(exchange, error))
        }
    }
}
