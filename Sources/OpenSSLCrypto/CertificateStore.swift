import COpenSSL

/// The roots that certificates are trusted by, and the building of paths to them.
///
/// Sendable, because the store is not changed after `init`; OpenSSL takes its lock on every look-up in it.
package final class CertificateStore: @unchecked Sendable {
    private let handle: OpaquePointer

    /// A store of exactly these roots; nothing from the system's own store is ever consulted.
    package init(roots: [Certificate]) throws(CryptoError) {
        guard let store = X509_STORE_new() else { throw .fromOpenSSL(.failed, "could not make a certificate store") }
        for root in roots where X509_STORE_add_cert(store, root.handle) != 1 {
            X509_STORE_free(store)
            throw .fromOpenSSL(.failed, "could not add the root \(root.subject) to the certificate store")
        }
        handle = store
    }

    deinit { X509_STORE_free(handle) }

    /// Builds the path from the leaf over the intermediates to one of the roots, and checks it as of the instant.
    ///
    /// Checked are signatures, names, validities, CA flags, path lengths and unknown critical extensions, for any
    /// purpose. Path and key identifiers may be lacking (OpenSSL's strict mode is off), a path that ends below a
    /// self-signed root is refused, and so are keys or digests below 112 bits of strength (SHA-1).
    ///
    /// - Returns: the path, from the leaf to the root.
    package func validate(
        leaf: Certificate, intermediates: [Certificate], atMilliseconds instant: Int64
    ) throws(CryptoError) -> [Certificate] {
        guard let context = X509_STORE_CTX_new(), let untrusted = OPENSSL_sk_new_null() else {
            throw .fromOpenSSL(.failed, "could not prepare the validation of a certificate")
        }
        defer {
            X509_STORE_CTX_free(context)
            OPENSSL_sk_free(untrusted)
        }
        for intermediate in intermediates {
            OPENSSL_sk_push(untrusted, UnsafeRawPointer(intermediate.handle))
        }
        guard X509_STORE_CTX_init(context, handle, leaf.handle, untrusted) == 1 else {
            throw .fromOpenSSL(.failed, "could not prepare the validation of a certificate")
        }
        let parameters = X509_STORE_CTX_get0_param(context)
        X509_VERIFY_PARAM_set_time(parameters, flooredToSeconds(instant))
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)
        guard X509_verify_cert(context) == 1 else {
            ERR_clear_error()
            let reason = String(cString: X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(context))))
            let depth = X509_STORE_CTX_get_error_depth(context)
            throw CryptoError(.untrustedChain, "\(reason) (certificate \(depth) above the leaf)")
        }
        return try path(of: context)
    }

    private func path(of context: OpaquePointer) throws(CryptoError) -> [Certificate] {
        let chain = X509_STORE_CTX_get0_chain(context)
        var path: [Certificate] = []
        for index in 0..<OPENSSL_sk_num(chain) {
            guard let member = OPENSSL_sk_value(chain, index) else { continue }
            let certificate = OpaquePointer(member)
            X509_up_ref(certificate)
            path.append(try Certificate(owning: certificate))
        }
        return path
    }
}

func flooredToSeconds(_ milliseconds: Int64) -> Int {
    let (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1_000)
    return Int(rest < 0 ? seconds - 1 : seconds)
}
