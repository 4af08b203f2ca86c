/// What a service has to do with the App Store, beside the notifications that come by themselves.
package struct StoreConnections: Sendable {
    /// What asks the store, of the apps that may.
    let checks: StoreChecks
    /// The configured apps' streams; `nil`: there are none.
    let streams: StreamsReading?
    /// Hears of every delivery.
    let deliveries: StreamDeliveries
    /// Hears of every one that the ledger could not take.
    let missed: MissedDeliveries

    package init(
        checks: StoreChecks = StoreChecks([]), streams: StreamsReading? = nil,
        deliveries: StreamDeliveries = StreamDeliveries(), missed: MissedDeliveries = MissedDeliveries()
    ) {
        self.checks = checks
        self.streams = streams
        self.deliveries = deliveries
        self.missed = missed
    }
}
