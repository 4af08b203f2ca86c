import EntitlementCore
import Foundation
import Synchronization
import Testing

@testable import EntitlementKit

/// Keeps what is logged.
final class LogNotebook: EntitlementLogger {
    private let kept = Mutex<[String]>([])

    var lines: [String] { kept.withLock { $0 } }

    func log(
        _ level: EntitlementLogLevel, _ category: EntitlementLogCategory, _ message: EntitlementLogMessage
    ) {
        kept.withLock { $0.append("\(level.rawValue) \(category.rawValue): \(message)") }
    }
}

@Suite("Kit, situations: the log, which holds nothing about a person", .timeLimit(.minutes(1)))
struct LogTests {
    /// As the network's errors are: it quotes the address that was asked, which names the customer.
    private static func networkError(_ customer: String) -> URLError {
        let url = URL(string: "https://example.com/v1/customers/\(customer)/reconcile")
        return URLError(.notConnectedToInternet, userInfo: [NSURLErrorFailingURLErrorKey: url as Any])
    }

    @Test("purchases, logins, refusals, a full disk and an absent server are logged without a word about anybody")
    func nothingPersonal() async throws {
        let notebook = LogNotebook()
        let account = UUID()
        let bad = Statements.transaction("9000009", token: account, app: "app-secret", unverified: "of 9000009")
        let statement = Statements.transaction("9000001", token: account, app: "app-secret")
        let rig = KitRig {
            $0.appTransaction = Statements.appTransaction("app-secret")
            $0.unfinished = [bad]
            $0.purchase = .success(.success(statement))
            $0.syncError = Self.networkError("apple:app-secret")
        } configuration: {
            $0.logger = notebook
            $0.tokenProvider = { request in throw Self.networkError(request.customerID) }
        }
        await rig.launch()
        // Who issued the token knows whose it is.
        rig.server.edit { script in
            let (ann, token) = (
                script.number(of: "ann@example.com"), script.number(of: account.uuidString.lowercased())
            )
            script.ownership.apply(
                .link(LinkFact(identity: token, customer: ann)), position: 1, recordedAt: Timestamp(milliseconds: 0))
        }
        await rig.store.identify(customerID: "ann@example.com", token: "token-secret", appAccountToken: account)
        _ = await rig.store.purchase("monthly")
        rig.server.edit {
            $0.refused = ["9000002"]
            $0.refusesAllTokens = true
        }
        rig.device.push(Statements.transaction("9000002", product: "lifetime", until: nil))
        await eventually("a refusal") { notebook.lines.contains { $0.contains("failed: 1 transactions") } }
        rig.device.edit { $0.purchase = .failure(Self.networkError("ann@example.com")) }
        _ = await rig.store.purchase("lifetime")
        rig.server.edit { $0.mood = .unreachable }
        await rig.storage.setFull(true)
        rig.device.push(Statements.transaction("9000003", original: "9000001", from: 1, until: 60))
        _ = await rig.store.restoreEntitlements()
        await rig.store.settled()
        await eventually("a failure to write") { notebook.lines.contains { $0.contains("storage: writing") } }
        let text = notebook.lines.joined(separator: "\n")
        for expected in [
            "info purchase: buying monthly", "info purchase: bought monthly", "error purchase: lifetime: network, ",
            "info state: premium gives access: active", "error sync: unverified", "error sync: no answer of the server",
            "error sync: the app had no token: ", "error purchase: restoring: the store failed, ",
        ] {
            #expect(text.contains(expected), "\(expected) is missing in\n\(text)")
        }
        let personal = [
            "ann@example.com", "ann%40", "secret", "90000", account.uuidString, account.uuidString.lowercased(),
            "example.com",
            statement.jws, "reconcile",
        ]
        for word in personal { #expect(!text.contains(word), "\(word) is in\n\(text)") }
    }

    @Test("an app's own purchase without a number, by which nobody is known to the server, is logged as an error")
    func noNumber() async {
        let notebook = LogNotebook()
        let rig = KitRig {
            $0.appTransaction = Statements.appTransaction(nil)
        } configuration: {
            $0.logger = notebook
        }
        await rig.launch()
        let words = "the app's own purchase bears no number"
        #expect(notebook.lines.filter { $0.hasPrefix("error sync: \(words)") }.count == 1)
    }

    @Test("a duration in bundledCatalog that cannot be read is logged, with its product")
    func bundledDuration() {
        let notebook = LogNotebook()
        _ = KitRig(configuration: {
            $0.logger = notebook
            $0.bundledCatalog = [
                .init(productID: "season", entitlements: ["season"], duration: "90D"),
                .init(productID: "week", entitlements: ["season"], duration: "P7D"),
            ]
        })
        let told = notebook.lines.filter { $0.contains("bundledCatalog") }
        #expect(told == ["error purchase: the duration of season in bundledCatalog is not ISO 8601"])
    }
}
