import EntitlementCore
import HTTPServer
import Ledger
import RevenueCatAPI

extension Application {
    /// `GET /revenuecat/v1/subscribers/{app_user_id}`: a customer as RevenueCat's `GET /v1/subscribers/…` shows them.
    ///
    /// RevenueCat makes a customer of whoever is asked about, and moves `last_seen`; a read here does neither.
    func revenueCatSubscriber(_ call: Call) async throws -> HTTPResponse {
        let asked = try call.customerID(Call.appUserIDName)
        let environment = try call.environment(or: try call.sandboxFlag(), of: "the header X-Is-Sandbox")
        let history = try await reader.history(of: asked, environment: environment, app: call.scope.app)
        let subscriber = Subscriber(history)
        var appUserID = call.parameters[Call.appUserIDName] ?? asked.value
        // Of whom nothing is known nothing is told, either.
        if let customer = history.customer, customer != subscriber.customer, history.knowsCustomer {
            appUserID = try await reader.customerIDs(of: [subscriber.customer])[subscriber.customer] ?? appUserID
        }
        return try .document(
            subscriber.document(of: appUserID, at: now()), position: history.position,
            headers: [("Cache-Control", EncodedEntitlements.cacheControl.description)])
    }
}

extension Call {
    /// What the path calls the customer on routes in RevenueCat's shape.
    static let appUserIDName = "app_user_id"

    /// The environment that RevenueCat's clients name by a header; `nil` without it.
    fileprivate func sandboxFlag() throws(Problem) -> StoreEnvironment? {
        switch request.header("X-Is-Sandbox")?.lowercased() {
        case nil: nil
        case "true": .sandbox
        case "false": .production
        default: throw Problem(.malformedRequest, "X-Is-Sandbox is true or false.", param: "X-Is-Sandbox")
        }
    }
}
