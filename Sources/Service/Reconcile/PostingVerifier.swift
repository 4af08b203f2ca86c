import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer

/// Tells what devices post that the store has signed.
struct PostingVerifier: Sendable {
    let trust: StoreTrust
    let admission: Admission
    let now: @Sendable () -> Timestamp

    /// Verifies what a device posts, and holds it to a configured app.
    func verify(_ request: ReconcileRequest, _ call: Call) async throws -> ReconcilePosting {
        let app = try call.app(request)
        let environment = try call.environment(request)
        guard let served = trust.statements.environments(of: app) else {
            throw Problem(.unknownApp, "No app with this bundle id is configured here.", param: "app")
        }
        func checkServed(_ environment: StoreEnvironment) throws(Problem) {
            guard !served.contains(environment) else { return }
            throw Problem(
                .wrongEnvironment, "The app is not configured for \(environment.rawValue).", param: "environment")
        }
        if let environment { try checkServed(environment) }
        let posting = try await admission.verifying(for: call.request, isTrusted: call.isSentWithSecretKey) { work in
            ReconcilePosting(
                request, app: app, environment: environment, with: trust.statements, trust: trust.devices, now: now(),
                work: &work)
        }
        try checkServed(posting.environment)
        return posting
    }
}

extension Call {
    /// The app the request is about: the one it names, else the credential's.
    fileprivate func app(_ request: ReconcileRequest) throws(Problem) -> String {
        let only = credential?.onlyBundleID
        guard let app = request.app ?? only else {
            throw Problem(.malformedRequest, "Name the app by its bundle id.", param: "app")
        }
        if let only, !only.utf8.elementsEqual(app.utf8) {
            throw Problem(.forbidden, "This credential is for another app.", param: "app")
        }
        return app
    }

    /// The environment that the request or its credential names, else production; `nil` where the request asks for that
    /// of what was posted.
    fileprivate func environment(_ request: ReconcileRequest) throws(Problem) -> StoreEnvironment? {
        if request.environment == .auto, try value(of: .environment) == nil,
            credential?.onlyEnvironment == nil
        {
            return nil
        }
        return try environment(named: request.environment?.named)
    }
}
