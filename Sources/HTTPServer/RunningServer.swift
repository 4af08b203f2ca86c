import CMicroHTTPD
import Dispatch

/// What a started server consists of, and how it ends.
final class RunningServer: Sendable {
    private let core: ServerCore
    private let acceptor: Acceptor
    private let daemon: MHDDaemon
    private let sweeper: Sweeper

    var port: UInt16 { acceptor.port }

    init(_ core: ServerCore) throws(HTTPServerError) {
        let configuration = core.configuration
        try configuration.validate()
        let socket = try ListeningSocket(host: configuration.host, port: configuration.port)
        guard core.gate.wakeup >= 0 else {
            throw HTTPServerError(.systemFailure, "The system has no file descriptors left for an eventfd.")
        }

        let threads = UInt32(configuration.threads)
        var options = cmhd_options(
            threads: threads,
            // The acceptor holds the limit; the library shares its own out among threads, and must never reach it.
            connection_limit: threads * UInt32(configuration.maxConnections + 64),
            per_address_limit: UInt32(configuration.maxConnectionsPerAddress),
            idle_timeout_seconds: UInt32(max(1, (configuration.idleTimeout / .seconds(1)).rounded(.up))),
            // Read buffer, parsed header fields and query items, and the response's header fields.
            connection_memory: 2 * configuration.maxHeaderBytes + (16 << 10))
        let retained = Unmanaged.passRetained(core)
        guard
            let started = cmhd_start(
                &options, handleRequest, handleCompletion, handleConnection, handleRequestLine, retained.toOpaque())
        else {
            retained.release()
            throw HTTPServerError(.systemFailure, "libmicrohttpd could not start its threads or its epoll sets.")
        }
        self.core = core
        acceptor = Acceptor(socket, gate: core.gate)
        daemon = MHDDaemon(pointer: started)
        let shortest = min(configuration.requestDeadline, configuration.responseDeadline)
        sweeper = Sweeper(every: max(.milliseconds(20), min(.seconds(1), shortest / 4))) {
            core.sweepConnections()
        }
        acceptor.start(adding: daemon)
    }

    /// Ends the server; to be called once.
    func stop(grace: Duration) async {
        core.beginDraining()
        await acceptor.stop()
        await core.waitUntilIdle(atMost: grace)
        // Those that were waiting get a moment to read that they need not wait any longer.
        if core.abandonHandlers() > 0 { await core.waitUntilIdle(atMost: .seconds(1)) }
        sweeper.stop()
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "http-stop").async { [daemon] in
                daemon.stop()
                continuation.resume()
            }
        }
        await core.lingering.stop()
        Unmanaged.passUnretained(core).release()
    }
}
