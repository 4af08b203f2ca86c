package import EntitlementCore

/// The store's streams of notifications: the answer of `GET /v1/streams`.
package struct StreamsDocument: Codable, Hashable, Sendable, NamedDocument {
    /// How far the store's own history was read.
    package struct Sweep: Codable, Hashable, Sendable {
        package enum State: String, Codable, Hashable, Sendable, CaseIterable {
            case idle, running, failed
            /// The app has no credentials for the store's API.
            case unconfigured
        }

        /// What Stripe's list of events did not reach back to, while everything that the account holds is read instead.
        package struct Gap: Codable, Hashable, Sendable {
            /// Up to here everything is known; `null`: nothing from before is.
            @Nullable package private(set) var from: Timestamp?
            package let until: Timestamp
            /// How many objects were read by now.
            package let read: Int64
            @Nullable package private(set) var lastError: String?

            package init(from: Timestamp?, until: Timestamp, read: Int64, lastError: String?) {
                self.until = until
                self.read = read
                _from = Nullable(wrappedValue: from)
                _lastError = Nullable(wrappedValue: lastError)
            }

            private enum CodingKeys: String, CodingKey {
                case from, until, read
                case lastError = "last_error"
            }
        }

        package let state: State
        /// Where the sweep under way, or the last one, began.
        @Nullable package private(set) var from: Timestamp?
        /// Until when everything that the store sent is known.
        @Nullable package private(set) var completedUntil: Timestamp?
        @Nullable package private(set) var completedAt: Timestamp?
        @Nullable package private(set) var lastError: String?
        /// `null` where there is none, and for the App Store.
        @Nullable package private(set) var gap: Gap?

        package init(
            _ state: State, from: Timestamp? = nil, completedUntil: Timestamp? = nil, completedAt: Timestamp? = nil,
            lastError: String? = nil, gap: Gap? = nil
        ) {
            _gap = Nullable(wrappedValue: gap)
            self.state = state
            _from = Nullable(wrappedValue: from)
            _completedUntil = Nullable(wrappedValue: completedUntil)
            _completedAt = Nullable(wrappedValue: completedAt)
            _lastError = Nullable(wrappedValue: lastError)
        }

        private enum CodingKeys: String, CodingKey {
            case state, from, gap
            case completedUntil = "completed_until"
            case completedAt = "completed_at"
            case lastError = "last_error"
        }
    }

    /// One app, environment and source.
    package struct Item: Codable, Hashable, Sendable {
        /// `null` for what is of no app: Stripe's.
        @Nullable package private(set) var app: String?
        package let environment: StoreEnvironment
        /// `app_store` or `stripe`.
        package let source: String
        /// `null` where nothing was ever delivered.
        @Nullable package private(set) var lastHeardAt: Timestamp?
        /// Whether the store has sent something since, as far as can be told.
        package let silent: Bool
        /// How many subscriptions' next event should have been heard of by now.
        package let overdue: Int64
        /// When the first of these events took place.
        @Nullable package private(set) var oldestOverdueAt: Timestamp?
        package let sweep: Sweep

        package init(
            app: String?, environment: StoreEnvironment, source: String = "app_store", lastHeardAt: Timestamp?,
            silent: Bool, overdue: Int64,
            oldestOverdueAt: Timestamp?, sweep: Sweep
        ) {
            _app = Nullable(wrappedValue: app)
            self.source = source
            self.environment = environment
            self.silent = silent
            self.overdue = overdue
            self.sweep = sweep
            _lastHeardAt = Nullable(wrappedValue: lastHeardAt)
            _oldestOverdueAt = Nullable(wrappedValue: oldestOverdueAt)
        }

        private enum CodingKeys: String, CodingKey {
            case app, environment, source, silent, overdue, sweep
            case lastHeardAt = "last_heard_at"
            case oldestOverdueAt = "oldest_overdue_at"
        }
    }

    package static let objectName = "list"
    package private(set) var object = Self.objectName
    package let items: [Item]

    package init(_ items: [Item]) { self.items = items }
}
