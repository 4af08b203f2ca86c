import EntitlementCore
import Service
import Testing

@testable import rightful

@Suite("Configuration")
struct ConfigurationTests {
    private static func read(
        _ file: String? = nil, flags: [ConfigurationKey: String] = [:], environment: [String: String] = [:],
        isRoot: Bool = false
    ) throws -> Configuration {
        try Configuration(
            ConfigurationInput(
                flags: flags, environment: environment,
                file: file.map { (path: "/etc/rightful/config.json", content: Array($0.utf8)) }, isRoot: isRoot))
    }

    @Test("without any input everything has its default")
    func defaults() throws {
        let configuration = try Self.read()
        #expect(configuration.listen == ListenAddress(host: "127.0.0.1", port: 8080))
        #expect(configuration.dataDirectory == ".rightful")
        #expect(configuration.rootCertificates == [.apple])
        #expect(configuration.apps.isEmpty && configuration.passKeys.isEmpty && configuration.trustedProxies.isEmpty)
        #expect(configuration.rateLimits == RateLimits())
        guard case .embedded = configuration.database else {
            Issue.record("the database is not the embedded one")
            return
        }
        #expect(try Self.read(isRoot: true).dataDirectory == "/var/lib/rightful")
        #expect(configuration.notices.contains { $0.contains("unknown_app") })
    }

    @Test("a flag is stronger than a variable, a variable than the file, the file than the default")
    func precedence() throws {
        let file = #"{"listen": "127.0.0.1:1"}"#
        let variable = ["RIGHTFUL_LISTEN": "127.0.0.1:2"]
        let byFile = try Self.read(file)
        #expect(byFile.listen.port == 1)
        #expect(byFile.sources[.listen] == .file("/etc/rightful/config.json"))
        let byVariable = try Self.read(file, environment: variable)
        #expect(byVariable.listen.port == 2)
        #expect(byVariable.sources[.listen] == .variable("RIGHTFUL_LISTEN"))
        let byFlag = try Self.read(file, flags: [.listen: "127.0.0.1:3"], environment: variable)
        #expect(byFlag.listen.port == 3)
        #expect(byFlag.sources[.listen] == .flag("--listen"))
    }

