// What people are told of bodies, of endpoints and of the service itself.
extension ComponentNotes {
    private static let customersEnvironment = "The key's own where it is left out, else `production`"

    private static let keptReason = "Kept with the event for good, beside the name of the key: name nobody in it"
    private static let afterOfRedelivery = "`next_after` of the answer before"

    static let requests: [String: ComponentNotes] = [
        "LinkRequest": ComponentNotes("Whose identity, or which customer, becomes the addressed customer's"),
        "LinkToAccountToken": ComponentNotes(
            "Links an account token", ["environment": customersEnvironment, "reason": keptReason]),
        "LinkToAppTransaction": ComponentNotes(
            "Links an Apple account", ["environment": customersEnvironment, "reason": keptReason]),
        "LinkToCustomer": ComponentNotes(
            "Makes another customer id an alias", ["environment": customersEnvironment, "reason": keptReason]),
        "LinkUndo": ComponentNotes(
            "Takes a link back", ["undo": "The position of the link", "reason": keptReason]),
        "TransferRequest": ComponentNotes("Which original transaction goes to whom"),
        "TransferMove": ComponentNotes(
            "Moves an original transaction",
            [
                "to": "The customer who is to have it; the one in the path where it is nobody's",
                "dry_run": "Answers what would be, and records nothing",
                "reason": keptReason,
            ]),
        "TransferUndo": ComponentNotes(
            "Takes a transfer back",
            [
                "undo": "The position of the transfer", "dry_run": "Answers what would be, and records nothing",
                "reason": keptReason,
            ]),
        "GrantRequest": ComponentNotes(
            "An entitlement that is to be given",
            ["until": "Without end where it is left out", "reason": keptReason]),
        "RevokeGrantRequest": ComponentNotes(
            "A grant that is to be taken back", ["reason": keptReason]),
        "PreviewRequest": ComponentNotes("A command that is to be foreseen"),
        "PreviewGrant": ComponentNotes("Foresees a grant", ["grant": "As it would be sent to `actions/grant`"]),
        "PreviewGrantRevocation": ComponentNotes(
            "Foresees the revocation of a grant",
            ["revoke_grant": "As it would be sent to `actions/revoke_grant`"]),
        "PreviewLink": ComponentNotes("Foresees a link", ["link": "As it would be sent to `actions/link`"]),
        "Preview": ComponentNotes(
            "What a command would change",
            ["customers": "Whoever the command names, before and after it", "known_at": "The position it rests on"]),
        "ForgetRequest": ComponentNotes(
            "Who is to be forgotten",
            [
                "dry_run": "Answers what would be erased, and erases nothing",
                "confirm": "The customer's id again; required unless `dry_run` is `true`",
            ]),
        "Forgetting": ComponentNotes(
            "What forgetting somebody erases",
            [
                "identities": "How many ids: of customers, account tokens and app transactions",
                "ids": "Which ids go, the one asked for first, and which stay; left out where something was erased",
                "evidence": "How many pieces",
                "shared_app_transactions": "Ids that stay, because other customers' statements bear them, too",
                "kept_aliases":
                    "Other aliases that stay, because they stand for somebody else in one environment; the links from them are undone",
                "shared_mail_addresses": "Addresses by which nothing is erased, because they are other customers', too",
                "unreadable_evidence":
                    "Pieces that stay and are damaged, so that nobody can say whom they name; `rightful verify` tells of the first",
                "positions": "The events that say so",
            ]),
        "ForgettingMember": ComponentNotes(
            "An id that has to do with the customer",
            [
                "erased": "Whether it goes; what stays is somebody else's, too",
                "leads_to": "Whom it stands for by the links in force; empty where it is no alias",
            ]),
        "ForgettingLead": ComponentNotes("Whom an alias stands for in one environment"),
        "ForgettingCharge": ComponentNotes(
            "A subscription that goes on being charged: nobody can look it up by the customer afterwards",
            ["by": "`app_store` or `stripe`: where it is ended"]),
        "Console": ComponentNotes(
            "Who is signed in to the console", ["session": "`null` where nobody is"]),
        "ConsoleSession": ComponentNotes(
            "A session of the console",
            [
                "token": "What commands bear in the header `Console-Token`",
                "idle_ends_at": "When it ends unless it is used before",
                "ends_at": "When it ends however much it is used",
            ]),
        "ConsoleKey": ComponentNotes(
            "The key that somebody signed in with",
            [
                "scopes": "`admin` is all of them", "environment": "`null`: good for both",
                "app": "`null`: good for every app",
            ]),
        "ConsoleSignInRequest": ComponentNotes("What somebody signs in to the console with"),
        "SignInWithKey": ComponentNotes(
            "Signs in with a key",
            ["key": "A secret key", "path": "Where the service stands behind a proxy; `/` where it is left out"]),
        "SignInByLink": ComponentNotes(
            "Signs in by a link that is good once",
            [
                "link": "What stands behind `#link=`",
                "path": "Where the service stands behind a proxy; `/` where it is left out",
            ]),
        "CustomerTokenRequest": ComponentNotes(
            "What a customer's token is to be like", ["expires_in": "In seconds; 3600 where it is left out"]),
        "ReconcileRequest": ComponentNotes(
            "What a device holds, and holds to be its own",
            [
                "app": "The bundle id; a publishable key names it already",
                "environment": "`auto`: that of what is posted",
                "signed_transactions": "JWS as StoreKit has them", "signed_renewal_infos": "JWS as StoreKit has them",
                "app_transaction": "The JWS of the app transaction", "claims": "What the device believes",
                "facts": "Whether the answer is to hold the facts behind it",
            ]),
        "ReconcileRequestClaim": ComponentNotes(
            "How one product reads on the device",
            [
                "state": "One that the service does not know is passed over",
                "until": "Left out where it is without end, or not known",
            ]),
        "CheckoutRequest": ComponentNotes(
            "What somebody wants to buy on the web",
            [
                "success_url": "An https address: where whoever has paid is sent; as configured where it is left out",
                "cancel_url": "An https address: where whoever has not is sent; as configured where it is left out",
                "external_purchase_token": "What Apple gave the app for a purchase outside of it",
                "buy_again": "Whether it is bought though the customer has it and goes on having it",
                "app_transaction": "The JWS of the app transaction: what proves whose device it is",
            ]),
        "PortalRequest": ComponentNotes(
            "Who wants to look after what they bought on the web",
            ["return_url": "An https address: where the page leads back to; as configured where it is left out"]),
        "OfferSignatureRequest": ComponentNotes(
            "Which promotional offer is to be signed",
            [
                "app_account_token": "A UUID: what the purchase will bear",
                "app": "The bundle id; the key's own, or the only one, where it is left out",
            ]),
        "StoreCheckRequest": ComponentNotes(
            "Which store is to be asked",
            ["app": "The bundle id, for a transaction that the ledger does not know; the only one where it is left out"]
        ),
        "EndpointRequest": ComponentNotes(
            "An endpoint of webhooks that is to be made",
            [
                "url": "Begins with `https://`, and leads to the public internet",
                "types": "Of messages; all where left out",
                "environment": "The key's own where left out, else both",
                "app": "A bundle id; the key's own where left out, else every app",
                "format": "`standard` where left out; or `revenuecat`: RevenueCat's events, in their form",
                "authorization_header": "What is sent as `Authorization`, in the format `revenuecat`",
            ]),
        "EndpointChangeRequest": ComponentNotes(
            "What of an endpoint becomes another",
            [
                "url": "As when it is made; no endpoint is without one, so `null` is refused",
                "types": "`[]` or `null`: all", "environment": "`null`: both",
                "description": "`null`: none",
                "authorization_header": "In the format `revenuecat`; `null`: none is sent",
                "app": "Stays what it is: another one is refused", "format": "Stays what it is: another one is refused",
            ]),
        "SecretRotationRequest": ComponentNotes(
            "How a secret is rotated",
            ["keep_old_seconds": "For how long the old ones sign along; a day where left out, and 0 ends them at once"]),
        "RedeliveryRequest": ComponentNotes("What is to be sent again"),
        "RedeliverPositions": ComponentNotes(
            "What is about positions of the log", ["from": "The first", "to": "The last", "after": afterOfRedelivery]),
        "RedeliverFailed": ComponentNotes("What was given up", ["failed": "`true`", "after": afterOfRedelivery]),
        "RedeliverMessage": ComponentNotes(
            "One message", ["webhook_id": "What receivers know it by", "after": afterOfRedelivery]),
        "RedeliverSpan": ComponentNotes(
            "What there was to tell in a span of time",
            [
                "since": "By the message's `timestamp`", "until": "Without it; now where left out",
                "after": afterOfRedelivery,
            ]),
        "NotificationBody": ComponentNotes("What the App Store posts", ["signedPayload": "A compact JWS"]),
    ]

