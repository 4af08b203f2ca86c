import EntitlementCore
import PostgresClient

extension PostgresRow {
    func digest(_ column: Int) throws -> Digest {
        guard let digest = Digest(try bytes(column)) else {
            throw LedgerError(.corrupt, "column \(column) of a row holds no SHA-256")
        }
        return digest
    }

    func instant(_ column: Int) throws -> Timestamp { Timestamp(milliseconds: try timestamp(column)) }

    func optionalInstant(_ column: Int) throws -> Timestamp? {
        try optionalTimestamp(column).map { Timestamp(milliseconds: $0) }
    }
}
