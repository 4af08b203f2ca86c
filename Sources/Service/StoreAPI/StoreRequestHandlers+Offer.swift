import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import OpenSSLCrypto

extension StoreRequestHandlers {
    /// `POST /v1/offer_signatures`: signs a promotional offer with the app's key from App Store Connect.
    ///
    /// Whoever asks decides who is given the offer. Nothing is recorded: what was bought with it is told by the store.
    func signOffer(_ call: Call) async throws -> HTTPResponse {
        let request = try call.command(OfferSignatureRequest.self)
        // A signature is good in every environment.
        if call.credential?.onlyEnvironment == .sandbox {
            throw Problem(.forbidden, "This key is for the sandbox, and a signature would be good in production too.")
        }
        if let only = call.credential?.onlyBundleID, let app = request.app, !only.utf8.elementsEqual(app.utf8) {
            throw Problem(.forbidden, "This credential is for another app.", param: "app")
        }
        let credentials: StoreAPICredentials
        do throws(StoreChecks.Refusal) {
            credentials = try checks.check(of: call.credential?.onlyBundleID ?? request.app).client.credentials
        } catch {
            switch error {
            case .ambiguous, .unknown, .withoutStripe:
                throw Problem(.malformedRequest, "There are several apps: name one by its bundle id.", param: "app")
            case .unconfigured:
                throw Problem(
                    .unprocessable,
                    "The app has no app_store_api in this service's configuration, and so no key that signs offers.",
                    param: "app")
            }
        }
        let signature = try credentials.sign(
            PromotionalOffer(
                productID: request.productID, offerID: request.offerID, accountToken: request.accountToken),
            nonce: UUID(), now: context.now())
        return try .document(
            OfferSignatureDocument(
                app: credentials.bundleID, productID: request.productID, offerID: request.offerID,
                keyID: signature.keyID, nonce: signature.nonce.uuidString.lowercased(),
                timestamp: signature.timestamp, signature: Base64.encode(signature.bytes)),
            headers: [("Cache-Control", "no-store")])
    }
}
