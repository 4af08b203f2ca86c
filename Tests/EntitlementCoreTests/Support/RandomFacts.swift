import SeededRandom

@testable import EntitlementCore

/// Random facts of every kind, with every optional present and absent, for the codec.
extension SplitMix64 {
    mutating func text() -> String {
        let alphabet = ["a", "Z", "7", ".", "é", "日", "👩‍👧", "\u{0}", "\n", "\u{200d}", "\u{10FFFF}"]
        return (0..<Int.random(in: 0...12, using: &self)).map { _ in pick(alphabet) }.joined()
    }

    mutating func integer() -> Int64 {
        once(in: 4) ? pick([.min, -1, 0, 1, .max]) : Int64.random(in: .min ... .max, using: &self)
    }

    mutating func anyInstant() -> Timestamp {
        once(in: 5) ? pick([.earliest, .latest]) : Timestamp(milliseconds: integer() >> 18)
    }

    mutating func anyDigest() -> Digest {
        Digest((0..<32).map { _ in UInt8.random(in: 0...255, using: &self) }) ?? .zero
    }

    mutating func anyReference() -> IdentityRef { IdentityRef(integer()) }

    mutating func anyTransaction() -> TransactionFact {
        TransactionFact(
            payloadHash: anyDigest(), signedDate: maybe(2) { $0.anyInstant() }, transactionID: text(),
            originalTransactionID: text(), webOrderLineItemID: maybe(2) { $0.text() }, productID: text(),
            bundleID: text(), kind: maybe(2) { Known($0.pick(["Consumable", "Non-Consumable", $0.text()])) },
            purchaseDate: anyInstant(), expiresDate: maybe(2) { $0.anyInstant() },
            revocation: maybe(2) {
                Revocation(
                    date: $0.anyInstant(), reason: $0.maybe(2) { $0.integer() },
                    kind: $0.maybe(2) { Known($0.pick(["REFUND_PRORATED", $0.text()])) },
                    percentage: $0.maybe(2) { $0.integer() })
            },
            isUpgraded: once(in: 2), reason: maybe(2) { Known($0.pick(["PURCHASE", $0.text()])) },
            ownership: maybe(2) { Known($0.pick(["FAMILY_SHARED", $0.text()])) },
            accountToken: maybe(2) { $0.anyReference() }, appTransaction: maybe(2) { $0.anyReference() },
            offer: maybe(2) {
                Offer(
                    type: $0.integer(), identifier: $0.maybe(2) { $0.text() }, discount: $0.maybe(2) { $0.text() },
                    period: $0.maybe(2) { $0.text() })
            }, price: maybe(2) { Money(thousandths: $0.integer() >> 24, currency: $0.pick(["USD", "JPY"])) } ?? nil)
    }

    mutating func anyRenewal() -> RenewalFact {
        RenewalFact(
            payloadHash: anyDigest(), signedDate: maybe(2) { $0.anyInstant() }, originalTransactionID: text(),
            autoRenewProductID: maybe(2) { $0.text() }, autoRenews: maybe(2) { $0.once(in: 2) },
            isInBillingRetry: once(in: 2), graceEnd: maybe(2) { $0.anyInstant() },
            expirationIntent: maybe(2) { $0.integer() }, priceIncreaseStatus: maybe(2) { $0.integer() },
            isGraceWithoutEnd: once(in: 2))
    }

    mutating func anyCatalog() -> Catalog {
        let products = (0..<Int.random(in: 0...4, using: &self)).map { _ in
            CatalogProduct(
                productID: text(), entitlements: (0..<Int.random(in: 0...3, using: &self)).map { _ in text() },
                duration: maybe(2) { $0.pick(["P90D", "P1Y", "P12M", "PT36H", "P007D"]) }
                    .flatMap { CalendarDuration(iso8601: $0) })
        }
        return Catalog(
            products: products,
            policy: AccessPolicy(
                graceGivesAccess: once(in: 2), billingRetryGivesAccess: once(in: 2), leewaySeconds: integer(),
                proratedRefund: pick([.endsAccess, .keepsAccess])))
    }

