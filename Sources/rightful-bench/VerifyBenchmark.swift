import AppStoreServer
import COpenSSL
import OpenSSLCrypto

/// Whole notifications: three signatures, three JSON payloads and the facts they state.
struct VerifyBenchmark {
    /// Of one notification.
    static let signatures = 3

    let workload: Workload

    func run(_ options: Options, _ report: Report) throws {
        let (notifications, _) = workload.notifications(atLeast: 250, seed: 1)
        let payloads = try notifications.map { Array(try workload.sign($0).utf8) }
        for (name, threads) in [("one core", 1), ("all \(Measure.cores) cores", Measure.cores)] {
            let limit = try Self.limit(threads: threads, options)
            let verified = try measure(payloads, threads: threads, options)
            try report.add(
                Figure(
                    "verify", name, unit: "notifications/s", verified, limit: limit))
        }
    }

    private func measure(_ payloads: [[UInt8]], threads: Int, _ options: Options) throws -> Throughput {
        let ticket = Ticket()
        let now = Workload.now()
        return try Measure.onThreads(threads, for: options.duration) { _ in
            {
                _ = try workload.verifier.verify(signedPayload: payloads[ticket.take() % payloads.count], now: now)
                return true
            }
        }
    }

    /// What a third of OpenSSL's own speed would be, nothing but the signatures being looked at.
    static func limit(threads: Int, _ options: Options) throws -> Figure.Limit {
        let bare = try Measure.onThreads(threads, for: options.duration) { _ in
            let verification = try BareVerification()
            return { verification.verify() }
        }
        return Figure.Limit(name: "P-256 verifications / 3", perSecond: bare.perSecond / Double(signatures))
    }
}

/// One signature, checked by OpenSSL over and over.
private final class BareVerification {
    private let context: OpaquePointer
    private let digest = SHA256.hash(Array("what is signed".utf8))
    private let signature: [UInt8]

    init() throws {
        guard let key = copenssl_generate_ec_key("prime256v1") else { throw UsageError("OpenSSL makes no P-256 key") }
        defer { EVP_PKEY_free(key) }
        guard let signing = EVP_PKEY_CTX_new_from_pkey(nil, key, nil),
            let context = EVP_PKEY_CTX_new_from_pkey(nil, key, nil)
        else { throw UsageError("OpenSSL has no memory") }
        defer { EVP_PKEY_CTX_free(signing) }
        self.context = context
        var length = 128
        var buffer = [UInt8](repeating: 0, count: length)
        EVP_PKEY_sign_init(signing)
        EVP_PKEY_sign(signing, &buffer, &length, digest, digest.count)
        signature = Array(buffer.prefix(length))
        EVP_PKEY_verify_init(context)
    }

    deinit { EVP_PKEY_CTX_free(context) }

    func verify() -> Bool { EVP_PKEY_verify(context, signature, signature.count, digest, digest.count) == 1 }
}
