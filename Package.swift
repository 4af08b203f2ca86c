// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// The modules that deploy/test has optimised: those that tests spend most time in, and few lines beside the rest.
///
/// Not in every build, because no app could depend on a package with such flags, and they would be harder to debug.
let optimized: Set<String> =
    Context.environment["RIGHTFUL_TEST_BUILD"] == nil
    ? [] : ["EntitlementCore", "AppStorePayloads", "OpenSSLCrypto", "PostgresClient"]

/// A module of this package and what its sources may import.
///
/// This is the only place that says so. The compiler is given the modules of the package; TidyTests reads this list and
/// holds the sources to both kinds; `Synchronization` is for all that the device does not link.
struct Module {
    let name: String
    /// Modules of this package.
    let imports: [String]
    /// Modules that come with the system or the toolchain.
    let system: [String]

    init(_ name: String, imports: [String] = [], system: [String] = []) {
        (self.name, self.imports, self.system) = (name, imports, system)
    }
}

let modules = [
    // Pure: no clock, no I/O; the device links these too.
    Module("EntitlementCore"),
    Module("AppStorePayloads", imports: ["EntitlementCore"], system: ["Foundation"]),
    // Reads JSON, and refers to people, with what AppStorePayloads has for that; the server alone links it.
    Module(
        "StripePayloads", imports: ["AppStorePayloads", "EntitlementCore", "OpenSSLCrypto"], system: ["Foundation"]),
    Module("EntitlementAPI", imports: ["EntitlementCore"], system: ["Foundation"]),
    Module(
        "EntitlementKit", imports: ["EntitlementAPI", "AppStorePayloads", "EntitlementCore"],
        system: [
            "Foundation", "FoundationNetworking", "Combine", "CoreFoundation", "CryptoKit", "Dispatch", "Network",
            "Observation", "Security", "StoreKit", "SwiftUI", "os",
        ]),
    // What JSON the contract's types are, found out from the types; not for the device.
    Module("APIDescription", imports: ["EntitlementAPI", "EntitlementCore"]),
    // RevenueCat's documents, made from the ledger's facts; pure, and the server alone links it.
    Module("RevenueCatAPI", imports: ["EntitlementAPI", "EntitlementCore"]),
    // Thin wrappers over C libraries.
    Module("OpenSSLCrypto", imports: ["COpenSSL"]),
    Module("PostgresClient", imports: ["CLibPQ"], system: ["Dispatch", "Glibc"]),
    Module("HTTPServer", imports: ["CMicroHTTPD"], system: ["Dispatch", "Glibc"]),
    Module("Zstandard", imports: ["CZstd"]),
    // The server.
    Module("EmbeddedPostgres", imports: ["PostgresClient"], system: ["Foundation", "Glibc"]),
    // Requests to other servers, with a limit to everything.
    Module("OutgoingHTTP", imports: ["CCurl"], system: ["Foundation"]),
    Module(
        "AppStoreServer", imports: ["AppStorePayloads", "EntitlementCore", "OpenSSLCrypto", "OutgoingHTTP"],
        system: ["Foundation"]),
    Module(
        "StripeAPI", imports: ["AppStorePayloads", "StripePayloads", "EntitlementCore", "OutgoingHTTP"],
        system: ["Foundation"]),
    Module("Ledger", imports: ["EntitlementCore", "PostgresClient", "OpenSSLCrypto", "Schema", "Zstandard"]),
    // The page of the console: HTML, CSS and JavaScript, inside the binary.
    Module("ConsoleAssets", imports: ["CConsoleFiles"]),
    Module(
        "Service",
        imports: [
            "ConsoleAssets", "Ledger", "AppStoreServer", "APIDescription", "EntitlementAPI", "RevenueCatAPI",
            "AppStorePayloads",
            "StripePayloads", "StripeAPI", "EntitlementCore", "HTTPServer", "OpenSSLCrypto", "OutgoingHTTP",
        ], system: ["Dispatch", "Foundation", "Glibc"]),
    // Random numbers that are the same everywhere for one seed, for the simulator and the tests.
    Module("SeededRandom"),
    // A simulated App Store and a simulated Stripe, which never link decoder or fold.
    Module("StoreSimulator", imports: ["HTTPServer", "OpenSSLCrypto", "SeededRandom"], system: ["Foundation"]),
]

let executables = [
    Module(
        "rightful",
        imports: [
            "Service", "Ledger", "AppStoreServer", "StripeAPI", "EntitlementAPI", "EntitlementCore", "HTTPServer",
            "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto", "OutgoingHTTP", "AppStorePayloads",
        ], system: ["Dispatch", "Foundation", "Glibc"]),
    Module(
        "store-simulator", imports: ["StoreSimulator", "HTTPServer", "OpenSSLCrypto"],
        system: ["Foundation", "FoundationNetworking", "Glibc"]),
    Module(
        "rightful-bench",
        imports: [
            "Ledger", "AppStoreServer", "EntitlementCore", "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto",
            "HTTPServer", "StoreSimulator", "SeededRandom",
        ], system: ["Dispatch", "Foundation", "Glibc"]),
]

/// The files of schema/, in the order in which they are applied.
let migrations = [
    "0001_schema_migration",
    "0002_ledger_head",
    "0003_event",
    "0004_event_name",
    "0005_append_only",
    "0006_evidence",
    "0007_identity",
    "0008_original_view",
    "0009_projection",
    "0010_tree_node",
    "0011_access",
    "0012_store_api",
    "0013_drift",
    "0014_answer_watch",
    "0015_webhook",
    "0016_grant_serving_role",
]

