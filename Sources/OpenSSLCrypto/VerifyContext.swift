import COpenSSL
import Synchronization

/// What OpenSSL needs to verify signatures of one key, ready for any number of them, one after the other.
///
/// Making one searches OpenSSL's providers under their locks, which costs a few microseconds of each verification.
///
/// Sendable, because a context is owned by one thread at a time: by `IdleVerifyContexts`, or by whoever took it from there.
final class VerifyContext: @unchecked Sendable {
    let handle: OpaquePointer

    /// `nil` when OpenSSL does not verify with this key, or has no memory.
    init?(_ key: OpaquePointer) {
        guard let handle = EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else {
            ERR_clear_error()
            return nil
        }
        guard EVP_PKEY_verify_init(handle) == 1 else {
            EVP_PKEY_CTX_free(handle)
            ERR_clear_error()
            return nil
        }
        self.handle = handle
    }

    deinit { EVP_PKEY_CTX_free(handle) }
}

/// A key's contexts that nobody is using.
final class IdleVerifyContexts: Sendable {
    /// More threads than this verifying at once make contexts of their own.
    private static let capacity = 64

    private let contexts = Mutex<[VerifyContext]>([])

    func take() -> VerifyContext? { contexts.withLock { $0.popLast() } }

    func put(_ context: VerifyContext) {
        contexts.withLock { if $0.count < Self.capacity { $0.append(context) } }
    }
}
