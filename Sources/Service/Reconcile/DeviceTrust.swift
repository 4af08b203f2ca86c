package import EntitlementCore

/// How far the app transactions of one app's devices are trusted, as it is configured.
package struct DeviceTrust: Sendable, Hashable {
    /// When an app transaction proves whose device it is.
    ///
    /// It is a bearer credential: whoever has a copy of it passes for the device.
    package enum AppTransactionProof: String, Sendable, Hashable, CaseIterable {
        case on
        /// Only as long as nobody is linked with it: who has logged in once proves it by a token from then on.
        case unlinkedOnly = "unlinked_only"
        case off
    }

    /// Whether a device that brings a customer token and an app transaction together ties the two.
    package var linksOnLogin: Bool
    package var appTransactionProof: AppTransactionProof
    /// How old an app transaction may be, in milliseconds; `nil`: of any age.
    package var appTransactionMaxAge: Int64?

    package init(
        linksOnLogin: Bool = true, appTransactionProof: AppTransactionProof = .on, appTransactionMaxAge: Int64? = nil
    ) {
        self.linksOnLogin = linksOnLogin
        self.appTransactionProof = appTransactionProof
        self.appTransactionMaxAge = appTransactionMaxAge
    }
}

/// The trust in the devices of every app, for each of its environments.
package struct DeviceTrustTable: Sendable {
    private struct Place: Hashable {
        /// Byte for byte, as apps are told apart.
        let app: [UInt8]
        let environment: StoreEnvironment
    }

    private var entries: [Place: DeviceTrust] = [:]

    package init() {}

    package subscript(app: String, environment: StoreEnvironment) -> DeviceTrust {
        get { entries[Place(app: Array(app.utf8), environment: environment)] ?? DeviceTrust() }
        set { entries[Place(app: Array(app.utf8), environment: environment)] = newValue }
    }
}
