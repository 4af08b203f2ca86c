import EntitlementCore
import Foundation
import OpenSSLCrypto
import Testing

/// What an endpoint was told, line by line: one customer's changes in one environment are a line.
struct ToldLines {
    struct Line: Hashable {
        let customer: String
        let environment: String
    }

    /// A message when it came first.
    struct Message {
        let id: String
        let type: String
        let body: [UInt8]
        let data: [String: Any]
        let arrivedAt: Int64
        /// Whether a request that brought it was answered so that the sender knows.
        var isTaken: Bool

        var sequence: Int64? { (data["sequence"] as? NSNumber)?.int64Value }
        var position: Int64? { (data["position"] as? NSNumber)?.int64Value }

        /// When time alone changed an answer, in milliseconds; else `nil`.
        var timeOfChange: Int64? {
            guard let cause = data["cause"] as? [String: Any], cause["kind"] as? String == "time" else { return nil }
            return try? milliseconds(cause["at"])
        }
    }

    private(set) var lines: [Line: [Message]] = [:]
    /// Those of other types.
    private(set) var others: [Message] = []
    private(set) var repetitions = 0

    /// Holds each request to the standard, and each message to its first copy.
    ///
    /// - Parameter context: the seed.
    init(_ arrivals: [TroubledReceiver.Arrival], secret: String, _ context: String) throws {
        let key = try #require(Base64.decode(String(secret.dropFirst("whsec_".count))))
        var messages: [Message] = []
        var places: [String: Int] = [:]
        for arrival in arrivals {
            let id = try #require(arrival.headers["webhook-id"], "\(context): \(arrival.headers)")
            let time = try #require(arrival.headers["webhook-timestamp"], "\(context): \(arrival.headers)")
            let code = HMACSHA256.code(of: Array("\(id).\(time).".utf8) + arrival.body, key: key)
            #expect(arrival.headers["webhook-signature"] == "v1," + Base64.encode(code), "\(context): \(id)")
            let sent = try #require(Int64(time), "\(context): \(arrival.headers)")
            #expect(abs(arrival.at / 1000 - sent) < 60, "\(context): \(id) was signed at another time than it came")
            if let place = places[id] {
                repetitions += 1
                #expect(messages[place].body == arrival.body, "\(context): \(id) came with another body")
                messages[place].isTaken = messages[place].isTaken || arrival.manner.isTaken
                continue
            }
            let json = try JSONSerialization.jsonObject(with: Data(arrival.body)) as? [String: Any]
            places[id] = messages.count
            messages.append(
                Message(
                    id: id, type: try #require(json?["type"] as? String, "\(context): \(id)"), body: arrival.body,
                    data: try #require(json?["data"] as? [String: Any], "\(context): \(id)"), arrivedAt: arrival.at,
                    isTaken: arrival.manner.isTaken))
            let message = messages[messages.count - 1]
            guard message.type == "entitlements.changed" else { continue }
            // Whatever comes next of a customer comes after this one was taken.
            let line = try Line(message, context)
            if let last = lines[line]?.last, let place = places[last.id] {
                #expect(
                    messages[place].isTaken, "\(context): \(id) came before \(last.id), of the same customer, was taken"
                )
            }
            lines[line, default: []].append(message)
        }
        others = messages.filter { $0.type != "entitlements.changed" }
    }

    /// Each line counts 1, 2, 3, and each message begins with what the one before ended with.
    func expectChains(_ context: String) {
        for (line, messages) in lines {
            #expect(
                messages.map(\.sequence) == (1...Int64(messages.count)).map { $0 },
                "\(context): \(line) came as \(messages.map { "\($0.id) #\($0.sequence ?? -1)" })")
            var before = canonical([String]())
            for message in messages {
                let told = canonical(message.data["before"])
                #expect(
                    told == before,
                    "\(context): \(line), \(message.id) #\(message.sequence ?? -1) begins with \(told) instead of \(before)"
                )
                before = canonical(message.data["after"])
                #expect(told != before, "\(context): \(line), \(message.id) changes nothing")
            }
        }
    }

    /// What a line came to; nothing where nothing was told.
    func last(_ line: Line) -> String { canonical(lines[line]?.last?.data["after"] ?? [String]()) }
}

extension ToldLines.Line {
    fileprivate init(_ message: ToldLines.Message, _ context: String) throws {
        self.init(
            customer: try #require(message.data["customer_id"] as? String, "\(context): \(message.id)"),
            environment: try #require(message.data["environment"] as? String, "\(context): \(message.id)"))
    }
}
