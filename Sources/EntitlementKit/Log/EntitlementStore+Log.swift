import Foundation

extension EntitlementStore {
    func log(
        _ level: EntitlementLogLevel, _ category: EntitlementLogCategory,
        _ message: @autoclosure () -> EntitlementLogMessage
    ) {
        configuration.logger?.log(level, category, message())
    }

    /// Its detail is for the app alone: it may quote an address or an id.
    func logEvent(_ event: SyncEvent) {
        let count = event.transactionIDs.count
        switch event.kind {
        case .succeeded: log(.debug, .sync, "the server holds \(count) transactions more")
        case .storageFailed: log(.error, .storage, "\(word: event.kind)")
        case .failed, .resting:
            log(.error, .sync, "\(word: event.kind): \(count) transactions, attempt \(event.attempts)")
        default: log(.error, .sync, "\(word: event.kind): \(count) transactions")
        }
    }

    /// Says where files are kept: an App Group that is misspelt is no directory, and nothing else would tell.
    func logPlace(_ directory: URL?) {
        if directory == nil {
            log(.info, .storage, "files are kept in the app's own place, where no extension finds them")
        } else {
            log(.info, .storage, "files are kept in the directory that the app gave")
        }
    }

    func logState(_ next: Entitlements, after last: Entitlements) {
        guard configuration.logger != nil else { return }
        switch next.kind {
        case .loading: break
        case .live(let position):
            if !last.isLive { log(.info, .state, "live, at position \(Int(position))") }
        case .offline(_, let reason):
            if last.kind != next.kind { log(.info, .state, "offline: \(word: reason)") }
        }
        for entitlement in next.all where last[entitlement.id]?.givesAccess != entitlement.givesAccess {
            if entitlement.givesAccess {
                log(.info, .state, "\(name: entitlement.id) gives access: \(word: entitlement.state)")
            } else {
                log(.info, .state, "\(name: entitlement.id) gives no access: \(word: entitlement.state)")
            }
        }
    }
}
