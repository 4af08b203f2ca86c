#if canImport(os)
import os

/// Apple's unified log, under the subsystem `EntitlementKit`; the categories are those of ``EntitlementLogCategory``.
public struct SystemEntitlementLogger: EntitlementLogger {
    /// The log of this process.
    public init() {}

    /// Logs in clear: there is nothing in a message that would have to be hidden.
    public func log(
        _ level: EntitlementLogLevel, _ category: EntitlementLogCategory, _ message: EntitlementLogMessage
    ) {
        let logger = Logger(subsystem: "EntitlementKit", category: category.rawValue)
        let text = message.description
        switch level {
        case .debug: logger.debug("\(text, privacy: .public)")
        case .info: logger.info("\(text, privacy: .public)")
        case .error: logger.error("\(text, privacy: .public)")
        }
    }
}
#endif