    @Test(
        "a name that stands twice in one object of the file is refused by name",
        arguments: [
            ("webhooks", #"{"webhooks": {"enabled": true}, "listen": "127.0.0.1:1", "webhooks": {"enabled": false}}"#),
            ("apps[0].bundle_id", #"{"apps": [{"bundle_id": "com.example.a", "bundle_id": "com.example.b"}]}"#),
        ])
    func repeatedName(_ name: String, _ file: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try Self.read(file) }
        let text = error?.description ?? ""
        #expect(text.hasPrefix("configuration: \(name) (") && text.hasSuffix("is there twice"), "\(text)")
    }

    @Test(
        "the directory of a path is found for the shortest ones, too",
        arguments: [
            ("f", "."), (".", ".."), ("a/", "."), ("/", "/"), ("/f", "/"), ("//f/", "/"), ("a/b", "a"),
            ("/a//b/", "/a"), ("a/b/c", "a/b"), ("/é ü/%41", "/é ü"),
        ])
    func parentDirectory(_ path: String, _ directory: String) { #expect(path.parentDirectory == directory) }

    @Test("an empty variable counts as unset, an empty flag does not")
    func emptiness() throws {
        #expect(try Self.read(environment: ["RIGHTFUL_LISTEN": ""]).listen.port == 8080)
        #expect(throws: ConfigurationError.self) { try Self.read(flags: [.listen: ""]) }
    }

    @Test("an app, its environments and its access to the Server API are read")
    func apps() throws {
        let configuration = try Self.read(
            """
            {"apps": [{"bundle_id": "com.example.app", "app_apple_id": 123,
                       "app_store_api": {"issuer_id": "i", "key_id": "k", "private_key_path": "keys/api.p8",
                                         "base_url": "https://store.example/"},
                       "consumption_information": {"customer_consented": true, "sample_content_provided": false,
                                                   "refund_preference": "GRANT_PRORATED",
                                                   "consumables_delivered": true}},
                      {"bundle_id": "com.example.beta", "environments": ["sandbox"], "link_on_login": false,
                       "app_transaction_proof": "unlinked_only", "app_transaction_max_age_days": 90}],
             "root_certificates": ["apple", "root.pem", "/roots/other.der"],
             "pass_keys": [{"key_id": "p1", "private_key_path": "/keys/p1.pem", "not_before": "2026-01-01T00:00:00Z"}],
             "trusted_proxies": ["10.0.0.0/8", "::1"]}
            """)
        #expect(configuration.apps[0].environments == [.production, .sandbox])
        #expect(configuration.apps[0].appAppleID == 123)
        #expect(configuration.apps[0].appStoreAPI?.privateKeyPath == "/etc/rightful/keys/api.p8")
        #expect(configuration.apps[0].appStoreAPI?.baseURL == "https://store.example")
        #expect(
            configuration.apps[0].consumption
                == ConsumptionPolicy(
                    sampleContentProvided: false, refundPreference: .grantProrated, deliversConsumables: true))
        #expect(configuration.apps[1].consumption == nil)
        #expect(configuration.apps[1].environments == [.sandbox])
        #expect(configuration.apps[0].trust == DeviceTrust())
        let beta = DeviceTrust(
            linksOnLogin: false, appTransactionProof: .unlinkedOnly, appTransactionMaxAge: 90 * 86_400_000)
        #expect(configuration.apps[1].trust == beta)
        #expect(configuration.apps.deviceTrust["com.example.beta", .sandbox] == beta)
        #expect(configuration.apps.deviceTrust["com.example.beta", .production] == DeviceTrust())
        let shown = configuration.report.first { $0.key == "apps" }?.value
        #expect(
            shown?.hasSuffix(
                "com.example.beta (sandbox, no links on login, proof unlinked_only, app transactions of 90 days)")
                == true)
        #expect(
            configuration.rootCertificates == [.apple, .file("/etc/rightful/root.pem"), .file("/roots/other.der")])
        #expect(configuration.passKeys[0].notBefore == Timestamp(rfc3339: "2026-01-01T00:00:00Z"))
        #expect(configuration.notices.contains { $0.contains("com.example.beta has no app_store_api") })
    }

    @Test(
        "what is told of refund requests needs the customers' consent, in so many words, and access to the store",
        arguments: [
            (#"{}"#, "customer_consented", "is missing"),
            (#"{"customer_consented": false, "sample_content_provided": false}"#, "customer_consented", "must be true"),
            (
                #"{"customer_consented": "yes", "sample_content_provided": false}"#, "customer_consented",
                "true or false"
            ),
            (#"{"customer_consented": true}"#, "sample_content_provided", "is missing"),
            (
                #"{"customer_consented": true, "sample_content_provided": false, "refund_preference": "decline"}"#,
                "refund_preference", "DECLINE, GRANT_FULL, GRANT_PRORATED"
            ),
            (
                #"{"customer_consented": true, "sample_content_provided": false, "platform": 1}"#, "platform",
                "known key"
            ),
            (#"{"customer_consented": true, "sample_content_provided": false}"#, "", "needs app_store_api"),
        ])
    func consumption(member: String, key: String, problem: String) {
        let access =
            key.isEmpty ? "" : #", "app_store_api": {"issuer_id": "i", "key_id": "k", "private_key_path": "p"}"#
        let error = #expect(throws: ConfigurationError.self) {
            _ = try Self.read(
                #"{"apps": [{"bundle_id": "b", "app_apple_id": 1\#(access), "consumption_information": \#(member)}]}"#)
        }
        let named = "apps[0].consumption_information" + (key.isEmpty ? "" : ".\(key)")
        let text = error.map { "\($0)" } ?? ""
        #expect(text.contains(named) && text.contains(problem), "\(text)")
    }

    @Test(
        "what is unknown or wrong is refused, and the key is named",
        arguments: [
            (#"{"lisen": "127.0.0.1:1"}"#, "lisen"),
            (#"{"listen": 8080}"#, "listen"),
            (#"{"listen": "8080"}"#, "listen"),
            (#"{"listen": "127.0.0.1:65536"}"#, "listen"),
            (#"{"listen": "::1:80"}"#, "listen"),
            (#"{"apps": {}}"#, "apps"),
            (#"{"apps": [{}]}"#, "apps[0].bundle_id"),
            (#"{"apps": [{"bundle_id": "b", "app_apple_id": 1, "enviroments": []}]}"#, "apps[0].enviroments"),
            (#"{"apps": [{"bundle_id": "b"}]}"#, "apps[0].app_apple_id"),
            (#"{"apps": [{"bundle_id": "b", "environments": ["production"]}]}"#, "apps[0].app_apple_id"),
            (#"{"apps": [{"bundle_id": "b", "app_apple_id": "1"}]}"#, "apps[0].app_apple_id"),
            (#"{"apps": [{"bundle_id": "b", "environments": ["xcode"]}]}"#, "apps[0].environments[0]"),
            (#"{"apps": [{"bundle_id": "b", "environments": []}]}"#, "apps[0].environments"),
            (
                #"{"apps": [{"bundle_id": "b", "app_apple_id": 1}, {"bundle_id": "b", "app_apple_id": 2}]}"#,
                "apps[1].bundle_id"
            ),
            (
                #"{"apps": [{"bundle_id": "b", "app_apple_id": 1, "environments": ["production"]}, "#
                    + #"{"bundle_id": "b", "environments": ["sandbox"], "#
                    + #""app_store_api": {"issuer_id": "i", "key_id": "k", "private_key_path": "p"}}]}"#,
                "apps[1].bundle_id"
            ),
            (
                #"{"apps": [{"bundle_id": "b", "app_apple_id": 1, "app_store_api": {"issuer_id": "i"}}]}"#,
                "apps[0].app_store_api.key_id"
            ),
            (#"{"apps": [{"bundle_id": "b", "app_apple_id": 1, "link_on_login": 1}]}"#, "apps[0].link_on_login"),
            (
                #"{"apps": [{"bundle_id": "b", "app_apple_id": 1, "app_transaction_proof": "maybe"}]}"#,
                "apps[0].app_transaction_proof"
            ),
            (
                #"{"apps": [{"bundle_id": "b", "app_apple_id": 1, "app_transaction_max_age_days": 0}]}"#,
                "apps[0].app_transaction_max_age_days"
            ),
            (
                #"{"apps": [{"bundle_id": "b", "app_apple_id": 1, "app_transaction_max_age_days": 3651}]}"#,
                "apps[0].app_transaction_max_age_days"
            ),
            (#"{"root_certificates": []}"#, "root_certificates"),
            (#"{"pass_keys": [{"key_id": "k"}]}"#, "pass_keys[0].private_key_path"),
            (
                #"{"pass_keys": [{"key_id": "k", "private_key_path": "a"}, {"key_id": "k", "private_key_path": "b"}]}"#,
                "pass_keys[1].key_id"
            ),
            (#"{"pass_ttl": 59}"#, "pass_ttl"), (#"{"pass_ttl": 2592001}"#, "pass_ttl"),
            (#"{"pass_ttl": 90.5}"#, "pass_ttl"), (#"{"pass_ttl": "3600"}"#, "pass_ttl"),
            (#"{"log_origin": "with space"}"#, "log_origin"), (#"{"log_origin": "a+b"}"#, "log_origin"),
            (#"{"log_origin": ""}"#, "log_origin"), (#"{"checkpoint_dir": 5}"#, "checkpoint_dir"),
            (#"{"trusted_proxies": ["10.0.0.0/33"]}"#, "trusted_proxies[0]"),
            (#"{"trusted_proxies": ["proxy.example"]}"#, "trusted_proxies[0]"),
            (#"{"webhooks": true}"#, "webhooks"), (#"{"webhooks": {"seconds": 1}}"#, "webhooks.seconds"),
            (#"{"webhooks": {"enabled": 0}}"#, "webhooks.enabled"),
            (#"{"webhooks": {"attempt_seconds": 0}}"#, "webhooks.attempt_seconds"),
            (#"{"webhooks": {"attempt_seconds": 61}}"#, "webhooks.attempt_seconds"),
            (#"{"webhooks": {"attempt_seconds": 1.5}}"#, "webhooks.attempt_seconds"),
            (#"{"rate_limits": 5}"#, "rate_limits"),
            (#"{"rate_limits": {"address_per_minute": 5}}"#, "rate_limits.address_per_minute"),
            (#"{"rate_limits": {"address_burst": 0}}"#, "rate_limits.address_burst"),
            (#"{"rate_limits": {"key_per_second": 0.5}}"#, "rate_limits.key_per_second"),
            (#"{"rate_limits": {"key_burst": 1000000001}}"#, "rate_limits.key_burst"),
            (#"{"database_url": "db.example"}"#, "database_url"),
            (#"{"migrate_database_url": "postgresql://owner@db/x"}"#, "migrate_database_url"),
        ])
    func refusals(file: String, key: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try Self.read(file) }
        let text = error?.description ?? ""
        #expect(text.hasPrefix("configuration: \(key) (file /etc/rightful/config.json): "), "\(text)")
    }

    @Test("a pass lives a day unless something else is said, in seconds from a minute to thirty days")
    func passTTL() throws {
        #expect(try Self.read().passTTL == .seconds(86_400))
        let variable = ["RIGHTFUL_PASS_TTL": "3600"]
        #expect(try Self.read(#"{"pass_ttl": 60}"#).passTTL == .seconds(60))
        #expect(try Self.read(#"{"pass_ttl": 2592000}"#).passTTL == .seconds(2_592_000))
        let configuration = try Self.read(#"{"pass_ttl": 60}"#, environment: variable)
        #expect(configuration.passTTL == .seconds(3600))
        let line = configuration.report.first { $0.key == "pass_ttl" }
        #expect(line?.value == "3600" && line?.source == "variable RIGHTFUL_PASS_TTL")
        for text in ["59", "2592001", "-60", "3600s", "1e3", "99999999999999999999"] {
            let error = #expect(throws: ConfigurationError.self, "\(text)") {
                try Self.read(environment: ["RIGHTFUL_PASS_TTL": text])
            }
            #expect(error?.description.hasPrefix("configuration: pass_ttl (variable RIGHTFUL_PASS_TTL): ") == true)
        }
    }

    @Test("the log is named as configured, its key and checkpoints lie where the file says, relative to the file")
    func log() throws {
        let nothing = try Self.read()
        #expect(nothing.logOrigin == nil && nothing.logKeyPath == nil && nothing.checkpointDirectory == nil)
        let configuration = try Self.read(
            #"""
            {"log_origin": "example.com/ledger", "log_key_path": "log.pem", "checkpoint_dir": "/var/checkpoints",
             "token_key_path": "tokens"}
            """#)
        #expect(nothing.tokenKeyPath == nil && configuration.tokenKeyPath == "/etc/rightful/tokens")
        #expect(configuration.logOrigin == "example.com/ledger")
        #expect(configuration.logKeyPath == "/etc/rightful/log.pem")
        #expect(configuration.checkpointDirectory == "/var/checkpoints")
        #expect(configuration.report.first { $0.key == "log_origin" }?.value == "example.com/ledger")
    }

    @Test("answers take 256 MiB of memory unless something else is said; 0 keeps none")
    func answerMemory() throws {
        #expect(try Self.read().answerMemoryMiB == 256)
        #expect(try Self.read(environment: ["RIGHTFUL_ANSWER_MEMORY_MIB": "0"]).answerMemoryMiB == 0)
        #expect(try Self.read(#"{"answer_memory_mib": 1024}"#).answerMemoryMiB == 1024)
        #expect(try Self.read(#"{"answer_memory_mib": 0}"#).answerMemoryMiB == 0)
        for text in ["-1", "1.5", "64M", "1048577"] {
            let error = #expect(throws: ConfigurationError.self, "\(text)") {
                try Self.read(environment: ["RIGHTFUL_ANSWER_MEMORY_MIB": text])
            }
            #expect(error?.description.contains("a whole number of MiB from 0 to 1048576") == true)
        }
    }

    @Test("endpoints of webhooks are public and have 15 s for an answer unless something else is said")
    func webhooks() throws {
        func shown(_ configuration: Configuration) -> String? {
            configuration.report.first { $0.key == "webhooks" }?.value
        }
        let preset = try Self.read()
        #expect(preset.webhookAttempt == .seconds(15) && !preset.allowsPrivateWebhooks)
        #expect(shown(preset) == "public addresses by https, 15 s for an answer")
        let set = try Self.read(#"{"webhooks": {"attempt_seconds": 60, "allow_private_addresses": true}}"#)
        #expect(set.webhookAttempt == .seconds(60) && set.allowsPrivateWebhooks)
        #expect(shown(set) == "private addresses and plain http, 60 s for an answer")
    }

    @Test("webhooks are sent unless it is said that they are not, and then that is said at start")
    func sending() throws {
        for file in [nil, #"{"webhooks": {"enabled": true}}"#] {
            let configuration = try Self.read(file)
            #expect(configuration.sendsWebhooks)
            #expect(!configuration.notices.contains { $0.contains("webhooks.enabled") })
        }
        let off = try Self.read(#"{"webhooks": {"enabled": false}}"#)
        #expect(!off.sendsWebhooks && off.webhookAttempt == .seconds(15))
        #expect(off.notices.contains { $0.contains("webhooks.enabled is false") })
        let shown = off.report.first { $0.key == "webhooks" }?.value
        #expect(shown == "nothing is sent; public addresses by https, 15 s for an answer")
    }

    @Test("without pass keys an embedded database has one made, and an external one is told that there are no passes")
    func withoutPassKeys() throws {
        let external = ["DATABASE_URL": "postgresql://serve@db.example/ledger"]
        func saysSo(_ configuration: Configuration) -> Bool {
            configuration.notices.contains { $0.contains("pass_keys") }
        }
        #expect(!saysSo(try Self.read()))
        #expect(try Self.read().report.first { $0.key == "pass_keys" }?.value.contains("data directory") == true)
        #expect(saysSo(try Self.read(environment: external)))
        #expect(
            !saysSo(
                try Self.read(
                    #"{"pass_keys": [{"key_id": "k", "private_key_path": "k.pem"}]}"#, environment: external)))
    }

    @Test("each of the rate limits can be set by itself, those of keys for both kinds")
    func rateLimits() throws {
        let limits = try Self.read(#"{"rate_limits": {"address_burst": 7, "key_per_second": 9}}"#)
        #expect(limits.rateLimits.address == RateLimit(perSecond: 50, burst: 7))
        #expect(limits.rateLimits.secretKey == RateLimit(perSecond: 9, burst: 200_000))
        #expect(limits.rateLimits.publishableKey == RateLimit(perSecond: 9, burst: 20_000))
        let shown = limits.report.first { $0.key == "rate_limits" }?.value
        #expect(
            shown == "client address 50/s, burst 7; secret key 9/s, burst 200000; publishable key 9/s, burst 20000")
    }

    @Test(
        "a file that is no JSON object is refused by its path, and by the line where it stops being one",
        arguments: [
            (" \n", "is empty"), ("{", "ends before"), ("[]", "must hold a JSON object"),
            ("\"text\"", "must hold a JSON object"),
            ("{\n  // of ours\n}", "line 2"), ("{\"listen\": \"a\"\n\n} x", "line 3"),
        ])
    func brokenFiles(file: String, problem: String) {
        let error = #expect(throws: ConfigurationError.self) { try Self.read(file) }
        let text = error?.description ?? ""
        #expect(text.contains("/etc/rightful/config.json: ") && text.contains(problem), "\(text)")
    }

    @Test("passwords show neither in the report nor in an error nor in a dump")
    func secrets() throws {
        let url = "postgresql://serve:hunter2@db.example:5433/ledger?sslpassword=hunter2"
        let configuration = try Self.read(
            environment: ["DATABASE_URL": url, "RIGHTFUL_MIGRATE_DATABASE_URL": "host=db password=hunter2"])
        let report = configuration.report
        #expect(report.first { $0.key == "database_url" }?.value == "postgresql://serve:***@db.example:5433/ledger")
        #expect(report.allSatisfy { !$0.value.contains("hunter2") })
        var dumped = ""
        dump(configuration, to: &dumped)
        #expect(!dumped.contains("hunter2") && !"\(configuration)".contains("hunter2"))
        let error = #expect(throws: ConfigurationError.self) {
            try Self.read(environment: ["DATABASE_URL": "hunter2"])
        }
        #expect(error?.description.contains("hunter2") == false)
        guard case .external(let secret, _) = configuration.database else {
            Issue.record("the database is not the one of the variable")
            return
        }
        #expect(secret.reveal() == url)
    }

    @Test("a misspelt variable is pointed out, but does not stop the service")
    func unknownVariables() throws {
        let notices = try Self.read(environment: ["RIGHTFUL_LISTN": "x", "HOME": "/root"]).notices
        #expect(notices.filter { $0.contains("RIGHTFUL_LISTN") }.count == 1)
        #expect(!notices.contains { $0.contains("HOME") })
    }

    @Test("listen addresses are read and written", arguments: ["127.0.0.1:0", "[::1]:8080", "localhost:65535"])
    func listenAddresses(text: String) {
        #expect(ListenAddress(text)?.description == text)
    }

    @Test("network ranges hold what they say")
    func networkRanges() throws {
        let wide = try #require(NetworkRange("10.0.0.0/8"))
        #expect(wide.contains("10.255.0.1") && wide.contains("::ffff:10.1.2.3"))
        #expect(!wide.contains("11.0.0.1") && !wide.contains("::1") && !wide.contains("frog"))
        let odd = try #require(NetworkRange("192.168.1.128/25"))
        #expect(odd.contains("192.168.1.200") && !odd.contains("192.168.1.127"))
        let six = try #require(NetworkRange("fd00::/8"))
        #expect(six.contains("fd12::1") && !six.contains("fe80::1"))
        #expect(try #require(NetworkRange("0.0.0.0/0")).contains("8.8.8.8"))
        #expect(NetworkRange("10.0.0.0/-1") == nil && NetworkRange("10.0.0.0/8/8") == nil)
    }
}
