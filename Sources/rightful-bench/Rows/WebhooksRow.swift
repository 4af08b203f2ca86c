import Foundation
import Glibc

/// A change told to every one of many endpoints of webhooks, beside a bare client's requests to the same receiver; and what
/// one endpoint that never answers costs the others.
struct WebhooksRow: Row {
    /// How many changes are told in a round, each to every endpoint.
    private static let changes = 3
    private static let connections = 64
    private static let limit = Duration.seconds(600)

    func run(_ bench: Bench) throws {
        let count = bench.options.endpoints
        try bench.withRig("webhooks") { rig in
            let program = try rig.worker("receive", [String](), keepsInput: true)
            defer { program.terminate() }
            let receiver = try Receiver(program)
            let service = try rig.serve()
            try make(count, at: receiver.ports.port, service, rig, bench)
            let teller = Teller(service: service, rig: rig, receiver: receiver, endpoints: count)
            // What a message is like; and connections are there.
            let first = try teller.tell(changes: 1)
            let file = bench.directory.path("bare-messages")
            try Requests.write(
                Array(repeating: Self.message(bytes: first.tally.bytes), count: max(2000, count)), to: file, files: 1)
            let dead = try Self.post(
                "/v1/webhook_endpoints", Self.order("http://127.0.0.1:\(receiver.ports.dead)/dead"), service)
            guard let id = try JSONDecoder().decode(Made.self, from: dead).id else {
                throw BenchmarkFailure("an endpoint could not be made")
            }
            var (limits, alive, beside) = ([Sample](), [Telling](), [Telling]())
            for _ in 0..<bench.options.rounds {
                limits.append(try bare(file, receiver, rig))
                _ = try Self.post("/v1/webhook_endpoints/\(id)/actions/pause", "{}", service)
                alive.append(try teller.tell(changes: Self.changes))
                _ = try Self.post("/v1/webhook_endpoints/\(id)/actions/resume", "{}", service)
                beside.append(try teller.tell(changes: Self.changes))
            }
            report(bench, count, .joined(limits), alive, beside)
        }
    }

    private func report(_ bench: Bench, _ count: Int, _ limit: Sample, _ alive: [Telling], _ beside: [Telling]) {
        bench.report.add(
            Figure(
                "webhooks", "\(count) endpoints", unit: "messages/s", .joined(alive.map(\.sample)),
                limit: (
                    "a bare client's POSTs of as many bytes to the same receiver, \(Self.connections) connections",
                    limit
                )
            ).noting("\(Self.changes) changes a round, each to every endpoint"))
        func p99(_ tellings: [Telling]) -> Double {
            tellings.map(\.tally.p99Milliseconds).reduce(0, +) / Double(tellings.count)
        }
        bench.report.add(
            Figure(
                "webhooks", "\(count) endpoints and one that never answers: the others' p99", unit: "ms",
                value: p99(beside)
            ).beside("without that one", p99(alive)).judged(.ratio(atMost: 1.1)))
    }

    private struct Made: Decodable { let id: String? }

