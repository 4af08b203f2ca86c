import CMicroHTTPD

/// A connection of libmicrohttpd.
///
/// Sendable without the compiler's proof: off libmicrohttpd's own thread it is only resumed, under the lock of the
/// `Exchange` that suspended it, once; and a suspended connection is not freed.
struct MHDConnection: @unchecked Sendable {
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
        ["Content-Length", "Transfer-Encoding", "Date"].contains { isSameFieldName($0, name) }
    }

    /// The request's header fields, in the order sent.
    var headers: [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        withUnsafeMutablePointer(to: &fields) { fields in
            _ = MHD_get_connection_values_n(
                pointer, .HEADER_KIND,
                { collected, _, name, nameLength, value, valueLength in
                    guard let collected, let name else { return .YES }
                    let fields = collected.assumingMemoryBound(to: [(name: String, value: String)].self)
                    fields.pointee.append((name: text(name, nameLength), value: text(value, valueLength)))
                    return .YES
                }, fields)
        }
        return fields
    }
}

private func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
    String(decoding: UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count), as: UTF8.self)
}

/// A running daemon of libmicrohttpd.
///
/// Sendable without the compiler's proof: adding a connection is guarded by the library's own locks, and `stop` is
/// called once, after the only thread that adds connections has ended.
struct MHDDaemon: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Ends the threads and closes every connection; blocks until that is done.
    ///
    /// No connection may be suspended any more.
    func stop() { MHD_stop_daemon(pointer) }
}
