import HTTPServer

/// The defaults on a free port, changed as a test needs them.
func configuration(_ adjust: (inout HTTPServerConfiguration) -> Void = { _ in }) -> HTTPServerConfiguration {
    var configuration = HTTPServerConfiguration(port: 0)
    adjust(&configuration)
    return configuration
}

/// Runs a server on the loopback address for as long as `body` takes; bodies are limited by path, else to 1 MiB.
func withServer(
    _ configuration: HTTPServerConfiguration = configuration(), bodyLimits: [String: Int] = [:],
    handler: @escaping @Sendable (HTTPRequest) async -> HTTPResponse = { .text($0.path) },
    gate: @escaping @Sendable (HTTPRequestHead) -> BodyGate = { _ in .open(.shared, owner: 0) },
    trusts: @escaping @Sendable (String) -> Bool = { _ in false },
    _ body: (_ server: HTTPServer, _ port: UInt16) async throws -> Void
) async throws {
    let server = HTTPServer(
        configuration: configuration, bodyLimit: { bodyLimits[$1] ?? 1 << 20 }, gate: gate, trusts: trusts,
        handler: handler)
    try server.start()
    do {
        try await body(server, server.boundPort ?? 0)
    } catch {
        await server.stop(graceSeconds: 0)
        throw error
    }
    await server.stop(graceSeconds: 0)
}
