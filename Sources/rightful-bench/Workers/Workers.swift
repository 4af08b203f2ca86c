import Foundation
import Glibc

/// The processes that make load: this program, started again with `worker`.
enum Workers {
    /// Runs one.
    static func run(_ words: [String]) throws {
        guard words.count == 2 else { throw BenchmarkUsageError("a worker takes its name and what to do") }
        let text = Data(words[1].utf8)
        switch words[0] {
        case "keep": try Threads.wait { try await Keeper.run(dataDirectory: words[1]) }
        case "append": try answer(Threads.wait { try await AppendWorker(try decode(text)).run() })
        case "insert": try answer(Threads.wait { try await InsertWorker(try decode(text)).run() })
        case "send": try answer(SendWorker(try decode(text)).run())
        case "post": try answer(PostWorker(try decode(text)).run())
        case "receive": try ReceiveWorker().run()
        case "watch": try answer(WatchWorker(try decode(text)).run())
        default: throw BenchmarkUsageError("there is no worker '\(words[0])'")
        }
    }

    private static func decode<Request: Decodable>(_ text: Data) throws -> Request {
        try JSONDecoder().decode(Request.self, from: text)
    }

    private static func answer(_ result: WorkerResult) throws {
        say(String(decoding: try JSONEncoder().encode(result), as: UTF8.self))
    }
}
