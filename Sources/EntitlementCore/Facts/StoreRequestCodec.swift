// The canonical form of what the store was told or asked.

extension CanonicalWriter {
    mutating func storeRequest(_ fact: StoreRequestFact) {
        text(fact.bundleID)
        text(fact.originalTransactionID)
        switch fact.content {
        case .renewalExtension(let wish):
            byte(1)
            integer(wish.days)
            byte(wish.reason.code)
            text(wish.requestIdentifier)
            optional(wish.until) { $0.timestamp($1) }
        case .consumption(let transactionID, let information):
            byte(2)
            text(transactionID)
            optional(information) { $0.consumption($1) }
        }
        switch fact.outcome {
        case .pending: byte(0)
        case .accepted: byte(1)
        case .refused(let code):
            byte(2)
            optional(code) { $0.integer($1) }
        case .tooLate: byte(3)
        case .withheld(let reason):
            byte(4)
            text(reason.rawValue)
        }
        optional(fact.settles) { $0.integer($1) }
        optional(fact.order) { writer, order in
            writer.text(order.actor)
            writer.text(order.reason)
        }
    }

    private mutating func consumption(_ information: ConsumptionInformation) {
        flag(information.sampleContentProvided)
        text(information.deliveryStatus.rawValue)
        optional(information.consumptionPercentage) { $0.integer($1) }
        optional(information.refundPreference) { $0.text($1.rawValue) }
    }
}

extension CanonicalReader {
    mutating func storeRequest() throws(Failure) -> StoreRequestFact {
        StoreRequestFact(
            bundleID: try text(), originalTransactionID: try text(), content: try requestContent(),
            outcome: try requestOutcome(), settles: try optional { r throws(Failure) in try r.integer() },
            order: try optional { r throws(Failure) in
                StoreRequestOrder(actor: try r.text(), reason: try r.text())
            })
    }

    private mutating func requestContent() throws(Failure) -> StoreRequestFact.Content {
        switch try byte() {
        case 1:
            let days = try integer()
            let code = try byte()
            guard let reason = ExtensionReason(code: code) else {
                throw .invalid("an extension's reason of \(code)")
            }
            return .renewalExtension(
                RenewalExtension(
                    days: days, reason: reason, requestIdentifier: try text(),
                    until: try optional { r throws(Failure) in try r.timestamp() }))
        case 2:
            return .consumption(
                transactionID: try text(), try optional { r throws(Failure) in try r.consumption() })
        case let kind: throw .invalid("a request of kind \(kind)")
        }
    }

    private mutating func requestOutcome() throws(Failure) -> StoreRequestFact.Outcome {
        switch try byte() {
        case 0: .pending
        case 1: .accepted
        case 2: .refused(code: try optional { r throws(Failure) in try r.integer() })
        case 3: .tooLate
        case 4: .withheld(try word("a reason to tell nothing"))
        case let kind: throw .invalid("a request's outcome of \(kind)")
        }
    }

    private mutating func consumption() throws(Failure) -> ConsumptionInformation {
        ConsumptionInformation(
            sampleContentProvided: try flag(), deliveryStatus: try word("a delivery status"),
            consumptionPercentage: try optional { r throws(Failure) in try r.integer() },
            refundPreference: try optional { r throws(Failure) in try r.word("a refund preference") })
    }

    private mutating func word<Word: RawRepresentable<String>>(_ what: String) throws(Failure) -> Word {
        let raw = try text()
        guard let word = Word(rawValue: raw) else { throw .invalid("\(what) of '\(raw)'") }
        return word
    }
}
