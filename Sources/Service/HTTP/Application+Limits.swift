import AppStoreServer
import StripePayloads

extension Application {
    /// What bounds the service's work.
    package struct Limits: Sendable {
        /// How long a read waits for `min_position`.
        package var positionWait = Duration.seconds(5)
        /// How long a readiness probe waits for the database; one that hangs is as good as away.
        package var readinessWait = Duration.seconds(3)
        /// How long the metrics wait for the database, once for the key and once for the head of the log: what the process
        /// counts by itself is told all the same.
        package var metricsWait = Duration.milliseconds(800)
        /// How long the answer to a readiness probe holds for others that come after it.
        package var readinessLifetime = Duration.milliseconds(500)
        /// How long a long history may take to be explained; and how long to make an export of what was read, and to write it.
        package var explanationTime = Duration.seconds(8)
        /// How long a catalog is tried at a time; less than the server's deadline for a handler.
        package var catalogTrial = Duration.seconds(6)
        /// How long everything that names somebody who is to be forgotten is looked for; less than the server's deadline
        /// for a handler.
        package var forgettingSearch = Duration.seconds(6)
        /// How long the store may take to answer a check; less than the server's deadline for a handler.
        package var storePatience = Duration.seconds(8)
        /// How long a list of products waits for prices that were never read.
        package var pricePatience = Duration.seconds(3)
        /// How long a key stays recognised without asking the database: the longest a revocation takes to bite.
        package var keyLifetime = Duration.seconds(5)
        /// What the answers kept in memory for reads and launches may take, in bytes.
        package var answerCacheBytes = 256 << 20
        /// How many requests whoever sends them may send.
        package var rates = RateLimits()
        /// The largest body of a notification, in bytes: no larger than the largest JWS that is looked at, so that what
        /// is too large is always told so.
        package var notificationBytes = UnverifiedJWS.maximumLength
        /// The largest body of a webhook of Stripe's, in bytes.
        package var webhookBytes = StripeEvent.byteLimit
        /// The largest catalog, in bytes of JSON.
        package var catalogBytes = 4 << 20
        /// The largest body of a reconciliation, in bytes: some 600 signed transactions.
        package var reconcileBytes = 4 << 20
        /// The largest body of a checkout or portal, in bytes: an app transaction, and some more.
        package var checkoutBytes = 64 << 10
        /// The largest body of any other request, in bytes: of a command, or of what reads none.
        package var otherBytes = 16 << 10

        package init() {}
    }
}
