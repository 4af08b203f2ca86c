import EntitlementAPI

// What the routes of endpoints, of stores and of the service itself take and answer.
extension APIOperation {
    static let createEndpoint = APIOperation(
        "createWebhookEndpoint", .endpoints, "Make an endpoint",
        "An endpoint that is [told of changes](webhooks.md). `secret` is told this once. Without `types` it is told of everything, "
            + "without `environment` of both, without `app` of every app; with a bound key, of the key's own.",
        [.idempotencyKey],
        body: Body(
            EndpointRequest.self,
            #"{"url":"https://example.com/rightful","types":["entitlements.changed"],"environment":"production"}"#),
        answer: .document(EndpointDocument.self, Example.endpoint(secret: true)), codes: [.notFound, .unprocessable])

    static let listEndpoints = APIOperation(
        "listWebhookEndpoints", .endpoints, "List endpoints", "The endpoints and how they fare.", [.after, .limit],
        answer: .document(ListDocument<EndpointDocument>.self, Example.endpoints), headers: [], codes: [.notFound])

    static let readEndpoint = APIOperation(
        "readWebhookEndpoint", .endpoints, "Read an endpoint", "One endpoint and how it fares.", [.endpoint],
        answer: .document(EndpointDocument.self, Example.endpoint()), headers: [], codes: [.notFound])

    static let changeEndpoint = APIOperation(
        "changeWebhookEndpoint", .endpoints, "Change an endpoint",
        "What is left out stays as it is; `null` takes away what may be missing. It keeps its id, secret and sequences, and what "
            + "waits goes to the new address at once. `app` and `format` stay what they were made with.",
        [.endpoint, .idempotencyKey],
        body: Body(EndpointChangeRequest.self, #"{"url":"https://example.com/webhooks/rightful"}"#),
        answer: .document(EndpointDocument.self, Example.endpoint()), codes: [.notFound, .unprocessable])

    static let deleteEndpoint = APIOperation(
        "deleteWebhookEndpoint", .endpoints, "Delete an endpoint", "Nothing is sent to it any more.",
        [.endpoint, .idempotencyKey],
        answer: .document(
            EndpointRemovalDocument.self, #"{"object":"webhook_endpoint","id":"we_1","deleted":true,"position":31}"#),
        codes: [.notFound])

    static let listDeliveries = APIOperation(
        "listWebhookDeliveries", .endpoints, "List deliveries",
        "What was sent to it and what came of that, without the bodies.", [.endpoint, .after, .limit, .deliveryState],
        answer: .document(ListDocument<DeliveryDocument>.self, Example.deliveries), headers: [], codes: [.notFound])

    static let rotateEndpointSecret = APIOperation(
        "rotateWebhookSecret", .endpoints, "Rotate the secret",
        "Another secret, told this once; the one before signs along for a day, or as long as `keep_old_seconds` says.",
        [.endpoint, .idempotencyKey],
        body: Body(SecretRotationRequest.self, #"{"keep_old_seconds":0}"#, isRequired: false),
        answer: .document(EndpointDocument.self, Example.endpoint(secret: true)), codes: [.notFound, .unprocessable])

    static let pauseEndpoint = APIOperation(
        "pauseWebhookEndpoint", .endpoints, "Pause an endpoint", "Messages wait until it is resumed.",
        [.endpoint, .idempotencyKey],
        answer: .document(EndpointDocument.self, Example.endpoint()), codes: [.notFound])

    static let resumeEndpoint = APIOperation(
        "resumeWebhookEndpoint", .endpoints, "Resume an endpoint", "Goes on where it was.",
        [.endpoint, .idempotencyKey],
        answer: .document(EndpointDocument.self, Example.endpoint()), codes: [.notFound])

    static let testEndpoint = APIOperation(
        "testWebhookEndpoint", .endpoints, "Test an endpoint",
        "Sends a message `test`, at once; a paused endpoint is refused. The answer comes before the first attempt: what became of it "
            + "is read under [deliveries](#list-deliveries).",
        [.endpoint, .idempotencyKey],
        answer: .document(DeliveryDocument.self, Example.testDelivery), headers: [], codes: [.notFound, .unprocessable])

    static let redeliver = APIOperation(
        "redeliverWebhooks", .endpoints, "Send again",
        "What is about positions of the log, what was given up, one message, or what there was to tell in a span of time; at most "
            + "10,000 messages at once: `next_after` leads on.", [.endpoint, .idempotencyKey],
        body: Body(RedeliveryRequest.self, #"{"from":120,"to":180}"#),
        answer: .document(
            RedeliveryDocument.self,
            #"{"object":"redelivery","endpoint":"we_1","deliveries":12,"has_more":false,"next_after":null}"#),
        headers: [], codes: [.notFound, .unprocessable])

    // MARK: - What stores send

    static let receiveAppStoreNotification = APIOperation(
        "receiveAppStoreNotification", .stores, "Take a notification of the App Store's",
        "The App Store Server Notifications V2, by their signature; `429` is for forgers ([limits](operating.md#limits)). The "
            + "answer comes when it is recorded.",
        body: Body(
            NotificationBody.self, #"{"signedPayload":"eyJhbGciOiJFUzI1NiIsIng1YyI6W10…"}"#,
            limit: { $0.notificationBytes }),
        answer: .document(NotificationReceipt.self, #"{"position":15,"duplicate":false}"#),
        codes: [.malformedJWS, .untrustedSignature, .unknownApp, .wrongEnvironment, .inconsistentPayload])

    static let receiveStripeEvent = APIOperation(
        "receiveStripeEvent", .stores, "Take a webhook of Stripe's",
        "An [event of Stripe's](web-checkout.md#webhooks), by its signature. The answer comes when it is recorded.",
        [.stripeSignature],
        body: Body(
            foreign: "Stripe's `Event`, byte for byte as it was signed",
            #"{"id":"evt_1","object":"event","type":"invoice.paid"}"#, limit: { $0.webhookBytes }),
        answer: .document(NotificationReceipt.self, #"{"position":16,"duplicate":false}"#),
        codes: [.untrustedSignature, .unknownApp, .wrongEnvironment, .inconsistentPayload])

    static let listStreams = APIOperation(
        "listStreams", .stores, "List streams",
        "Whether the store's notifications [arrive](operating.md#when-the-store-falls-silent), and how far its history was "
            + "read: for each configured app and environment, and each environment of Stripe's.",
        answer: .document(StreamsDocument.self, Example.streams), headers: [])

    // MARK: - The service

    static let readDescription = APIOperation(
        "readDescription", .service, "Read this description", "OpenAPI 3.1 of all of this.", [.ifNoneMatch],
        answer: .foreign("An OpenAPI document", #"{"openapi":"3.1.0"}"#), headers: [.entityTag])

    static let readPassKeys = APIOperation(
        "readPassKeys", .service, "Read the keys of passes",
        "The public keys of [passes](#passes), as a JSON Web Key Set that may be kept for five minutes.",
        [.ifNoneMatch],
        answer: .document(
            PassKeySetDocument.self,
            """
            {"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
             "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","kid":"pass-2027","alg":"ES256","use":"sig"}]}
            """), headers: [.entityTag])

    static let readLogKey = APIOperation(
        "readLogKey", .service, "Read the log's key", "What checks the signature of a checkpoint, for anybody.",
        answer: .texts([
            "text/plain":
                "rightful/5f0f6a1e-0000-4000-8000-000000000001+1f2e3d4c+ARp7Xm0l2n4o6q8s0u2w4y6A8C0E2G4I6K8M0O2Q4S6U\n"
        ]),
        headers: [])

    static let readMetrics = APIOperation(
        "readMetrics", .service, "Read the metrics",
        "Prometheus text; it answers when the database is away, and says so.",
        answer: .texts(["text/plain": "rightful_database_up 1\n"]), headers: [])

    static let readHealth = APIOperation(
        "readHealth", .service, "Is it alive", "The process is there and answers.",
        answer: .document(HealthDocument.self, #"{"status":"ok"}"#), headers: [])

    static let readReadiness = APIOperation(
        "readReadiness", .service, "Is it ready",
        "The database is up, its schema is this program's, the log can be read, and there is a connection that appends; else "
            + "`unavailable` (503), and `detail` says why.",
        answer: .document(HealthDocument.self, #"{"status":"ready"}"#))
}
