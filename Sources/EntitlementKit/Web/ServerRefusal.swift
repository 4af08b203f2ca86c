import EntitlementAPI
import EntitlementCore

/// Why the server did not do something about the web checkout.
struct ServerRefusal: Error {
    let reason: WebUnavailability
    /// The server's own sentence, where it said one.
    var detail = ""
    /// It contradicts what the customer holds.
    var isConflict = false
    /// The server itself said why, rather than something before it.
    var isSentence = false
}

extension ServerRefusal {
    /// Reads an answer that is no success.
    init(_ answer: EntitlementServerResponse) {
        let problem = try? WireJSON.decode(ProblemDocument.self, from: Array(answer.body))
        reason = Self.reason(answer.status, problem)
        detail = problem?.detail ?? "HTTP status \(answer.status)"
        isSentence = problem != nil
        isConflict = answer.status == 409 && problem?.code != "idempotency_conflict"
    }

    /// What of a request says where a page leads back to.
    private static let pages: Set<String> = ["success_url", "cancel_url", "return_url"]

    private static func reason(_ status: Int, _ problem: ProblemDocument?) -> WebUnavailability {
        if problem?.code == "wrong_environment" { return .environmentNotConfigured }
        if let param = problem?.param, (400..<500).contains(status), pages.contains(param) { return .pageNotAllowed }
        return switch status {
        // An older server knows no such path.
        case 404, 405, 410, 501: .notOffered
        case 400..<500 where status != 408 && status != 429: .refused
        default: .serverFailed
        }
    }
}

extension WebUnavailability {
    /// Whether it stays so for every customer until somebody mends something, or may.
    var isMistake: Bool {
        [.environmentNotConfigured, .pageNotAllowed, .refused, .notOffered].contains(self)
    }
}

extension EntitlementStore {
    /// A sentence of the server's, for the log: without the customer, should it name them.
    func withoutCustomer(_ sentence: String) -> String {
        guard let customerID = ledger.customerID?.value else { return sentence }
        return sentence.split(separator: customerID, omittingEmptySubsequences: false).joined(separator: "…")
    }
}
