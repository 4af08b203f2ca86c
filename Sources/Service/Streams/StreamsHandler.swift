import HTTPServer

extension Application {
    /// `GET /v1/streams`: whether the store is heard, and how far its history was read.
    func showStreams(_ call: Call) async throws -> HTTPResponse {
        try .document(try await streams.document(only: call.scope, at: now()))
    }
}
