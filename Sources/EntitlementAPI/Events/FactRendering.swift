package import EntitlementCore

extension WireValue {
    /// A fact as people read it.
    ///
    /// Identities appear as the ledger's numbers for them, which tell whether two are the same and not who it is.
    package init(_ fact: LedgerFact) {
        switch fact {
        case .notification(let fact):
            var members: [String: WireValue] = [
                "bundle_id": .string(fact.bundleID), "signed_date": WireValue(fact.signedDate),
                "payload_sha256": .string(fact.payloadHash.hex),
                "transaction": fact.transaction.map { WireValue($0) } ?? .null,
                "renewal": fact.renewal.map { WireValue($0) } ?? .null,
                "remarks": .array(fact.remarks.map(WireValue.string)),
            ]
            if let app = fact.appTransaction { members["app_transaction"] = WireValue(app) }
            self = .object(members)
        case .statements(let fact):
            self = .object([
                "original_transaction_id": .string(fact.originalTransactionID),
                "transactions": .array(fact.transactions.map { WireValue($0) }),
                "renewals": .array(fact.renewals.map { WireValue($0) }),
                "remarks": .array(fact.remarks.map(WireValue.string)),
            ])
        case .catalog(let catalog):
            self = .object(CatalogDocument(catalog).members)
        case .link(let fact):
            self = .object([
                "identity": WireValue(fact.identity), "customer": WireValue(fact.customer),
                "cause": .string(fact.cause.word), "actor": WireValue(fact.actor), "reason": WireValue(fact.reason),
            ])
        case .claim(let fact):
            self = .object([
                "original_transaction_id": .string(fact.originalTransactionID), "customer": WireValue(fact.customer),
            ])
        case .transfer(let fact):
            var members: [String: WireValue] = [
                "original_transaction_id": .string(fact.originalTransactionID), "customer": WireValue(fact.customer),
                "actor": WireValue(fact.actor), "reason": WireValue(fact.reason),
            ]
            if fact.hadNoOwner { members["from_nobody"] = .bool(true) }
            self = .object(members)
        case .transferUndo(let fact):
            self = .object([
                "original_transaction_id": .string(fact.originalTransactionID), "undoes": .int(fact.undoes),
                "actor": WireValue(fact.actor), "reason": WireValue(fact.reason),
            ])
        case .conflict(let fact):
            self = .object([
                "original_transaction_id": .string(fact.originalTransactionID),
                "claimant": WireValue(fact.claimant),
            ])
        case .grant(let fact):
            self = .object([
                "grant_id": .string(fact.grantID), "customer": WireValue(fact.customer),
                "entitlement": .string(fact.entitlementID), "until": WireValue(fact.until),
                "reason": .string(fact.reason), "actor": WireValue(fact.actor),
            ])
        case .grantRevocation(let fact):
            self = .object([
                "grant_id": .string(fact.grantID), "customer": WireValue(fact.customer),
                "reason": .string(fact.reason), "actor": WireValue(fact.actor),
            ])
        case .drift(let fact):
            self = .object([
                "customer": WireValue(fact.customer), "bundle_id": .string(fact.bundleID),
                "product_id": .string(fact.productID),
                "claimed": .string(fact.claimed.rawValue), "claimed_until": WireValue(fact.claimedUntil),
                "actual": WireValue(fact.actual?.rawValue), "actual_until": WireValue(fact.actualUntil),
            ])
        case .access(.keyCreated(let fact)):
            self = .object([
                "key_id": .string(fact.keyID), "name": .string(fact.name), "publishable": .bool(fact.isPublishable),
                "scopes": .array(fact.scopes.map(WireValue.string)),
                "environment": fact.environment.map { .string($0.rawValue) } ?? .null,
                "app": fact.bundleID.map(WireValue.string) ?? .null,
            ])
        case .access(.keyRevoked(let fact)):
            self = .object(["key_id": .string(fact.keyID)])
        case .access(.passKeys(let keys)):
            self = .object([
                "keys": .array(
                    keys.map { key in
                        .object([
                            "key_id": .string(key.keyID), "not_before": WireValue(key.notBefore),
                            "x": .string(key.x), "y": .string(key.y),
                        ])
                    })
            ])
        case .access(.endpoint(let fact)):
            self = WireValue(fact)
        case .storeRequest(let fact):
            self = WireValue(fact)
        case .web(let fact):
            self = WireValue(fact)
        case .forgetting(let fact):
            var members: [String: WireValue] = [
                "identities": .array(fact.identities.map { WireValue($0) }),
                "evidence_positions": .array(fact.evidencePositions.map(WireValue.int)),
            ]
            members["original_transaction_id"] = fact.originalTransactionID.map(WireValue.string)
            self = .object(members)
        }
    }

