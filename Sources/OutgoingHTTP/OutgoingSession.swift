package import Foundation
import Synchronization

/// An IP address that a name has led to.
package struct OutgoingAddress: Hashable, Sendable {
    /// 4 or 16, the high byte first.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }
}

/// A connection was not made, because its address may not be spoken to.
package struct AddressRefused: Error, CustomStringConvertible {
    package var description: String { "its host leads to an address that is not allowed" }
}

/// An answer was larger than is taken.
package struct AnswerTooLarge: Error, Hashable, CustomStringConvertible {
    package enum Part: String, Sendable {
        case head, body
    }

    package let part: Part
    /// In bytes.
    package let limit: Int

    package init(part: Part, limit: Int) { (self.part, self.limit) = (part, limit) }

    package var description: String {
        "the answer's \(part.rawValue) is larger than \(limit % (1 << 20) == 0 ? "\(limit >> 20) MiB" : "\(limit >> 10) KiB")"
    }
}

/// Requests through libcurl, held to a size and a time.
///
/// It follows no redirection, for what a request proves its sender by is for one server; uses no proxy and no password that
/// the environment names; and keeps no cookie. Connections are kept for whoever comes next. A request ends when its time is up,
/// however slowly the answer drips.
package struct OutgoingSession: OutgoingTransport {
    private let owner: Owner
    private let timeout: Duration
    private let answerLimit: Int
    private let wantsBodies: Bool

    /// Ends the thread with the last copy of the session.
    private final class Owner: Sendable {
        let engine: CurlEngine

        init(_ engine: CurlEngine) { self.engine = engine }

        deinit { engine.stop() }
    }

    /// The most connections that are open where nobody says otherwise.
    package static let usualConnections = 64

    /// - Parameters:
    ///   - timeout: for one request, in seconds, unless it says otherwise itself.
    ///   - answerLimit: the largest answer that is taken, in bytes.
    ///   - wantsBodies: `false`: an answer is its head; what follows is read up to the limit, so that the connection serves again,
    ///     and whatever becomes of it counts for nothing.
    ///   - connections: the most that are open; beyond it requests wait, within their time.
    ///   - hostConnections: the most to one host and port; beyond it requests wait, within their time.
    ///   - allows: whether a connection may be made to an address, asked of the very address that it is made to.
    package init(
        timeout: TimeInterval = 30, answerLimit: Int, wantsBodies: Bool = true,
        connections: Int = usualConnections, hostConnections: Int = usualConnections,
        allows: @escaping @Sendable (OutgoingAddress) -> Bool = { _ in true }
    ) {
        self.timeout = .milliseconds(Int64(timeout * 1000))
        self.answerLimit = answerLimit
        self.wantsBodies = wantsBodies
        owner = Owner(CurlEngine(connections: connections, hostConnections: hostConnections, allows: allows))
    }

    package func send(_ request: OutgoingRequest) async throws -> OutgoingAnswer {
        let transfer = CurlTransfer(
            request, timeout: request.timeout ?? timeout, answerLimit: answerLimit, wantsBody: wantsBodies)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                owner.engine.submit(transfer, continuation)
            }
        } onCancel: {
            owner.engine.cancel(transfer)
        }
    }
}

extension URLError {
    /// What happened, in plain words: Foundation's own hold the URL, with ids in it.
    package var words: String {
        switch code {
        case .timedOut: "the time was up"
        case .cannotFindHost, .dnsLookupFailed: "the host has no address"
        case .cannotConnectToHost: "no connection could be made"
        case .networkConnectionLost: "the connection was lost"
        case .serverCertificateUntrusted:
            "TLS failed: the certificate is not trusted here, is not valid now, or is for another name"
        case .secureConnectionFailed:
            "TLS failed: nothing that speaks it is there, or no version of it is spoken by both"
        case .cannotOpenFile: "TLS failed: this machine's list of trusted certificates cannot be read"
        case .badServerResponse: "what came back is not HTTP/1.1, nor HTTP/2 over TLS"
        case .badURL: "the address cannot be read"
        default: "the connection failed (\(code.rawValue))"
        }
    }
}
