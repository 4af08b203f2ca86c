import AppStorePayloads
import EntitlementAPI
import HTTPServer

extension Call {
    /// Reads the body of a command; one that may be left out reads as an empty object then.
    ///
    /// - Throws: our own fault, where the route says that it takes another body: it would be in no description.
    func command<Body: CommandBody>(_ type: Body.Type) throws(Problem) -> Body {
        guard operation.takes(type) else {
            var problem = Problem(.internalError, "The server failed; its log says more under this request_id.")
            problem.cause = "\(operation.id) reads a body that its description lacks: \(type)"
            throw problem
        }
        let isLeftOut = request.body.isEmpty && operation.body?.isRequired == false
        guard isLeftOut || !request.body.isEmpty else {
            throw Problem(.malformedRequest, "The request has no body; send a JSON object.")
        }
        let body: Body
        do throws(CommandBodyError) {
            body = try Body(parsing: isLeftOut ? Array("{}".utf8) : request.body)
        } catch {
            let code: ProblemCode =
                switch error.kind {
                case .malformed: .malformedRequest
                case .unprocessable: .unprocessable
                case .tooLarge: .tooLarge
                }
            throw Problem(code, "\(error).", param: error.path.isEmpty ? nil : error.path)
        }
        // A device's list of statements is long, and nobody wrote it by hand.
        if !isLeftOut, type != ReconcileRequest.self { try refuseRepeatedNames() }
        return body
    }
}

extension Call {
    /// Refuses a body in which one object has a name twice: which of them is meant nobody can tell.
    func refuseRepeatedNames() throws(Problem) {
        guard let name = JSONValue.repeatedName(in: request.body).map({ String($0.prefix(64)) }) else { return }
        throw Problem(
            .malformedRequest, "The body has \(name) twice in one object; leave one of them.", param: name)
    }
}
