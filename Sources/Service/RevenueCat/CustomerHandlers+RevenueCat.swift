import EntitlementCore
import HTTPServer
import Ledger
import RevenueCatAPI

extension CustomerHandlers {
    /// `GET /revenuecat/v1/subscribers/{app_user_id}`: a customer as RevenueCat's `GET /v1/subscribers/…` shows them.
    ///
    /// RevenueCat makes a customer of whoever is asked about, and moves `last_seen`; a read here does neither.
    func revenueCatSubscriber(_ call: Call) async throws -> HTTPResponse {
        let asked = try call.customerID(.appUser)
        let environment = try call.environment(or: try call.sandboxFlag(), of: "the header X-Is-Sandbox")
        let history = try await context.reader.history(of: asked, environment: environment, app: call.scope.app)
        let subscriber = Subscriber(history)
        var appUserID = call.parameters[Parameter.appUser.name] ?? asked.value
        // Of whom nothing is known nothing is told, either.
        if let customer = history.customer, customer != subscriber.customer, history.knowsCustomer {
            appUserID =
                try await context.reader.customerIDs(of: [subscriber.customer])[subscriber.customer] ?? appUserID
        }
        return try .document(
            subscriber.document(of: appUserID, at: context.now()), position: history.position,
            headers: [("Cache-Control", EncodedEntitlements.cacheControl.description)])
    }
}

extension Call {
    /// The environment that RevenueCat's clients name by a header; `nil` without it.
    fileprivate func sandboxFlag() throws(Problem) -> StoreEnvironment? {
        switch try value(of: .isSandbox)?.lowercased() {
        case nil: nil
        case "true": .sandbox
        case "false": .production
        default: throw Problem(.malformedRequest, "X-Is-Sandbox is true or false.", param: "X-Is-Sandbox")
        }
    }
}
