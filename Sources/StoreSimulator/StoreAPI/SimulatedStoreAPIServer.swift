package import HTTPServer

extension SimulatedStoreAPI {
    /// A server for this API, not yet started; on the loopback alone.
    ///
    /// - Parameter port: 0 for any that is free.
    package func makeServer(port: UInt16 = 0) -> HTTPServer {
        var configuration = HTTPServerConfiguration(port: port)
        configuration.handlerDeadline = .seconds(60)
        return HTTPServer(configuration: configuration) { request in
            let asked = Request(
                method: request.method, path: request.pathSegments, query: request.query,
                authorization: request.head.header("Authorization"), body: request.body)
            do {
                let answer = try await self.answer(asked)
                return HTTPResponse(status: answer.status, headers: answer.headers, body: answer.body)
            } catch {
                return HTTPResponse(status: 500, headers: [], body: [])
            }
        }
    }
}
