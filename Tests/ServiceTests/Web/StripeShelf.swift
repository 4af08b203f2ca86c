import Glibc
import Synchronization
import TestSupport

/// What Stripe would answer, by path, and how it fails meanwhile.
final class StripeShelf: Sendable {
    private struct State {
        var answers: [String: String] = [:]
        var fault: HostileServer.Reply?
        var isHeld = false
    }

    private let state = Mutex(State())

    func put(_ body: String, at path: String) { state.withLock { $0.answers[path] = body } }
    func fail(_ fault: HostileServer.Reply?) { state.withLock { $0.fault = fault } }

    /// Lets answers wait until this is taken back.
    func hold(_ isHeld: Bool) { state.withLock { $0.isHeld = isHeld } }

    func reply(to request: HostileServer.Request) -> HostileServer.Reply {
        while state.withLock(\.isHeld) { usleep(1000) }
        return state.withLock { state in
            if let fault = state.fault { return fault }
            let path = request.target.replacing("%5B", with: "[").replacing("%5D", with: "]")
            if let body = state.answers[path] { return .answer(200, body) }
            return .answer(
                404, #"{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such thing"}}"#)
        }
    }

    func take(_ path: String) { state.withLock { _ = $0.answers.removeValue(forKey: path) } }

    static func list(_ elements: String...) -> String {
        #"{"object":"list","data":[\#(elements.joined(separator: ","))],"has_more":false,"url":"/v1/x"}"#
    }

    static let tiePath =
        "/v1/invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_1&expand[]=data.invoice&limit=100"
    static let tie = list(
        """
        {"id":"inpay_1","object":"invoice_payment","livemode":true,"amount_paid":999,"status":"paid",
        "invoice":\(StripeBody.invoice()),"payment":{"type":"payment_intent","payment_intent":"pi_1"}}
        """)

    static func refund(_ status: String = "succeeded", _ number: Int = 1) -> String {
        """
        {"id":"re_\(number)","object":"refund","amount":999,"created":\(StripeRig.noon - 20),"status":"\(status)",
        "payment_intent":"pi_\(number)","charge":"ch_\(number)"}
        """
    }

    static let refunded = StripeBody.event("refund.created", refund(), id: "evt_refund", created: StripeRig.noon - 20)
}
