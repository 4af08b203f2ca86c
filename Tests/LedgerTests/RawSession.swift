import Foundation

/// A session with a server that sends exactly what it is told to, and then nothing: a program that stopped half-way.
final class RawSession {
    private let descriptor: Int32

    struct Failure: Error { let description: String }

    /// Logs in without a password.
    init(_ conninfo: String) throws {
        let settings = ConninfoSettings(conninfo)
        descriptor = try connectUnix(settings.socketPath)
        try send(
            nil,
            Self.integer(196_608) + Self.text("user") + Self.text(settings["user"]) + Self.text("database")
                + Self.text(settings["dbname"]) + Self.text("application_name") + Self.text("rightful") + [0])
        try read(until: UInt8(ascii: "Z"))
    }

    deinit { close(descriptor) }

    /// Has the statements executed and waits for their results, but ends nothing: no Sync follows.
    func execute(withoutSync statements: [String]) throws {
        for statement in statements {
            try send(UInt8(ascii: "P"), Self.text("") + Self.text(statement) + [0, 0])
            try send(UInt8(ascii: "B"), Self.text("") + Self.text("") + [0, 0, 0, 0, 0, 0])
            try send(UInt8(ascii: "E"), Self.text("") + Self.integer(0))
        }
        try send(UInt8(ascii: "H"), [])
        for _ in statements { try read(until: UInt8(ascii: "C")) }
    }

    /// Begins to copy into a table, and sends no row.
    func beginCopy(_ statement: String) throws {
        try send(UInt8(ascii: "Q"), Self.text(statement))
        try read(until: UInt8(ascii: "G"))
    }

    /// Sends a piece of what is copied.
    func copy(_ piece: String) throws { try send(UInt8(ascii: "d"), Array(piece.utf8)) }

    /// Runs a statement; returns the one value of its one row.
    func value(of statement: String) throws -> String {
        try send(UInt8(ascii: "Q"), Self.text(statement))
        // A row: how many columns, and for each its length and its bytes.
        let row = try read(until: UInt8(ascii: "D"))
        try read(until: UInt8(ascii: "Z"))
        return String(decoding: row.dropFirst(6), as: UTF8.self)
    }

    /// Whether the server has ended the session by now, or within the limit.
    func isEnded(within milliseconds: Int32) -> Bool {
        var socket = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&socket, 1, milliseconds) > 0
    }

    @discardableResult
    private func read(until wanted: UInt8) throws -> [UInt8] {
        while true {
            let head = try take(5)
            let length = head[1...].reduce(0) { $0 << 8 | Int($1) }
            let body = try take(length - 4)
            if head[0] == wanted { return body }
            guard head[0] != UInt8(ascii: "E") else {
                throw Failure(description: String(decoding: body, as: UTF8.self))
            }
        }
    }

    private func take(_ count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var have = 0
        while have < count {
            let got = bytes.withUnsafeMutableBytes {
                recv(descriptor, $0.baseAddress?.advanced(by: have), count - have, 0)
            }
            guard got > 0 else { throw Failure(description: "the server went away") }
            have += got
        }
        return bytes
    }

    private func send(_ type: UInt8?, _ body: [UInt8]) throws {
        let message = (type.map { [$0] } ?? []) + Self.integer(Int32(body.count + 4)) + body
        guard Glibc.send(descriptor, message, message.count, noSignal) == message.count else {
            throw Failure(description: "the message could not be sent")
        }
    }

    private static func text(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }
    private static func integer(_ value: Int32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
}

/// The `keyword=value` pairs of a connection string; a later one wins.
struct ConninfoSettings {
    private var values: [String: String] = [:]

    init(_ conninfo: String) {
        for pair in conninfo.split(separator: " ") {
            let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2 { values[parts[0]] = parts[1] }
        }
    }

    subscript(name: String) -> String { values[name] ?? "" }

    var socketPath: String { "\(self["host"])/.s.PGSQL.\(self["port"])" }
}

/// A peer that is gone is an error to `send`, not a signal.
let noSignal = Int32(MSG_NOSIGNAL)

func connectUnix(_ path: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    let status = withUnixAddress(path) { connect(descriptor, $0, $1) }
    guard status == 0 else { throw RawSession.Failure(description: "\(path): \(String(cString: strerror(errno)))") }
    return descriptor
}

func withUnixAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8.prefix(107))) }
    return withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}
