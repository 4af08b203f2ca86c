// What people are told of what customers hold.
extension ComponentNotes {
    static let customers: [String: ComponentNotes] = [
        "Entitlements": ComponentNotes(
            "What a customer holds, and held, at an instant",
            [
                "known_at": "The position the answer rests on", "fold_version": "Of the rules by which it was made",
                "entitlements": "In the order of their ids; lapsed ones included",
                "also_in": "The environments that know the customer of an empty answer",
            ]),
        "Entitlement": ComponentNotes(
            "One entitlement at an instant, and why it reads as it does",
            [
                "gives_access": "What to ask: the catalog's policy decides it",
                "since": "Where the unbroken run of the same `gives_access` begins",
                "until": "Where that run ends; `null`: without end, as far as known",
                "product_id": "`null` for a grant", "ownership": "`null` for what is not of the App Store",
                "will_renew": "`null` where nothing renews, or nothing is known of it",
                "offer": "`null` where there is none",
            ]),
        "EntitlementReason": ComponentNotes(
            "The rule that decided, and the events it rests on", ["positions": "Of these events in the log"]),
        "EntitlementState": ComponentNotes("How something reads at an instant"),
        "EntitlementOrigin": ComponentNotes("Where something was bought, or that it was granted"),
        "Ownership": ComponentNotes("How the customer came by a purchase"),
        "Offer": ComponentNotes(
            "The offer a period was bought under",
            [
                "type": "`introductory`, `promotional`, `offer_code`, `win_back` or `unknown`",
                "discount": "Apple's `offerDiscountType` in lower case",
            ]),
        "ReasonCode": ComponentNotes("A rule of the fold"),
        "StoreEnvironment": ComponentNotes("An environment of the stores"),
        "Timeline": ComponentNotes(
            "How a customer's entitlements read over time", ["known_at": "The position it rests on"]),
        "TimelineEntitlement": ComponentNotes(
            "One entitlement over time", ["intervals": "Ordered, disjoint, and without gaps from the first `from`"]),
        "TimelineInterval": ComponentNotes(
            "A stretch in which an entitlement reads the same", ["until": "`null`: without end, as far as known"]),
        "Explanation": ComponentNotes(
            "Why a customer's entitlements read as they do",
            [
                "known_at": "The position the answer rests on", "entitlements": "In the order of their ids",
                "conflicts": "What the customer claimed and is another's",
                "also_in": "The environments that know the customer of whom nothing is known here",
            ]),
        "ExplanationCatalogPart": ComponentNotes(
            "The catalog in force, as far as it bears on the customer",
            ["position": "0 before any was applied", "products": "Those that the customer's purchases name"]),
        "ExplanationEntitlement": ComponentNotes(
            "One decision, explained",
            [
                "events": "None can be left out: folding only these gives the same decision",
                "considered": "What else was weighed, and why it did not decide",
                "catalog_change": "The last change of the catalog that made a difference, of those that are looked at",
            ]),
        "ExplanationRule": ComponentNotes(
            "The rule of the fold that decided", ["sentence": "For people; it names no identity"]),
        "ExplainedDecision": ComponentNotes(
            "The decision as `readEntitlements` answers it, with `null` in place of what there is not"),
        "ExplainedDecisionReason": ComponentNotes("The rule that decided, and the events it rests on"),
        "CitedEvent": ComponentNotes(
            "An event that a decision rests on",
            [
                "occurred_at": "The statement's signed date",
                "ownership": "How the customer came by the purchase that a notification is about",
            ]),
        "Considered": ComponentNotes("Something else that was weighed, and why it did not decide"),
        "AlternativeLoss": ComponentNotes("Why something did not decide"),
        "Outlook": ComponentNotes(
            "Something that would change the decision", ["at": "`null` where no instant is known"]),
        "OutlookCode": ComponentNotes("What would change a decision"),
        "CatalogChange": ComponentNotes("A change of the catalog that made a difference"),
        "RefusedClaim": ComponentNotes(
            "A purchase that the customer claimed and that is another's",
            ["position": "Of the event that reported the conflict"]),
        "Link": ComponentNotes(
            "A link, as it holds from now on",
            [
                "customer_id": "Whose the linked one is",
                "linked": "The customer id that is an alias now, or an identity's default customer",
                "until_now": "Whose it was before; `null` where it was nobody else's",
                "remarks": "What a person should look at; left out where there is nothing",
            ]),
        "Transfer": ComponentNotes(
            "What a transfer makes of both sides",
            [
                "position": "`null` for a dry run", "from": "`null` where it was nobody's",
                "to": "`null` where it is nobody's again",
            ]),
        "TransferSide": ComponentNotes("One of the two customers, before and after"),
        "Grant": ComponentNotes(
            "An entitlement that was granted",
            [
                "until": "`null`: without end",
                "remarks": "What a person should look at; left out where there is nothing",
            ]),
        "GrantRevocation": ComponentNotes("A grant that was taken back"),
        "CustomerToken": ComponentNotes(
            "A token for a customer's device",
            ["app_account_token": "The UUID that this customer's purchases are to bear"]),
        "CustomerMatch": ComponentNotes("A customer, and the original transaction through which they were found"),
        "CustomerMatchList": ComponentNotes(
            "Whoever was found",
            ["has_more": "There were more than are told", "next_after": "Always `null`: there is no next page"]),
        "Reconciliation": ComponentNotes(
            "The truth as a device is told it",
            [
                "position": "The one the answer rests on; what was posted is recorded at or before it",
                "finish": "The transactions that are durable: the device may finish them",
                "results": "One for each posted transaction, in their order",
                "renewal_results": "One for each posted piece of renewal information, in their order",
                "app_transaction": "`null` where none was posted",
                "drift": "What the device claimed and is not so",
                "pass": "A signed form of the answer to keep; `null` where there is no key, or no proof",
                "facts": "Only where they were asked for, and there is proof",
                "ledger_id": "The ledger's own id: a device that finds another one has everything to tell again",
            ]),
        "ReconciliationProof": ComponentNotes("What tells whose device it is, from the strongest to none"),
        "TransactionResult": ComponentNotes(
            "What became of one posted transaction",
            [
                "transaction_id": "`null` where it could not be read, or not be believed",
                "code": "As a `Problem` has it; left out where all is well",
                "reason": "Of a conflict: why it is somebody else's",
                "detail": "For people; left out where all is well",
            ]),
        "TransactionResultStatus": ComponentNotes(
            "`recorded`: it is an event now; `known`: the log held it before; `refused`: `code` says why; `conflict`: it is in "
                + "the log, and not this customer's"),
        "RenewalResult": ComponentNotes("What became of one posted piece of renewal information"),
        "RenewalResultStatus": ComponentNotes(
            "`recorded`: it is an event now; `known`: the log held it before; `refused`: `code` says why"),
        "AppTransactionResult": ComponentNotes("What became of the posted app transaction"),
        "AppTransactionResultStatus": ComponentNotes("Whether it proves anything"),
        "Drift": ComponentNotes(
            "A claim that is not so",
            ["actual": "`null` where the ledger knows of nothing", "explanation": "For people"]),
        "FactsCopy": ComponentNotes(
            "The facts behind an answer, for a device that folds them",
            ["encoded": "Their canonical bytes, in base64", "identities": "The numbers by which the facts mean people"]),
        "Checkout": ComponentNotes(
            "A checkout that is open", ["id": "Stripe's id of the session", "url": "The page on which is paid"]),
        "Portal": ComponentNotes(
            "A page on which a customer looks after what they bought",
            ["url": "Good for a short time, and for whoever has it"]),
    ]
}
