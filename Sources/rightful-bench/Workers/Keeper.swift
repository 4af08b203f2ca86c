import Dispatch
import EmbeddedPostgres
import Foundation
import Glibc

/// Keeps a data directory's PostgreSQL up for as long as its standard input is open, which ends with the benchmark.
enum Keeper {
    static func run(dataDirectory: String) async throws {
        // Told to end, it waits for the end of its input or for the signal, whichever comes first.
        let end = AsyncStream<Void>.makeStream()
        signal(SIGTERM, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .global())
        source.setEventHandler { end.continuation.finish() }
        source.activate()
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: dataDirectory)
        do {
            let file = try String(contentsOfFile: "\(dataDirectory)/postgres/postmaster.pid", encoding: .utf8)
            guard let postmaster = file.split(separator: "\n").first.flatMap({ Int32($0) }) else {
                throw BenchmarkFailure("PostgreSQL does not say which process it is")
            }
            let kept = Rig.Kept(
                owner: cluster.ownerConninfo, serve: cluster.serveConninfo, postmaster: postmaster)
            say(String(decoding: try JSONEncoder().encode(kept), as: UTF8.self))
        } catch {
            try? await cluster.release()
            throw error
        }
        Thread.detachNewThread {
            var byte: UInt8 = 0
            while read(0, &byte, 1) > 0 {}
            end.continuation.finish()
        }
        for await _ in end.stream {}
        withExtendedLifetime(source) {}
        try await cluster.release()
    }
}
