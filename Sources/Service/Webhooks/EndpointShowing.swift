package import EntitlementAPI
package import EntitlementCore
package import Ledger

extension EndpointDocument {
    /// An endpoint as it is shown, over HTTP and by commands.
    ///
    /// - Parameter register: has read what the log says of it.
    package init(
        _ endpoint: Endpoint, _ standing: EndpointStanding?, in register: EndpointRegister, at instant: Timestamp
    ) {
        self = EndpointDocument(endpoint, standing, remarks: []).telling(
            url: register.target(endpoint.id, now: instant)?.url, secret: nil)
    }

    /// The same without its address.
    init(_ endpoint: Endpoint, _ standing: EndpointStanding?, remarks: [String]) {
        self.init(
            endpoint, url: nil, failingSince: standing?.failingSince, heldUntil: standing?.heldUntil,
            waiting: standing?.waiting ?? 0, failed: standing?.failed ?? 0, remarks: remarks)
    }
}

extension DeliveryDocument {
    /// A delivery as it is shown.
    ///
    /// - Parameter isPaused: whether its endpoint is, so that nothing is sent to it.
    package init(_ delivery: ListedDelivery, isPaused: Bool) {
        self.init(
            id: delivery.id.map { WebhookMessage.id($0) }, number: delivery.number, state: delivery.state.rawValue,
            type: delivery.type?.rawValue, position: delivery.position, at: delivery.at,
            environment: delivery.environment, customerID: delivery.customerID, sequence: delivery.sequence,
            attempts: Attempts(
                count: delivery.attempts, firstAt: delivery.firstAt, lastAt: delivery.lastAt,
                nextAt: isPaused ? nil : delivery.dueAt, status: delivery.status, failure: delivery.failure))
    }
}