    private static func order(_ url: String) -> String { #"{"url": "\#(url)", "types": ["entitlements.changed"]}"# }

    private static func post(_ path: String, _ body: String, _ service: Service) throws -> Data {
        let request = HTTPConnection.request("POST", path, key: service.key, body: Array(body.utf8))
        let answer = try HTTPConnection(port: service.port).exchange(request)
        guard answer.status == 200 else { throw BenchmarkFailure("\(path) was answered \(answer.status)") }
        return Data(answer.body)
    }

    /// A request as large as a message.
    private static func message(bytes: Int) -> [UInt8] {
        let head = HTTPConnection.request("POST", "/bare", fields: ["Content-Length: 1000"]).count
        let body = [UInt8](repeating: UInt8(ascii: "x"), count: max(0, bytes - head))
        return HTTPConnection.request("POST", "/bare", body: body)
    }

    /// Makes endpoints, and waits until each is told of what comes.
    private func make(_ count: Int, at port: UInt16, _ service: Service, _ rig: Rig, _ bench: Bench) throws {
        bench.report.step("making \(count) endpoints")
        let orders = (0..<count).map { number in
            HTTPConnection.request(
                "POST", "/v1/webhook_endpoints", key: service.key,
                body: Array(Self.order("http://127.0.0.1:\(port)/\(number)").utf8))
        }
        let file = bench.directory.path("endpoints")
        try Requests.write(orders, to: file, files: 1)
        _ = try rig.worker("send", WorkerRequest.Send(port: service.port, file: file + "0", connections: 8))
            .result(WorkerResult.self, limit: Self.limit)
        let end = ContinuousClock.now + Self.limit
        while try rig.number("SELECT count(*) FROM webhook_endpoint") < count {
            guard ContinuousClock.now < end else { throw BenchmarkFailure("the endpoints are not followed") }
            usleep(100_000)
        }
        try rig.query("VACUUM ANALYZE", limit: Self.limit)
    }

    /// What a bare client sends to the receiver.
    private func bare(_ file: String, _ receiver: Receiver, _ rig: Rig) throws -> Sample {
        let before = receiver.processorTime
        let meter = ProcessorMeter(service: nil, postmaster: nil)
        let (result, ending) = try rig.worker(
            "send",
            WorkerRequest.Send(port: receiver.ports.port, file: file + "0", connections: Self.connections)
        ).result(WorkerResult.self, limit: Self.limit)
        var sample = Sample(result, ending, meter)
        sample.reading.load += receiver.processorTime - before
        return sample
    }

    /// The receiver's process.
    private struct Receiver {
        let ports: ReceiveWorker.Ports
        let pid: pid_t

        init(_ program: ChildProgram) throws {
            pid = program.pid
            let end = ContinuousClock.now + .seconds(30)
            while true {
                if let line = program.output.split(separator: "\n").first {
                    ports = try JSONDecoder().decode(ReceiveWorker.Ports.self, from: Data(line.utf8))
                    return
                }
                guard program.isRunning, ContinuousClock.now < end else {
                    throw BenchmarkFailure("the receiver did not start: \(program.errors)")
                }
                usleep(10_000)
            }
        }

        var processorTime: Duration { ProcessStatistics.processorTime(of: pid) }

        func ask(_ method: String) throws -> HTTPAnswer {
            try HTTPConnection(port: ports.port).exchange(HTTPConnection.request(method, "/"))
        }

        func tally() throws -> ReceiveWorker.Tally {
            try JSONDecoder().decode(ReceiveWorker.Tally.self, from: Data(try ask("GET").body))
        }
    }

    /// What telling some changes came to.
    private struct Telling {
        let sample: Sample
        let tally: ReceiveWorker.Tally
    }

    /// Has changes told, each once the one before has reached every endpoint.
    private final class Teller {
        let service: Service
        let rig: Rig
        let receiver: Receiver
        let endpoints: Int
        private var customers = 0

        init(service: Service, rig: Rig, receiver: Receiver, endpoints: Int) {
            (self.service, self.rig, self.receiver, self.endpoints) = (service, rig, receiver, endpoints)
        }

        func tell(changes: Int) throws -> Telling {
            _ = try receiver.ask("DELETE")
            let before = receiver.processorTime
            let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
            let start = MonotonicClock.now()
            for change in 1...changes {
                customers += 1
                _ = try WebhooksRow.post(
                    "/v1/customers/bench-\(customers)/actions/grant",
                    #"{"entitlement": "premium", "reason": "a benchmark"}"#, service)
                try wait(for: change * endpoints)
            }
            let tally = try receiver.tally()
            var sample = Sample(
                operations: Double(tally.messages), seconds: Double(tally.lastNanoseconds - start) / 1e9)
            (sample.p50Milliseconds, sample.p99Milliseconds) = (tally.p50Milliseconds, tally.p99Milliseconds)
            sample.reading = meter.read(load: receiver.processorTime - before)
            return Telling(sample: sample, tally: tally)
        }

        private func wait(for messages: Int) throws {
            let end = ContinuousClock.now + WebhooksRow.limit
            while case let count = try receiver.tally().messages, count < messages {
                guard ContinuousClock.now < end else {
                    throw BenchmarkFailure("\(count) of \(messages) messages came within \(WebhooksRow.limit)")
                }
                usleep(20_000)
            }
        }
    }
}