    static let endpoints: [String: ComponentNotes] = [
        "Endpoint": ComponentNotes(
            "An endpoint of webhooks",
            [
                "url": "`null` where the database has lost it; then nothing is sent", "types": "Of messages; none: all",
                "environment": "`null`: both", "app": "`null`: every app",
                "paused_because":
                    "`ordered`, `unreachable` where it took nothing for three days, or `gone` where it answered that (410)",
                "health": "`failing` where it did not take the last that was sent",
                "failing_since": "`null` where it took the last that was sent",
                "held_until": "Until when nothing is sent, because it asked for that (429, 503)",
                "waiting": "How many deliveries wait",
                "failed": "How many deliveries were given up", "position": "The event that made it",
                "secret": "Told when it is made or rotated, and never again",
                "remarks": "`unknown_member:…`, `unknown_app:…`",
            ]),
        "EndpointStatus": ComponentNotes("Whether anything is sent"),
        "EndpointHealth": ComponentNotes("How it fares"),
        "EndpointList": ComponentNotes(
            "A page of endpoints", ["next_after": "What to send as `after` for the next page"]),
        "EndpointRemoval": ComponentNotes("An endpoint that is told nothing any more"),
        "Redelivery": ComponentNotes(
            "How much is sent again",
            [
                "has_more": "Whether there is more than is taken at once",
                "next_after": "What to send as `after` for the rest",
            ]),
        "Delivery": ComponentNotes(
            "One message to one endpoint, and what came of it",
            [
                "id": "The `webhook-id` it is sent with", "number": "What `after` takes to go on behind it",
                "state": "`waiting`, `delivered`, `failed` or `withdrawn`",
                "next_attempt_at":
                    "`null` where none is to be, another message of the same customer comes first, or the endpoint is paused",
                "status": "The HTTP status of the last answer", "failure": "Why the last attempt failed",
            ]),
        "DeliveryList": ComponentNotes(
            "A page of deliveries", ["next_after": "What to send as `after` for the next page"]),
        "EntitlementsChange": ComponentNotes(
            "That a customer's answer has become another",
            [
                "sequence": "1, 2, 3… for each customer, environment and endpoint",
                "position": "The one that `after` rests on",
                "before": "The whole set; the `after` of the message before", "after": "The whole set",
                "forgotten": "`true` in the last message about a customer who was forgotten",
            ]),
        "EntitlementsChangeCause": ComponentNotes(
            "Why an answer has become another", ["positions": "Of the events", "at": "Of time alone"]),
        "EntitlementsChangeCauseKind": ComponentNotes(
            "An event, a changed catalog or policy, or that something began or ran out"),
        "Conflict": ComponentNotes("That somebody claims what is somebody else's", ["customer_id": "Who claims it"]),
        "EndpointTest": ComponentNotes("Something to try an endpoint with", ["endpoint": "Its id"]),
        "EntitlementsChangedMessage": ComponentNotes("A webhook `entitlements.changed`"),
        "EventRecordedMessage": ComponentNotes("A webhook `event.recorded`"),
        "OwnershipConflictMessage": ComponentNotes("A webhook `ownership.conflict`"),
        "DriftFoundMessage": ComponentNotes("A webhook `drift.found`"),
        "StreamSilentMessage": ComponentNotes("A webhook `stream.silent`"),
        "StreamRecoveredMessage": ComponentNotes("A webhook `stream.recovered`"),
        "TestMessage": ComponentNotes("A webhook `test`"),
        "Streams": ComponentNotes("The stores' streams of notifications"),
        "StreamsItem": ComponentNotes(
            "One app, environment and source",
            [
                "app": "`null` for Stripe's", "source": "`app_store` or `stripe`",
                "silent": "Whether the store has sent something since, as far as can be told",
                "overdue": "How many subscriptions' next event should have been heard of by now",
            ]),
        "StreamsSweep": ComponentNotes(
            "How far the store's own history was read",
            [
                "from": "Where the sweep under way, or the last one, began",
                "completed_until": "Until when everything that the store sent is known",
                "gap": "`null` where there is none, and for the App Store",
            ]),
        "StreamsSweepState": ComponentNotes("Whether a history is being read; `unconfigured`: without credentials"),
        "StreamsSweepGap": ComponentNotes(
            "What Stripe's list of events did not reach back to, while all else is read instead",
            ["read": "How many objects were read by now"]),
        "NotificationReceipt": ComponentNotes(
            "Where a notification stands", ["duplicate": "Whether it was recorded before"]),
        "PassKeySet": ComponentNotes("The public keys that passes are verified with: a JSON Web Key Set"),
        "PassKeySetKey": ComponentNotes("One key on P-256, for ES256 signatures"),
        "Health": ComponentNotes("How the service is", ["status": "`ok`, or `ready`"]),
        "Problem": ComponentNotes(
            "What went wrong, as RFC 9457 says it",
            [
                "code": "What programs look at; it never changes its meaning",
                "param": "The parameter, header field or member that is at fault",
                "retryable": "Whether the same request may succeed later",
                "request_id": "Names the request in the service's log",
            ]),
        "RevenueCatError": ComponentNotes("What went wrong, as RevenueCat's REST API v1 says it"),
        "RevenueCatSubscriber": ComponentNotes("A customer as RevenueCat shows them"),
        "RevenueCatSubscriberBody": ComponentNotes("RevenueCat's `subscriber`"),
        "RevenueCatEntitlementEntry": ComponentNotes("One of `entitlements`"),
        "RevenueCatSubscriptionEntry": ComponentNotes("One of `subscriptions`"),
        "RevenueCatOneTimeEntry": ComponentNotes("One purchase of `non_subscriptions`"),
        "RevenueCatOtherPurchaseEntry": ComponentNotes("One of `other_purchases`"),
        "RevenueCatPrice": ComponentNotes("RevenueCat's `price`"),
        "RevenueCatOwnershipType": ComponentNotes("RevenueCat's `ownership_type`"),
        "RevenueCatPeriodType": ComponentNotes("RevenueCat's `period_type`"),
        "RevenueCatPurchaseStore": ComponentNotes("RevenueCat's `store`"),
    ]
}
