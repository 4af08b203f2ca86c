import EntitlementCore
import Ledger

extension DatabaseSession {
    /// The endpoints of webhooks, for a command that looks at them or changes them.
    var endpoints: EndpointRegister {
        EndpointRegister(pool: pool, writer: LedgerWriter(pool: pool, clock: clock))
    }

    /// The endpoint of an id.
    ///
    /// - Throws: `CommandFailure` where there is none.
    func endpoint(_ id: String) async throws -> (EndpointRegister, Endpoint) {
        let register = endpoints
        try await register.refresh()
        guard let endpoint = register.endpoint(id) else {
            throw CommandFailure(description: "there is no endpoint \(id); see `rightful webhooks list`")
        }
        return (register, endpoint)
    }

    /// The endpoint that an event gave a secret, and the secret.
    func secret(at position: Int64, _ register: EndpointRegister) async throws -> (id: String, secret: String) {
        try await register.refresh()
        let found = register.endpoints.first { $0.lastPosition == position }
        guard let found, let hash = found.secrets.first?.hash, let secret = register.secret(of: found.id, hash: hash)
        else { throw CommandFailure(description: "somebody else changes the endpoint just now; rotate its secret") }
        return (found.id, secret)
    }
}
