import Foundation
import Glibc
import OpenSSLCrypto
import StoreSimulator
import Synchronization
import TestSupport

/// A server in the store's place that answers anything, over plain sockets.
final class HostileStore: Sendable {
    private let socket: Int32
    private let port: UInt16
    private let mode: String
    private let keyFile: URL
    private let count = Atomic(0)
    private let isOver = Atomic(false)

    /// How many requests came.
    var asked: Int { count.load(ordering: .relaxed) }

    /// - Parameter mode: `same`, `circle`, `endless`, `no-token`, `nothing`, `huge-token`, `large`, `drip` or `silent`.
    init(_ mode: String) throws {
        self.mode = mode
        keyFile = ScratchSpace.directory.appending(path: "hostile-\(UUID().uuidString).p8")
        try Data(PrivateKey.generate(.p256).pem().utf8).write(to: keyFile)
        let listener = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let size = length
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, size) == 0 && listen(listener, 16) == 0
                    && getsockname(listener, address, &length) == 0
            }
        }
        socket = listener
        port = UInt16(bigEndian: address.sin_port)
        guard isListening else { throw CocoaError(.fileReadUnknown) }
        Thread.detachNewThread { [self] in
            while !isOver.load(ordering: .relaxed) {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                Thread.detachNewThread { [self] in serve(client) }
            }
        }
    }

    /// The member of `apps` for an installation that asks here.
    var app: [String: any Sendable] {
        let url = "http://127.0.0.1:\(port)"
        return [
            "bundle_id": StoreWorld.standard.bundleID, "app_apple_id": StoreWorld.standard.appAppleID,
            "app_store_api": [
                "issuer_id": "i", "key_id": "k", "private_key_path": keyFile.path(), "base_url": url,
                "sandbox_base_url": url,
            ] as [String: any Sendable],
        ]
    }

    func stop() {
        isOver.store(true, ordering: .relaxed)
        shutdown(socket, Int32(SHUT_RDWR))
        close(socket)
    }

    private func serve(_ client: Int32) {
        defer { close(client) }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let length = read(client, &buffer, buffer.count)
        guard length > 0 else { return }
        let number = count.add(1, ordering: .relaxed).newValue
        let item = #"{"signedPayload":"a.b.c"}"#
        switch mode {
        case "same": answer(client, #"{"notificationHistory":[\#(item)],"hasMore":true,"paginationToken":"x"}"#)
        case "circle":
            let isAtFirst = String(decoding: buffer[..<length], as: UTF8.self).contains("paginationToken=1")
            answer(
                client,
                #"{"notificationHistory":[\#(item)],"hasMore":true,"paginationToken":"\#(isAtFirst ? 2 : 1)"}"#)
        case "endless": answer(client, #"{"notificationHistory":[],"hasMore":true,"paginationToken":"\#(number)"}"#)
        case "no-token": answer(client, #"{"notificationHistory":[\#(item)],"hasMore":true}"#)
        case "huge-token":
            let token = String(repeating: "t", count: 1 << 20)
            answer(client, #"{"notificationHistory":[\#(item)],"hasMore":true,"paginationToken":"\#(token)"}"#)
        case "large": answer(client, String(repeating: " ", count: 64 << 20) + "{}")
        case "drip":
            for byte in "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".utf8 + [UInt8](repeating: 32, count: 1000) {
                guard !isOver.load(ordering: .relaxed), send(client, [byte], 1, Int32(MSG_NOSIGNAL)) == 1
                else {
                    return
                }
                usleep(100_000)
            }
        case "silent": while !isOver.load(ordering: .relaxed) { usleep(100_000) }
        default: answer(client, "{}")
        }
    }

    private func answer(_ client: Int32, _ body: String) {
        let text = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        var rest = ArraySlice(Array(text.utf8))
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard sent > 0 else { return }
            rest = rest.dropFirst(sent)
        }
    }
}
