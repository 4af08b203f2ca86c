import Foundation
import Synchronization

/// A name server on an address of this machine's that knows one name, and swallows every question about any other.
final class SilentNameServer: Sendable {
    static let address = "127.0.0.77"

    private struct State {
        var isStopped = false
        var swallowed: Set<String> = []
    }

    private let socket: Int32
    private let known: String
    private let state = Mutex(State())

    /// - Parameter known: the name that leads to 127.0.0.1.
    ///
    /// `nil` where this process may not answer at the port of name servers.
    init?(known: String) {
        self.known = known
        socket = Foundation.socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(53).bigEndian
        address.sin_addr.s_addr = inet_addr(Self.address)
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard socket >= 0, isBound else {
            close(socket)
            return nil
        }
        Thread.detachNewThread { [self] in serve() }
    }

    /// The names about which it was asked in vain.
    var swallowed: Set<String> { state.withLock { $0.swallowed } }

    func stop() {
        state.withLock { $0.isStopped = true }
        shutdown(socket, Int32(SHUT_RDWR))
        close(socket)
    }

    private func serve() {
        var buffer = [UInt8](repeating: 0, count: 512)
        while !state.withLock({ $0.isStopped }) {
            var sender = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let count = withUnsafeMutablePointer(to: &sender) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(socket, &buffer, buffer.count, 0, $0, &length)
                }
            }
            guard count > 0 else { return }
            guard let answer = answer(to: Array(buffer[..<count])) else { continue }
            withUnsafePointer(to: &sender) { pointer in
                _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    sendto(socket, answer, answer.count, 0, $0, length)
                }
            }
        }
    }

    /// What a question is answered, with the address where that is what is asked for; `nil` for what is swallowed.
    ///
    /// Source: RFC 1035, section 4.
    private func answer(to question: [UInt8]) -> [UInt8]? {
        let headLength = 12
        var labels: [String] = []
        var index = headLength
        while index < question.count, question[index] > 0 {
            let end = index + 1 + Int(question[index])
            guard end < question.count else { return nil }
            labels.append(String(decoding: question[(index + 1)..<end], as: UTF8.self))
            index = end
        }
        let end = index + 5
        guard end <= question.count else { return nil }
        let name = labels.joined(separator: ".").lowercased()
        guard name == known else {
            state.withLock { _ = $0.swallowed.insert(name) }
            return nil
        }
        let asksForAddress = question[index + 1] == 0 && question[index + 2] == 1
        // The id; that it is an answer and recursion is there; one question, and one record or none.
        let head = question[..<2] + [0x81, 0x80, 0, 1, 0, asksForAddress ? 1 : 0, 0, 0, 0, 0]
        // The name of the question, type A, class IN, for no time, 4 bytes.
        let record: [UInt8] = [0xC0, 0x0C, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]
        return head + question[headLength..<end] + (asksForAddress ? record : [])
    }
}
