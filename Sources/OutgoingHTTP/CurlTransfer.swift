import CCurl
import Foundation
import Synchronization

/// A request, and whoever waits for its answer.
final class CurlTransfer: Sendable {
    private enum State {
        case new
        case waiting(CheckedContinuation<OutgoingAnswer, any Error>)
        /// Ended before anybody waited, with this.
        case ended(any Error)
        case finished
    }

    let request: OutgoingRequest
    let timeout: Duration
    let answerLimit: Int
    let wantsBody: Bool
    private let state = Mutex(State.new)

    /// - Parameter wantsBody: `false`: an answer is its head, and what follows is read up to the limit and let go of.
    init(_ request: OutgoingRequest, timeout: Duration, answerLimit: Int, wantsBody: Bool) {
        (self.request, self.timeout) = (request, timeout)
        (self.answerLimit, self.wantsBody) = (answerLimit, wantsBody)
    }

    var isFinished: Bool {
        state.withLock { state in
            switch state {
            case .new, .waiting: false
            case .ended, .finished: true
            }
        }
    }

    /// Somebody waits; returns whether it is still to be done.
    func begin(_ continuation: CheckedContinuation<OutgoingAnswer, any Error>) -> Bool {
        let error: (any Error)? = state.withLock { state in
            guard case .ended(let error) = state else {
                state = .waiting(continuation)
                return nil
            }
            state = .finished
            return error
        }
        if let error { continuation.resume(throwing: error) }
        return error == nil
    }

    /// Answers whoever waits, the first time.
    func finish(_ result: Result<OutgoingAnswer, any Error>) {
        let waiting: CheckedContinuation<OutgoingAnswer, any Error>? = state.withLock { state in
            switch state {
            case .new:
                if case .failure(let error) = result { state = .ended(error) }
                return nil
            case .waiting(let continuation):
                state = .finished
                return continuation
            case .ended, .finished: return nil
            }
        }
        waiting?.resume(with: result)
    }
}

/// A transfer as libcurl works on it; of the engine's thread alone.
final class RunningTransfer {
    /// What libcurl calls back with, on the same thread.
    private final class Progress {
        let answerLimit: Int
        let wantsBody: Bool
        let allows: @Sendable (OutgoingAddress) -> Bool
        var headers: [(name: String, value: String)] = []
        /// The last head, which is of no status below 200, has come to its end.
        var hasHead = false
        var isInterim = false
        var body: [UInt8] = []
        var bodyBytes = 0
        var excess: AnswerTooLarge?
        /// Of all lines of heads, and of what follows the body.
        var headBytes = 0
        static let headLimit = 64 << 10
        /// Whether any address that was tried is allowed; `nil`: none was tried.
        var isAllowed: Bool?

        init(_ transfer: CurlTransfer, allows: @escaping @Sendable (OutgoingAddress) -> Bool) {
            (answerLimit, wantsBody, self.allows) = (transfer.answerLimit, transfer.wantsBody, allows)
        }
    }

    let transfer: CurlTransfer
    let handle: UnsafeMutableRawPointer
    private let progress: Progress
    private let callbacks: UnsafeMutablePointer<ccurl_callbacks>
    private let body: UnsafeMutableBufferPointer<UInt8>
    private var headers: UnsafeMutablePointer<curl_slist>?

    /// `nil` for an address that is none.
    init?(_ transfer: CurlTransfer, allows: @escaping @Sendable (OutgoingAddress) -> Bool) {
        guard let handle = curl_easy_init() else { return nil }
        let request = transfer.request
        self.transfer = transfer
        self.handle = handle
        progress = Progress(transfer, allows: allows)
        body = .allocate(capacity: max(1, request.body?.count ?? 0))
        if let bytes = request.body { _ = body.update(fromContentsOf: bytes) }
        callbacks = .allocate(capacity: 1)
        callbacks.initialize(
            to: ccurl_callbacks(
                received: Self.received, header: Self.header, allows: Self.allows,
                cls: Unmanaged.passUnretained(progress).toOpaque()))
        let named = [("Accept-Encoding", "identity"), ("Expect", ""), ("User-Agent", "rightful")]
        let own = Set(request.headers.map { $0.name.lowercased() })
        let all = named.filter { !own.contains($0.0.lowercased()) } + request.headers.map { ($0.name, $0.value) }
        for (name, value) in all {
            let line = value.isEmpty ? "\(name):" : "\(name): \(value)"
            headers = curl_slist_append(headers, line)
        }
        let hasBody = request.body != nil || !["GET", "DELETE"].contains(request.method)
        // To libcurl, 0 is no limit.
        let milliseconds = max(1, Int(transfer.timeout / .milliseconds(1)))
        let code = request.method.withCString { method in
            request.url.absoluteString.withCString { url in
                var prepared = ccurl_request(
                    method: method, url: url, headers: headers, body: hasBody ? UnsafePointer(body.baseAddress) : nil,
                    body_count: request.body?.count ?? 0,
                    connect_milliseconds: min(milliseconds, Self.longestConnecting), milliseconds: milliseconds,
                    callbacks: callbacks)
                return ccurl_prepare(handle, &prepared)
            }
        }
        guard code == CURLE_OK else {
            curl_easy_cleanup(handle)
            release()
            return nil
        }
    }

