import Dispatch
package import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// What the store answered.
package struct StoreAPIResponse: Sendable {
    package let status: Int
    /// As the header has it.
    package let retryAfter: String?
    /// As the header `Date` has it.
    package let date: String?
    package let body: [UInt8]

    package init(status: Int, retryAfter: String? = nil, date: String? = nil, body: [UInt8]) {
        self.status = status
        self.retryAfter = retryAfter
        self.date = date
        self.body = body
    }
}

/// Carries signed requests to a server and brings its answers.
package protocol StoreAPITransport: Sendable {
    /// - Parameters:
    ///   - url: where to, whole.
    ///   - token: for the header `Authorization`.
    /// - Throws: whatever kept an answer from coming whole; `CancellationError` at once when the task is cancelled.
    func send(_ request: StoreAPIRequest, to url: URL, token: String) async throws -> StoreAPIResponse
}

/// Foundation's URLSession, held to a size and a time.
///
/// It follows no redirection: the token is for one server. What comes is counted as it comes, unpacked, and a request ends
/// when its time is up however slowly the answer drips: on Linux, URLSession's own timeout for a whole request does nothing.
package struct StoreAPISession: StoreAPITransport {
    /// The largest answer that is taken, in bytes; a page of the store's is far below.
    package static let answerLimit = 4 << 20

    private let session: URLSession
    private let delegate: Delegate
    private let timeout: TimeInterval

    /// - Parameter timeout: for one request, in seconds.
    package init(timeout: TimeInterval = 30) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeout
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        delegate = Delegate()
        session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
        self.timeout = timeout
    }

    package func send(_ request: StoreAPIRequest, to url: URL, token: String) async throws -> StoreAPIResponse {
        var outgoing = URLRequest(url: url)
        outgoing.httpMethod = request.method.rawValue
        outgoing.httpBody = request.body.map { Data($0) }
        if request.body != nil { outgoing.setValue("application/json", forHTTPHeaderField: "Content-Type") }
        outgoing.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        outgoing.setValue("application/json", forHTTPHeaderField: "Accept")
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
            let continuation: CheckedContinuation<StoreAPIResponse, any Error>
            var body: [UInt8] = []
        }

        private let pending = Mutex<[Int: Pending]>([:])

        func begin(_ id: Int, _ continuation: CheckedContinuation<StoreAPIResponse, any Error>) {
            pending.withLock { $0[id] = Pending(continuation: continuation) }
        }

        /// Answers whoever waits; returns whether somebody did.
        func finish(_ id: Int, _ result: Result<StoreAPIResponse, any Error>) -> Bool {
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
                guard count + data.count <= StoreAPISession.answerLimit else { return true }
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
                _ = finish(
                    task.taskIdentifier,
                    .success(
                        StoreAPIResponse(
                            status: response.statusCode,
                            retryAfter: response.value(forHTTPHeaderField: "Retry-After"),
                            date: response.value(forHTTPHeaderField: "Date"), body: body)))
            } else {
                _ = finish(task.taskIdentifier, .failure(URLError(.badServerResponse)))
            }
        }
    }
}
