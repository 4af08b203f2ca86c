// swift-tools-version: 6.0
import PackageDescription

// For Xcode 16, which cannot read Package.swift: the device's library alone, without warnings as errors. Newer tools read
// Package.swift, and TidyTests compares the two.

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

let package = Package(
    name: "rightful",
    platforms: [.iOS(.v16), .macOS(.v13), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [.library(name: "EntitlementKit", targets: ["EntitlementKit"])],
    targets: [
        .target(name: "EntitlementCore", swiftSettings: settings),
        .target(name: "AppStorePayloads", dependencies: ["EntitlementCore"], swiftSettings: settings),
        .target(name: "EntitlementAPI", dependencies: ["EntitlementCore"], swiftSettings: settings),
        .target(
            name: "EntitlementKit", dependencies: ["EntitlementAPI", "AppStorePayloads", "EntitlementCore"],
            resources: [.copy("PrivacyInfo.xcprivacy")], swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
