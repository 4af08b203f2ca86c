package import AppStoreServer

/// What decides whether something that claims to be signed by the App Store is believed.
package struct StoreTrust: Sendable {
    let notifications: NotificationVerifier
    let statements: StatementVerifier
    /// How far apps believe what their devices bring.
    let devices: DeviceTrustTable

    package init(
        notifications: NotificationVerifier, statements: StatementVerifier,
        devices: DeviceTrustTable = DeviceTrustTable()
    ) {
        self.notifications = notifications
        self.statements = statements
        self.devices = devices
    }
}