/// The files that the binary carries, by their module.
let embeddedFiles = ["Ledger": ["Log/evidence-1.dictionary"]]

/// What lies beside a module's own code and is no part of it for the compiler of Swift: CConsoleFiles reads it.
let excludedFiles = ["ConsoleAssets": ["files"]]

/// The files beside the modules' own code, in their bundles.
let bundledFiles = [
    // What Apple wants to know of what the library does with people's data.
    "EntitlementKit": ["PrivacyInfo.xcprivacy"]
]

/// What a module's tests import beside the module and its own imports; all may import SeededRandom.
let alsoTestedWith: [String: [String]] = [
    "AppStoreServer": ["StoreSimulator", "HTTPServer"],
    "EmbeddedPostgres": ["TestSupport"],
    "EntitlementKit": ["OpenSSLCrypto", "AppStoreServer", "StoreSimulator"],
    "Ledger": ["TestSupport", "EmbeddedPostgres", "ledger-worker"],
    "OutgoingHTTP": ["TestSupport"],
    "RevenueCatAPI": ["TestSupport"],
    "StripeAPI": ["TestSupport"],
    "Service": ["TestSupport", "EmbeddedPostgres", "PostgresClient", "StoreSimulator"],
]

func dependencies(_ names: [String]) -> [Target.Dependency] { names.map { .byName(name: $0) } }

let package = Package(
    name: "rightful",
    // What the device links asks for no more than this; the server runs on Linux.
    platforms: [.iOS(.v16), .macOS(.v13), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [.library(name: "EntitlementKit", targets: ["EntitlementKit"])],
    targets: [
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CMicroHTTPD", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        // The files of the console by C's #embed: as arrays in Swift, which .embedInCode makes of them, they take the
        // compiler half a minute.
        .target(name: "CConsoleFiles"),
        // The SQL files themselves, inside the binary: nothing is read from disk at run time.
        .target(
            name: "Schema", path: "schema", sources: ["Schema.swift"],
            resources: migrations.map { .embedInCode("\($0).sql") }, swiftSettings: settings),
    ]
        + modules.map { module in
            .target(
                name: module.name, dependencies: dependencies(module.imports),
                exclude: excludedFiles[module.name] ?? [],
                resources: (embeddedFiles[module.name] ?? []).map { .embedInCode($0) }
                    + (bundledFiles[module.name] ?? []).map { .copy($0) },
                swiftSettings: settings
                    + (optimized.contains(module.name) ? [.unsafeFlags(["-O"], .when(configuration: .debug))] : []))
        }
        + executables.map { executable in
            .executableTarget(
                name: executable.name, dependencies: dependencies(executable.imports), swiftSettings: settings)
        }
        + modules.filter { $0.name != "SeededRandom" }.map { module in
            .testTarget(
                name: module.name + "Tests",
                dependencies: dependencies(
                    Set(
                        [module.name, "SeededRandom"] + module.imports.filter { !$0.hasPrefix("C") }
                            + (alsoTestedWith[module.name] ?? [])
                    )
                    .sorted()),
                swiftSettings: settings)
        }
        + [
            .testTarget(
                name: "RightfulTests",
                dependencies: dependencies([
                    "rightful", "Service", "Ledger", "PostgresClient", "EntitlementCore", "TestSupport",
                ]),
                swiftSettings: settings),
            // The repository's own rules.
            .testTarget(name: "TidyTests", dependencies: dependencies(["Schema"]), swiftSettings: settings),
            .testTarget(
                name: "EndToEndTests",
                dependencies: dependencies(
                    modules.map(\.name) + executables.map(\.name) + ["TestSupport", "FuzzTargets"]),
                swiftSettings: settings),
            // Shared by the tests, and a process of its own to be killed by them.
            .target(
                name: "TestSupport",
                dependencies: dependencies([
                    "EntitlementCore", "Ledger", "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto", "SeededRandom",
                ]),
                path: "Tests/TestSupport", swiftSettings: settings),
            .executableTarget(
                name: "ledger-worker",
                dependencies: dependencies([
                    "TestSupport", "EntitlementCore", "Ledger", "PostgresClient", "SeededRandom",
                ]),
                path: "Tests/LedgerWorker", swiftSettings: settings),
            // What reads bytes of strangers, each with what must hold.
            .target(
                name: "FuzzTargets",
                dependencies: dependencies([
                    "EntitlementCore", "AppStorePayloads", "StripePayloads", "AppStoreServer", "EntitlementAPI",
                    "Ledger", "Service", "HTTPServer", "OpenSSLCrypto", "StoreSimulator", "SeededRandom",
                ]),
                path: "Tests/FuzzTargets", swiftSettings: settings),
            .testTarget(
                name: "FuzzTests", dependencies: dependencies(["FuzzTargets", "SeededRandom"]),
                swiftSettings: settings),
        ]
        // Needs libFuzzer, which is linked with the sanitizer alone: see deploy/test --fuzz.
        + (Context.environment["RIGHTFUL_FUZZER"] == nil
            ? []
            : [
                .executableTarget(
                    name: "rightful-fuzz", dependencies: dependencies(["FuzzTargets"]), path: "Tests/Fuzzer",
                    swiftSettings: settings + [.enableExperimentalFeature("Extern")])
            ]),
    swiftLanguageModes: [.v6]
)
