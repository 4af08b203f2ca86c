// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// What each module may import.
///
/// Tests/TidyTests holds the sources to the same arrows.
let modules: [(name: String, imports: [String])] = [
    // Pure: no clock, no I/O; the device links these too.
    ("EntitlementCore", []),
    ("AppStorePayloads", ["EntitlementCore"]),
    ("EntitlementAPI", ["EntitlementCore"]),
    ("EntitlementKit", ["EntitlementAPI", "AppStorePayloads", "EntitlementCore"]),
    // Thin wrappers over C libraries.
    ("OpenSSLCrypto", ["COpenSSL"]),
    ("PostgresClient", ["CLibPQ"]),
    ("HTTPServer", ["CMicroHTTPD"]),
    // The server.
    ("EmbeddedPostgres", ["PostgresClient"]),
    ("AppStoreServer", ["AppStorePayloads", "EntitlementCore", "OpenSSLCrypto"]),
    ("Ledger", ["EntitlementCore", "PostgresClient", "OpenSSLCrypto", "Schema"]),
    (
        "Service",
        ["Ledger", "AppStoreServer", "EntitlementAPI", "AppStorePayloads", "EntitlementCore", "HTTPServer"]
    ),
    // A simulated App Store, which never links the fold.
    ("StoreSimulator", ["OpenSSLCrypto", "HTTPServer"]),
]

let executables: [(name: String, imports: [String])] = [
    (
        "rightful",
        [
            "Service", "Ledger", "AppStoreServer", "EntitlementAPI", "AppStorePayloads", "EntitlementCore",
            "HTTPServer", "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto",
        ]
    ),
    ("store-simulator", ["StoreSimulator", "OpenSSLCrypto"]),
    (
        "rightful-bench",
        [
            "Ledger", "AppStoreServer", "EntitlementCore", "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto",
            "StoreSimulator",
        ]
    ),
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
    "0010_access",
    "0011_grant_serving_role",
]

/// What a module's tests import beside the module's own imports.
let alsoTestedWith: [String: [String]] = [
    "EntitlementKit": ["OpenSSLCrypto"],
    "Ledger": ["TestSupport", "EmbeddedPostgres", "ledger-worker"],
    "Service": ["TestSupport", "EmbeddedPostgres", "PostgresClient", "OpenSSLCrypto", "StoreSimulator"],
]
let testedTogether = ["TidyTests", "EndToEndTests"]

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
        // The SQL files themselves, inside the binary: nothing is read from disk at run time.
        .target(
            name: "Schema", path: "schema", sources: ["Schema.swift"],
            resources: migrations.map { .embedInCode("\($0).sql") }, swiftSettings: settings),
    ]
        + modules.map { module in
            .target(name: module.name, dependencies: dependencies(module.imports), swiftSettings: settings)
        }
        + executables.map { executable in
            .executableTarget(
                name: executable.name, dependencies: dependencies(executable.imports), swiftSettings: settings)
        }
        + modules.map { module in
            .testTarget(
                name: module.name + "Tests",
                dependencies: dependencies(
                    Set(
                        [module.name] + module.imports.filter { !$0.hasPrefix("C") }
                            + (alsoTestedWith[module.name] ?? [])
                    )
                    .sorted()),
                swiftSettings: settings)
        }
        + [
            // Shared by the tests, and a process of its own to be killed by them.
            .target(
                name: "TestSupport",
                dependencies: dependencies([
                    "EntitlementCore", "Ledger", "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto",
                ]),
                path: "Tests/TestSupport", swiftSettings: settings),
            .executableTarget(
                name: "ledger-worker",
                dependencies: dependencies(["TestSupport", "EntitlementCore", "Ledger", "PostgresClient"]),
                path: "Tests/LedgerWorker", swiftSettings: settings),
        ]
        + testedTogether.map { name in
            .testTarget(
                name: name,
                dependencies: dependencies(
                    name == "TidyTests"
                        ? ["Schema"]
                        : modules.map(\.name) + executables.map(\.name) + ["TestSupport"]),
                swiftSettings: settings)
        },
    swiftLanguageModes: [.v6]
)
