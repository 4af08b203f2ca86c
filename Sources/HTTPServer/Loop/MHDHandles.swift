import CMicroHTTPD
import Glibc

/// A connection of libmicrohttpd; the event loop's thread alone uses it.
struct MHDConnection {
    let pointer: OpaquePointer

    init?(_ pointer: OpaquePointer?) {
        guard let pointer else { return nil }
        self.pointer = pointer
    }

    func suspend() { MHD_suspend_connection(pointer) }

    func resume() { MHD_resume_connection(pointer) }

    /// Queues a response; to be called from libmicrohttpd's callbacks only.
    ///
    /// - Returns: `false` when the response holds something that cannot be sent.
    func queue(_ response: HTTPResponse, closing: Bool) -> Bool {
        guard (200...599).contains(response.status) else { return false }
        let made = (response.status == 204 ? [] : response.body).withUnsafeBytes { bytes in
            // Copied by the library, which for that does not write to it.
            MHD_create_response_from_buffer(
                bytes.count, UnsafeMutableRawPointer(mutating: bytes.baseAddress), .RESPMEM_MUST_COPY)
        }
        guard let made else { return false }
        defer { MHD_destroy_response(made) }
        for (name, value) in response.headers where !value.isEmpty && !Self.isOurs(name) {
            guard !name.utf8.contains(0), !value.utf8.contains(0), MHD_add_response_header(made, name, value) == .YES
            else { return false }
        }
        if closing { _ = MHD_add_response_header(made, "Connection", "close") }
        return MHD_queue_response(pointer, UInt32(response.status), made) == .YES
    }

    /// Fields that only the server can know.
    private static func isOurs(_ name: String) -> Bool {
        ["Content-Length", "Transfer-Encoding"].contains { isSameFieldName($0, name) }
    }

    /// Whether every field has a name that HTTP allows, none speaks of a body, and one at most bears a credential.
    var isPlainlyBodiless: Bool {
        var (isPlain, credentials) = (true, 0)
        forEachFieldName { name in
            if HTTPFraming.bearsCredential(name) { credentials += 1 }
            isPlain = HTTPFraming.isToken(name) && !HTTPFraming.speaksOfBody(name) && credentials < 2
            return isPlain
        }
        return isPlain
    }

    /// How many lines a header field has, whatever the case of its name.
    func count(of name: StaticString) -> Int {
        var count = 0
        forEachFieldName { other in
            if HTTPFraming.isSame(other, name) { count += 1 }
            return true
        }
        return count
    }

    /// - Parameter body: says whether to go on.
    private func forEachFieldName(_ body: (UnsafeRawBufferPointer) -> Bool) {
        withoutActuallyEscaping(body) { body in
            var visit = body
            withUnsafeMutablePointer(to: &visit) { visit in
                _ = MHD_get_connection_values_n(
                    pointer, .HEADER_KIND,
                    { visit, _, name, nameLength, _, _ in
                        guard let visit = visit?.assumingMemoryBound(to: ((UnsafeRawBufferPointer) -> Bool).self) else {
                            return .NO
                        }
                        let name = UnsafeRawBufferPointer(start: name, count: name == nil ? 0 : nameLength)
                        return visit.pointee(name) ? .YES : .NO
                    }, visit)
            }
        }
    }

    /// What a request's method is called.
    func name(of method: UnsafePointer<CChar>) throws(HTTPRefusal) -> String {
        let name = String(cString: method)
        guard HTTPFraming.isToken(name.utf8) else { throw .malformed(reason: "HTTP allows no such method") }
        return name
    }

    /// The request's header fields, in the order sent, of which nothing takes long to compare.
    var safeHeaders: [(name: String, value: String)] {
        get throws(HTTPRefusal) {
            let fields = headers
            let isSafe = fields.allSatisfy { StreamSafeText.isSafe($0.name) && StreamSafeText.isSafe($0.value) }
            guard isSafe else { throw .tooManyMarks }
            return fields
        }
    }

    private var headers: [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        withUnsafeMutablePointer(to: &fields) { fields in
            _ = MHD_get_connection_values_n(
                pointer, .HEADER_KIND,
                { collected, _, nameStart, nameLength, valueStart, valueLength in
                    guard let collected, let nameStart else { return .YES }
                    let fields = collected.assumingMemoryBound(to: [(name: String, value: String)].self)
                    let name = UnsafeRawBufferPointer(start: nameStart, count: nameLength)
                    var value = UnsafeRawBufferPointer(start: valueStart, count: valueStart == nil ? 0 : valueLength)
                    // Where a body ends is read as libmicrohttpd reads it, or not at all.
                    if !HTTPFraming.speaksOfBody(name) { value = HTTPFraming.trimmed(value) }
                    fields.pointee.append(
                        (name: String(decoding: name, as: UTF8.self), value: String(decoding: value, as: UTF8.self)))
                    return .YES
                }, fields)
        }
        return fields
    }
}

/// What limits a daemon of libmicrohttpd.
extension cmhd_options {
    init(_ configuration: HTTPServerConfiguration) {
        self.init(
            // The loop holds the limit; the library must never reach its own.
            connection_limit: UInt32(configuration.mostDescriptors),
            idle_timeout_seconds: UInt32(max(1, (configuration.idleTimeout / .seconds(1)).rounded(.up))),
            // Read buffer, parsed header fields and query items, and the response's header fields.
            connection_memory: 2 * configuration.maxHeaderBytes + (16 << 10))
    }
}

/// A daemon of libmicrohttpd without threads; the event loop's thread alone uses it.
struct MHDDaemon {
    private let pointer: OpaquePointer
    /// Readable when `run` has something to do.
    let descriptor: Int32

    /// Makes a daemon whose callbacks are given `context`, unretained; `nil` when the system refuses.
    init?(_ configuration: HTTPServerConfiguration, context: UnsafeMutableRawPointer) {
        var options = cmhd_options(configuration)
        guard
            let pointer = cmhd_start(
                &options, handleRequest, handleCompletion, handleConnection, handleRequestLine, context)
        else { return nil }
        self.pointer = pointer
        descriptor = cmhd_epoll_descriptor(pointer)
    }

    /// Reads, calls back and writes whatever can be without waiting.
    func run() { _ = MHD_run(pointer) }

    /// How long it may be left alone when its descriptor is not readable, in milliseconds; `nil`: for ever.
    var patience: UInt64? {
        var milliseconds: UInt64 = 0
        return MHD_get_timeout(pointer, &milliseconds) == .YES ? milliseconds : nil
    }

    /// Hands over a connected socket, which the library closes in the end, also when it refuses it.
    func add(_ socket: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) {
        _ = MHD_add_connection(pointer, socket, address, length)
    }

    /// Closes every connection; none may be suspended any more.
    func stop() { MHD_stop_daemon(pointer) }
}