    /// In milliseconds.
    private static let longestConnecting = 10_000

    /// What came of it.
    func result(_ code: CURLcode) -> Result<OutgoingAnswer, any Error> {
        // Whoever wants the head alone has it, whatever became of the rest.
        guard code != CURLE_OK, transfer.wantsBody || !progress.hasHead else {
            return .success(
                OutgoingAnswer(
                    status: ccurl_status(handle),
                    headers: Dictionary(progress.headers.map { ($0.name, $0.value) }) { first, _ in first },
                    body: progress.body))
        }
        if let excess = progress.excess { return .failure(excess) }
        if progress.isAllowed == false, code == CURLE_COULDNT_CONNECT { return .failure(AddressRefused()) }
        return .failure(URLError(URLError.Code(code)))
    }

    /// Lets go of everything, libcurl's and its own.
    func end(in multi: UnsafeMutableRawPointer) {
        curl_multi_remove_handle(multi, handle)
        curl_easy_cleanup(handle)
        release()
    }

    private func release() {
        curl_slist_free_all(headers)
        headers = nil
        callbacks.deallocate()
        body.deallocate()
    }

    private static func progress(_ cls: UnsafeMutableRawPointer?) -> Progress? {
        cls.map { Unmanaged<Progress>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let received: ccurl_received_callback = { cls, bytes, count in
        guard let progress = progress(cls), let bytes else { return 0 }
        progress.bodyBytes += count
        guard progress.bodyBytes <= progress.answerLimit else {
            progress.excess = AnswerTooLarge(part: .body, limit: progress.answerLimit)
            return 0
        }
        if progress.wantsBody { progress.body.append(contentsOf: UnsafeBufferPointer(start: bytes, count: count)) }
        return 1
    }

    private static let header: ccurl_header_callback = { cls, bytes, count in
        guard let progress = progress(cls), let bytes else { return 0 }
        progress.headBytes += count
        guard progress.headBytes <= Progress.headLimit else {
            progress.excess = AnswerTooLarge(part: .head, limit: Progress.headLimit)
            return 0
        }
        // Trailers are ignored, and so are header lines that are not ASCII, because parsing them may be slow.
        let isRead = !progress.hasHead && UnsafeBufferPointer(start: bytes, count: count).allSatisfy { $0 < 0x80 }
        guard isRead else { return 1 }
        let line = String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
        // Each head begins anew, as after one of status 100.
        if line.hasPrefix("HTTP/") {
            progress.headers = []
            progress.isInterim = line.split(separator: " ").dropFirst().first?.hasPrefix("1") ?? false
        }
        if line.allSatisfy(\.isNewline) { progress.hasHead = !progress.isInterim }
        guard let colon = line.firstIndex(of: ":") else { return 1 }
        let value = line[line.index(after: colon)...].trimmingCharacters(in: .whitespacesAndNewlines)
        progress.headers.append((String(line[..<colon]), value))
        return 1
    }

    private static let allows: ccurl_address_callback = { cls, bytes, count in
        guard let progress = progress(cls), let bytes else { return 0 }
        let address = OutgoingAddress(bytes: Array(UnsafeBufferPointer(start: bytes, count: count)))
        let isAllowed = progress.allows(address)
        // One that is allowed, and where nobody is, is what keeps a name from being reached whose others are refused.
        progress.isAllowed = progress.isAllowed == true || isAllowed
        return isAllowed ? 1 : 0
    }
}

extension URLError.Code {
    /// What a failure of libcurl's is called in Foundation.
    fileprivate init(_ code: CURLcode) {
        switch code {
        case CURLE_OPERATION_TIMEDOUT: self = .timedOut
        case CURLE_COULDNT_RESOLVE_HOST: self = .cannotFindHost
        case CURLE_COULDNT_CONNECT: self = .cannotConnectToHost
        case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_HTTP2,
            CURLE_HTTP2_STREAM:
            self = .networkConnectionLost
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR: self = .serverCertificateUntrusted
        case CURLE_SSL_CACERT_BADFILE: self = .cannotOpenFile
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER: self = .secureConnectionFailed
        case CURLE_URL_MALFORMAT: self = .badURL
        // Only addresses of HTTP are asked for, so the protocol is the answer's: HTTP/2 without TLS, or something else.
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING:
            self = .badServerResponse
        default: self = .unknown
        }
    }
}
