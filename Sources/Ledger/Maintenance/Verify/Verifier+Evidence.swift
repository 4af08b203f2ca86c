import EntitlementCore
import OpenSSLCrypto
import PostgresClient

/// The signed bytes, put together again, must be those that the events name.
enum EvidenceCheck {
    /// Returns the signed bytes, in the same order.
    static func run(
        _ evidence: [(position: Int64, hash: Digest, parts: [UInt8])], on connection: isolated PostgresConnection
    ) throws -> [[UInt8]] {
        var names: Set<Digest> = []
        for item in evidence {
            do {
                names.formUnion(try EvidenceParts.headerNames(in: item.parts))
            } catch {
                throw differs(item.position, "its parts do not read (\(error))")
            }
        }
        let headers = try StoredEvidence.headers(named: names, on: connection)
        return try evidence.map { item in
            let bytes: [UInt8]
            do {
                bytes = try EvidenceParts.assemble(item.parts, headers: headers)
            } catch {
                throw differs(item.position, "its parts do not make a whole (\(error))")
            }
            guard let hash = Digest(SHA256.hash(bytes)), hash == item.hash else {
                throw differs(item.position, "its bytes are not those whose SHA-256 the event names, \(item.hash.hex)")
            }
            return bytes
        }
    }

    private static func differs(_ position: Int64, _ problem: String) -> VerificationDifference {
        VerificationDifference("evidence", "position \(position)", problem)
    }
}

extension Verifier {
    /// Every stored JWS header must have the hash it is found by, whether evidence names it or not.
    func verifyHeaders() async throws {
        var after: [UInt8] = []
        var done: Int64 = 0
        while true {
            let limit = limits.headers
            let (count, last) = try await page { [after] connection in
                let rows = try connection.query(
                    """
                    SELECT sha256, header FROM jws_header WHERE ledger_id = $1 AND sha256 > $2
                    ORDER BY sha256 LIMIT $3
                    """, [.int(ledgerID), .bytes(after), .int(Int64(limit))]
                ).rows
                for row in rows {
                    let name = try row.bytes(0)
                    guard try SHA256.hash(row.bytes(1)) == name else {
                        let hex = Digest(name)?.hex ?? "of \(name.count) bytes"
                        throw VerificationDifference("jws_header", "sha256 \(hex)", "is not the hash of its header")
                    }
                }
                return (rows.count, try rows.last?.bytes(0))
            }
            done += Int64(count)
            progress(VerificationProgress(stage: .headers, done: done, total: nil))
            guard let last, count == limit else { return }
            after = last
        }
    }
}