    mutating func anyStoreRequest() -> StoreRequestFact {
        let content: StoreRequestFact.Content =
            once(in: 2)
            ? .renewalExtension(
                RenewalExtension(
                    days: integer(), reason: pick(ExtensionReason.allCases), requestIdentifier: text(),
                    until: maybe(2) { $0.anyInstant() }))
            : .consumption(
                transactionID: text(),
                maybe(2) {
                    ConsumptionInformation(
                        sampleContentProvided: $0.once(in: 2),
                        deliveryStatus: $0.pick(ConsumptionInformation.DeliveryStatus.allCases),
                        consumptionPercentage: $0.maybe(2) { $0.integer() },
                        refundPreference: $0.maybe(2) { $0.pick(ConsumptionInformation.RefundPreference.allCases) })
                })
        let code = maybe(2) { $0.integer() }
        return StoreRequestFact(
            bundleID: text(), originalTransactionID: text(), content: content,
            outcome: pick([
                .pending, .accepted, .refused(code: code), .tooLate, .withheld(pick(ConsumptionWithholding.allCases)),
            ]), settles: maybe(2) { $0.integer() },
            order: maybe(2) { StoreRequestOrder(actor: $0.text(), reason: $0.text()) })
    }

    mutating func fact() -> LedgerFact {
        switch Int.random(in: 0..<16, using: &self) {
        case 0:
            .notification(
                NotificationFact(
                    type: text(), subtype: maybe(2) { $0.text() }, uuid: text(),
                    signedDate: maybe(2) { $0.anyInstant() },
                    payloadHash: anyDigest(), bundleID: text(), transaction: maybe(2) { $0.anyTransaction() },
                    renewal: maybe(2) { $0.anyRenewal() }, appTransaction: maybe(3) { $0.anyReference() },
                    remarks: (0..<Int.random(in: 0...3, using: &self)).map { _ in text() }))
        case 1: .catalog(anyCatalog())
        case 2:
            .link(
                LinkFact(
                    identity: anyReference(), customer: anyReference(),
                    cause: .allCases.randomElement(using: &self) ?? .command, actor: maybe(2) { $0.text() },
                    reason: maybe(2) { $0.text() }))
        case 3: .claim(ClaimFact(originalTransactionID: text(), customer: anyReference()))
        case 4:
            .transfer(
                TransferFact(
                    originalTransactionID: text(), customer: anyReference(), hadNoOwner: once(in: 2),
                    actor: maybe(2) { $0.text() }, reason: maybe(2) { $0.text() }))
        case 5:
            .grant(
                GrantFact(
                    grantID: text(), customer: anyReference(), entitlementID: text(),
                    until: maybe(2) { $0.anyInstant() }, reason: text(), actor: maybe(2) { $0.text() }))
        case 6:
            .forgetting(
                ForgettingFact(
                    identities: (0..<Int.random(in: 0...3, using: &self)).map { _ in anyReference() },
                    evidencePositions: (0..<Int.random(in: 0...3, using: &self)).map { _ in integer() },
                    originalTransactionID: maybe(2) { $0.text() }))
        case 7:
            .statements(
                StatementsFact(
                    originalTransactionID: text(),
                    transactions: (0..<Int.random(in: 0...3, using: &self)).map { _ in anyTransaction() },
                    renewals: (0..<Int.random(in: 0...3, using: &self)).map { _ in anyRenewal() },
                    remarks: (0..<Int.random(in: 0...3, using: &self)).map { _ in text() }))
        case 8:
            .transferUndo(
                TransferUndoFact(
                    originalTransactionID: text(), undoes: integer(), actor: maybe(2) { $0.text() },
                    reason: maybe(2) { $0.text() }))
        case 9:
            .conflict(
                ConflictFact(originalTransactionID: text(), claimant: anyReference()))
        case 10:
            .drift(
                DriftFact(
                    customer: anyReference(), bundleID: text(), productID: text(),
                    claimed: pick(EntitlementState.allCases),
                    claimedUntil: maybe(2) { $0.anyInstant() }, actual: maybe(2) { $0.pick(EntitlementState.allCases) },
                    actualUntil: maybe(2) { $0.anyInstant() }))
        case 14: .storeRequest(anyStoreRequest())
        case 11:
            .access(
                .keyCreated(
                    KeyCreationFact(
                        keyID: text(), secretHash: anyDigest(), name: text(), isPublishable: once(in: 2),
                        scopes: (0..<Int.random(in: 0...3, using: &self)).map { _ in text() },
                        environment: maybe(2) { $0.pick(StoreEnvironment.allCases) }, bundleID: maybe(2) { $0.text() }))
            )
        case 12: .access(.keyRevoked(KeyRevocationFact(keyID: text(), secretHash: anyDigest())))
        case 13:
            .access(
                .passKeys(
                    (0..<Int.random(in: 0...3, using: &self)).map { _ in
                        PassKeyFact(keyID: text(), notBefore: maybe(2) { $0.anyInstant() }, x: text(), y: text())
                    }))
        default:
            .grantRevocation(
                GrantRevocationFact(
                    grantID: text(), customer: anyReference(), reason: text(), actor: maybe(2) { $0.text() }))
        }
    }
}
