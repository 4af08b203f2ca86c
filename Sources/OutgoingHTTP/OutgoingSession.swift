import Dispatch
package import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Foundation's URLSession, held to a size and a time.
///
/// It follows no redirection, for what a request proves its sender by is for one server, and keeps no answer and no cookie.
/// What comes is counted as it comes, unpacked, and a request ends when its time is up however slowly the answer drips: on
/// Linux, URLSession's own timeout for a whole request does nothing.
package struct OutgoingSession: OutgoingTransport {
    private let session: URLSession
    private let delegate: Delegate
    private let timeout: TimeInterval

    /// - Parameters:
    ///   - timeout: for one request, in seconds.
    ///   - answerLimit: the largest answer that is taken, in bytes.
    package init(timeout: TimeInterval = 30, answerLimit: Int) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeout
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        delegate = Delegate(answerLimit: answerLimit)
        session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
        self.timeout = timeout
    }

    package func send(_ request: OutgoingRequest) async throws -> OutgoingAnswer {
        var outgoing = URLRequest(url: request.url)
        outgoing.httpMethod = request.method
        outgoing.httpBody = request.body.map { Data($0) }
        for header in request.headers { outgoing.setValue(header.value, forHTTPHeaderField: header.name) }
        outgoing.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        let task = session.dataTask(with: outgoing)
        let id = task.taskIdentifier
        // Not on the thread that cancels, nor on URLSession's own: on Linux the two can wait for each other.
        let end = { @Sendable [delegate] (error: any Error) in
            DispatchQueue.global().async {
                if delegate.finish(id, .failure(error)) { task.cancel() }
            }
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                delegate.begin(id, continuation)
                DispatchQueue.global().asyncAfter(deadline: .now() + timeout) { end(URLError(.timedOut)) }
                if Task.isCancelled { end(CancellationError()) } else { task.resume() }
            }
        } onCancel: {
            end(CancellationError())
        }
    }

    /// Gathers what comes, for each task until somebody ends it.
    private final class Delegate: NSObject, URLSessionDataDelegate, Sendable {
        private struct Pending {
            let continuation: CheckedContinuation<OutgoingAnswer, any Error>
            var body: [UInt8] = []
        }

        private let answerLimit: Int
        private let pending = Mutex<[Int: Pending]>([:])

        init(answerLimit: Int) { self.answerLimit = answerLimit }

        func begin(_ id: Int, _ continuation: CheckedContinuation<OutgoingAnswer, any Error>) {
            pending.withLock { $0[id] = Pending(continuation: continuation) }
        }

        /// Answers whoever waits; returns whether somebody did.
        func finish(_ id: Int, _ result: Result<OutgoingAnswer, any Error>) -> Bool {
            guard let ended = pending.withLock({ $0.removeValue(forKey: id) }) else { return false }
            ended.continuation.resume(with: result)
            return true
        }

        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
        ) {
            completionHandler(nil)
        }

        func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
            let isTooMuch = pending.withLock { pending in
                guard let count = pending[dataTask.taskIdentifier]?.body.count else { return false }
                guard count + data.count <= answerLimit else { return true }
                pending[dataTask.taskIdentifier]?.body += data
                return false
            }
            guard isTooMuch, finish(dataTask.taskIdentifier, .failure(URLError(.dataLengthExceedsMaximum))) else {
                return
            }
            DispatchQueue.global().async { dataTask.cancel() }
        }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            let body = pending.withLock { $0[task.taskIdentifier]?.body } ?? []
            if let error {
                _ = finish(task.taskIdentifier, .failure(error))
            } else if let response = task.response as? HTTPURLResponse {
                let headers = response.allHeaderFields.compactMap { name, value in
                    (name as? String).flatMap { name in (value as? String).map { (name, $0) } }
                }
                _ = finish(
                    task.taskIdentifier,
                    .success(
                        OutgoingAnswer(
                            status: response.statusCode,
                            headers: Dictionary(headers) { first, _ in first }, body: body)))
            } else {
                _ = finish(task.taskIdentifier, .failure(URLError(.badServerResponse)))
            }
        }
    }
}

extension URLError {
    /// What happened, in plain words: Foundation's own hold the URL, with ids in it.
    ///
    /// - Parameter answerLimit: of the session that threw it.
    package func words(answerLimit: Int) -> String {
        switch code {
        case .timedOut: "the time was up"
        case .cannotFindHost, .dnsLookupFailed: "the host has no address"
        case .cannotConnectToHost: "no connection could be made"
        case .networkConnectionLost: "the connection was lost"
        case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
            .serverCertificateNotYetValid, .serverCertificateHasUnknownRoot:
            "TLS failed"
        case .dataLengthExceedsMaximum: "it is larger than \(answerLimit >> 20) MiB"
        default: "URL error \(code.rawValue)"
        }
    }
}
