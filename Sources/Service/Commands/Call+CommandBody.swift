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
        let isLeftOut = operation.body?.isRequired == false && (request.body.isEmpty || isBodyNull)
        guard isLeftOut || !request.body.isEmpty else {
            throw Problem(.malformedRequest, "The request has no body; send a JSON object.")
        }
        let bytes = isLeftOut ? Array("{}".utf8) : try unambiguousBody()
        do throws(CommandBodyError) {
            return try Body(parsing: bytes)
        } catch {
            let code: ProblemCode =
                switch error.kind {
                case .malformed: .malformedRequest
                case .unprocessable: .unprocessable
                case .tooLarge: .tooLarge
                }
            throw Problem(code, "\(error).", param: error.path.isEmpty ? nil : error.path)
        }
    }

    /// Whether the body is JSON's `null`, which some clients send where nothing is to be said.
    private var isBodyNull: Bool {
        let blanks = Array(" \t\r\n".utf8)
        let start = request.body.drop(while: blanks.contains)
        return start.starts(with: "null".utf8) && start.dropFirst(4).allSatisfy(blanks.contains)
    }

    /// The body, as Foundation may read it: JSON, without a text that takes long to compare, and without a name that one object
    /// has twice, of which nobody can tell which is meant.
    func unambiguousBody() throws(Problem) -> [UInt8] {
        if let coding = request.header("Content-Encoding"), !coding.isEmpty, coding.lowercased() != "identity" {
            throw Problem(
                .malformedRequest,
                "The body is read as it is sent, without a Content-Encoding; this one has \(coding).",
                param: "Content-Encoding")
        }
        do throws(HTTPRefusal) {
            try request.examineText()
        } catch {
            throw Problem(error)
        }
        guard let json = JSONValue(parsing: request.body) else {
            throw Problem(.malformedRequest, "the body is not JSON.")
        }
        if let name = json.repeatedMember {
            throw Problem(
                .malformedRequest, "The body has \(name) twice in one object; leave one of them.", param: name)
        }
        return request.body
    }
}