    private init(_ fact: StoreRequestFact) {
        var members: [String: WireValue] = [
            "bundle_id": .string(fact.bundleID), "original_transaction_id": .string(fact.originalTransactionID),
            "settles": WireValue(fact.settles), "actor": WireValue(fact.order?.actor),
            "reason": WireValue(fact.order?.reason),
        ]
        switch fact.content {
        case .renewalExtension(let wish):
            members["days"] = .int(wish.days)
            members["reason_code"] = .string(wish.reason.rawValue)
            members["request_identifier"] = .string(wish.requestIdentifier)
            members["until"] = WireValue(wish.until)
        case .consumption(let transactionID, let information):
            members["transaction_id"] = .string(transactionID)
            members["told"] = information.map { WireValue($0) } ?? .null
        }
        switch fact.outcome {
        case .pending: members["outcome"] = .string("pending")
        case .accepted: members["outcome"] = .string("accepted")
        case .refused(let code):
            members["outcome"] = .string("refused")
            members["code"] = WireValue(code)
        case .tooLate: members["outcome"] = .string("too_late")
        case .withheld(let reason):
            members["outcome"] = .string("withheld")
            members["why"] = .string(reason.rawValue)
        }
        self = .object(members)
    }

    private init(_ information: ConsumptionInformation) {
        self = .object([
            "sample_content_provided": .bool(information.sampleContentProvided),
            "delivery_status": .string(information.deliveryStatus.rawValue),
            "consumption_percentage": WireValue(information.consumptionPercentage),
            "refund_preference": WireValue(information.refundPreference?.rawValue),
        ])
    }

    private init(_ fact: TransactionFact) {
        self = .object([
            "transaction_id": .string(fact.transactionID),
            "original_transaction_id": .string(fact.originalTransactionID),
            "web_order_line_item_id": WireValue(fact.webOrderLineItemID), "product_id": .string(fact.productID),
            "bundle_id": .string(fact.bundleID), "kind": WireValue(fact.kind?.raw),
            "purchase_date": WireValue(fact.purchaseDate), "expires_date": WireValue(fact.expiresDate),
            "signed_date": WireValue(fact.signedDate), "payload_sha256": .string(fact.payloadHash.hex),
            "revocation": fact.revocation.map { WireValue($0) } ?? .null, "is_upgraded": .bool(fact.isUpgraded),
            "reason": WireValue(fact.reason?.raw), "ownership": WireValue(fact.ownership?.raw),
            "app_account_token": WireValue(fact.accountToken), "app_transaction": WireValue(fact.appTransaction),
            "offer": fact.offer.map { WireValue($0) } ?? .null,
            "price": WireValue(fact.price?.thousandths), "currency": WireValue(fact.price?.currency),
        ])
    }

    private init(_ fact: RenewalFact) {
        var members: [String: WireValue] = [
            "original_transaction_id": .string(fact.originalTransactionID),
            "auto_renew_product_id": WireValue(fact.autoRenewProductID), "auto_renews": WireValue(fact.autoRenews),
            "is_in_billing_retry": .bool(fact.isInBillingRetry), "grace_end": WireValue(fact.graceEnd),
            "expiration_intent": WireValue(fact.expirationIntent),
            "is_grace_without_end": .bool(fact.isGraceWithoutEnd), "signed_date": WireValue(fact.signedDate),
            "payload_sha256": .string(fact.payloadHash.hex),
        ]
        // Exports are held to this rendering, so it is what it was where nothing is announced.
        if let status = fact.priceIncreaseStatus { members["price_increase_status"] = .int(status) }
        self = .object(members)
    }

    private init(_ revocation: Revocation) {
        self = .object([
            "date": WireValue(revocation.date), "reason": WireValue(revocation.reason),
            "kind": WireValue(revocation.kind?.raw), "percentage": WireValue(revocation.percentage),
        ])
    }

    private init(_ offer: Offer) {
        self = .object([
            "type": .int(offer.type), "identifier": WireValue(offer.identifier),
            "discount": WireValue(offer.discount), "period": WireValue(offer.period),
        ])
    }

    init(_ instant: Timestamp?) { self = instant.map { .string($0.description) } ?? .null }

    init(_ identity: IdentityRef?) { self = identity.map { .string(String($0.number)) } ?? .null }
}

extension WireValue {
    fileprivate init(_ fact: EndpointFact) {
        var members: [String: WireValue] = ["endpoint_id": .string(fact.endpointID)]
        switch fact.change {
        case .made(let terms):
            members["origin"] = .string(terms.origin)
            members["types"] = .array(terms.types.map(WireValue.string))
            members["environment"] = terms.environment.map { .string($0.rawValue) } ?? .null
            members["app"] = terms.bundleID.map(WireValue.string) ?? .null
            members["format"] = .string(terms.format)
            members["description"] = terms.description.map(WireValue.string) ?? .null
            members["has_authorization_header"] = .bool(terms.authorizationHash != nil)
        case .paused(let pause):
            members["cause"] =
                switch pause {
                case .ordered: .string("ordered")
                case .unreachable: .string("unreachable")
                case .gone: .string("gone")
                }
        case .changed(let changes):
            if let address = changes.address { members["origin"] = .string(address.origin) }
            if let types = changes.types { members["types"] = .array(types.map(WireValue.string)) }
            if let environment = changes.environment {
                members["environment"] = environment.map { .string($0.rawValue) } ?? .null
            }
            if let description = changes.description {
                members["description"] = description.map(WireValue.string) ?? .null
            }
            if let hash = changes.authorizationHash { members["has_authorization_header"] = .bool(hash != nil) }
        case .secretRotated(_, let keepOldSeconds):
            if let keepOldSeconds { members["keep_old_seconds"] = .int(keepOldSeconds) }
        case .resumed, .removed: break
        }
        self = .object(members)
    }
}
