package import AppStoreServer
package import EntitlementCore
package import Ledger

extension JWSVerifier {
    /// The most headers that are looked at: the store signs with a few at a time.
    private static let recognizedHeaders = 16

    /// Makes the signers known that the ledger heard last, as a service that has just started knows none.
    package func recognizeSigners(of reader: LedgerReader, now: Timestamp) async throws {
        for header in try await reader.latestHeaders(limit: Self.recognizedHeaders) {
            recognize(header: header, now: now.milliseconds)
        }
    }
}
