import Foundation
package import HTTPServer

extension SimulatedStripe {
    /// A server for this API, not yet started; on the loopback alone.
    ///
    /// - Parameters:
    ///   - port: 0 for any that is free.
    ///   - page: answers what is not for the API, if anything does.
    package func makeServer(
        port: UInt16 = 0, page: (@Sendable (HTTPRequest) async -> HTTPResponse)? = nil
    ) -> HTTPServer {
        var configuration = HTTPServerConfiguration(port: port)
        configuration.handlerDeadline = .seconds(60)
        return HTTPServer(configuration: configuration) { request in
            if request.pathSegments.first != "v1", let page { return await page(request) }
            let asked = Request(
                method: request.method, path: request.pathSegments, query: request.query,
                authorization: request.head.header("Authorization"), version: request.head.header("Stripe-Version"),
                idempotencyKey: request.head.header("Idempotency-Key"), body: request.body)
            do {
                let answer = try await self.answer(asked)
                var response = HTTPResponse(
                    status: answer.status,
                    headers: answer.headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } + [
                        ("Date", self.date)
                    ],
                    body: answer.body)
                if answer.isReset { response.resetsAfter = answer.body.count / 2 }
                return response
            } catch {
                return HTTPResponse(status: 500, headers: [], body: [])
            }
        }
    }

    /// What time it is for the account, as its answers tell.
    private var date: String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: Date(timeIntervalSince1970: Double(now() / 1000)))
    }
}
