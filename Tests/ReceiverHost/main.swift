// The smallest server in which docs/receivers/EntitlementReceiver.swift can run, and which says what it keeps.
import Dispatch
import Foundation
import Glibc
import Synchronization

func variable(_ name: String) -> String { ProcessInfo.processInfo.environment[name] ?? "" }

guard let rightful = URL(string: variable("RIGHTFUL_URL")), let port = UInt16(CommandLine.arguments.last ?? "") else {
    exit(2)
}
let receiver = try EntitlementReceiver(
    secret: variable("WEBHOOK_SECRET"), rightful: rightful, key: variable("RIGHTFUL_KEY"))

/// What was said of each customer already.
let said = Mutex<[EntitlementReceiver.Customer: String]>([:])

extension EntitlementReceiver {
    /// Says what it keeps and has not said yet; as its own work, so that nothing older is said after something newer.
    func say() {
        said.withLock { said in
            for (customer, kept) in customers {
                let how = kept.isRead ? "read" : "kept"
                let what = "\(kept.endpoint) \(kept.sequence) \(how)"
                guard said.updateValue(what, forKey: customer) != what else { continue }
                let open = kept.entitlements.filter(\.givesAccess).map(\.id).sorted().joined(separator: " ")
                let line = "\(customer.id) \(customer.environment) \(kept.sequence) \(how): \(open)\n"
                FileHandle.standardOutput.write(Data(line.utf8))
            }
        }
    }
}

/// The status of an answer, once there is one.
final class Outcome: Sendable {
    private let status = Mutex(500)
    private let done = DispatchSemaphore(value: 0)

    func settle(_ status: Int) {
        self.status.withLock { $0 = status }
        done.signal()
    }

    func wait() -> Int {
        done.wait()
        return status.withLock { $0 }
    }
}

/// Has a request answered, on a thread that may wait.
@Sendable func answer(_ body: Data, _ headers: [String: String]) -> Int {
    let outcome = Outcome()
    Task.detached {
        let status = await receiver.receive(body, headers: headers)
        await receiver.say()
        outcome.settle(status)
    }
    return outcome.wait()
}

/// Serves the requests of a connection, one after the other.
@Sendable func serve(_ connection: Int32) {
    var bytes = Data()
    var part = [UInt8](repeating: 0, count: 1 << 16)
    while true {
        if let head = bytes.range(of: Data("\r\n\r\n".utf8)) {
            let fields = String(decoding: bytes[..<head.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
                .dropFirst().compactMap { line -> (String, String)? in
                    guard let colon = line.firstIndex(of: ":") else { return nil }
                    return (
                        line[..<colon].lowercased(), line[colon...].dropFirst().trimmingCharacters(in: .whitespaces)
                    )
                }
            let headers = Dictionary(fields) { first, _ in first }
            let end = head.upperBound + (headers["content-length"].flatMap { Int($0) } ?? 0)
            if bytes.count >= end {
                let status = answer(Data(bytes[head.upperBound..<end]), headers)
                let text = Array("HTTP/1.1 \(status) Said\r\nContent-Length: 0\r\n\r\n".utf8)
                guard send(connection, text, text.count, Int32(MSG_NOSIGNAL)) == text.count else { return }
                bytes = Data(bytes[end...])
                continue
            }
        }
        let count = recv(connection, &part, part.count, 0)
        guard count > 0 else { return }
        bytes += part[..<count]
    }
}

let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
var yes: Int32 = 1
setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
var address = sockaddr_in()
address.sin_family = sa_family_t(AF_INET)
address.sin_port = port.bigEndian
address.sin_addr.s_addr = inet_addr("127.0.0.1")
let isBound = withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
    }
}
guard isBound, listen(listener, 64) == 0 else { exit(1) }
while case let connection = accept(listener, nil, nil), connection >= 0 {
    Thread.detachNewThread {
        serve(connection)
        close(connection)
    }
}
