import CMicroHTTPD
import Glibc

/// An answer made on the event loop's thread, whose body is written once, into the memory it is sent from.
///
/// The server itself adds `Date`, `Content-Length` and, where it applies, `Connection`.
package struct ImmediateResponse: ~Copyable {
    /// From 200 to 599.
    package let status: Int
    private let response: OpaquePointer

    /// Makes an answer whose body `write` fills, all of it.
    ///
    /// `nil` when there is no memory for it. In answer to a 304 the body is not sent, but its length is told.
    package init?(status: Int, bodyCount: Int, write: (UnsafeMutableRawBufferPointer) -> Void) {
        guard let memory = malloc(max(1, bodyCount)) else { return nil }
        write(UnsafeMutableRawBufferPointer(start: memory, count: bodyCount))
        // From here on the memory is libmicrohttpd's, which frees it.
        guard let response = MHD_create_response_from_buffer(bodyCount, memory, .RESPMEM_MUST_FREE) else {
            free(memory)
            return nil
        }
        self.status = status
        self.response = response
    }

    deinit { MHD_destroy_response(response) }

    /// Adds a header field; both texts end with a NUL, and hold nothing that HTTP does not allow.
    package func addHeader(_ name: StaticString, _ value: UnsafePointer<CChar>) {
        name.withUTF8Buffer { name in
            name.withMemoryRebound(to: CChar.self) { name in
                guard let name = name.baseAddress else { return }
                _ = MHD_add_response_header(response, name, value)
            }
        }
    }

    /// Adds a header field whose value is known beforehand, and holds nothing that HTTP does not allow.
    package func addHeader(_ name: StaticString, _ value: StaticString) {
        value.withUTF8Buffer { value in
            value.withMemoryRebound(to: CChar.self) { value in
                if let value = value.baseAddress { addHeader(name, value) }
            }
        }
    }

    /// Queues the answer; to be called from libmicrohttpd's callback for the connection.
    consuming func queue(on connection: MHDConnection, closing: Bool) -> Bool {
        if closing { _ = MHD_add_response_header(response, "Connection", "close") }
        return MHD_queue_response(connection.pointer, UInt32(status), response) == .YES
    }
}
