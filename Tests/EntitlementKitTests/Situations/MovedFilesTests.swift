import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: an update of the app that keeps its files elsewhere", .timeLimit(.minutes(1)))
struct MovedFilesTests {
    private let names = DiskState.File.allCases.map(\.rawValue)

    private func withDirectories(_ body: (_ former: URL, _ new: URL) async throws -> Void) async throws {
        let parent = FileManager.default.temporaryDirectory.appendingPathComponent("moved-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: parent) }
        let former = parent.appendingPathComponent("former")
        try FileManager.default.createDirectory(at: former, withIntermediateDirectories: true)
        try await body(former, parent.appendingPathComponent("new"))
    }

    private func write(_ text: String, _ name: String, to directory: URL) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try Data(text.utf8).write(to: directory.appendingPathComponent(name))
    }

    private func read(_ name: String, _ storage: FileEntitlementStorage) async throws -> String? {
        try await storage.read(name).data.map { String(decoding: $0, as: UTF8.self) }
    }

    private func files(_ directory: URL) throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: directory.path)).subtracting(["lock"])
    }

    @Test("what was known is known after the files moved to an App Group, without a network")
    func known() async throws {
        try await withDirectories { former, new in
            let rig = KitRig(server: {
                $0.numbers["apple:A"] = 1
                $0.grants = [.forever("premium", of: 1)]
            })
            let before = rig.store(in: FileEntitlementStorage(directory: former))
            #expect(await before.refresh().givesAccess(to: "premium"))
            await before.settled()
            await before.stop()
            rig.server.edit { $0.mood = .unreachable }
            let after = rig.store(in: FileEntitlementStorage(directory: new, movingFrom: former))
            await after.start()
            await after.settled()
            #expect(await after.current.givesAccess(to: "premium"))
            let left = try files(former)
            #expect(left.isEmpty)
            await after.stop()
        }
    }

    @Test("the store that an app makes finds what a version without an App Group kept, and says where it looks")
    func ofApp() async throws {
        try await withDirectories { _, new in
            let bundleID = "com.example.moved-\(UUID().uuidString)"
            let own = FileEntitlementStorage.standardDirectory(bundleID: bundleID)
            defer { try? FileManager.default.removeItem(at: own) }
            let before = FileEntitlementStorage.ofApp(bundleID, directory: nil)
            _ = try await before.save(.replace(Data("kept".utf8)), as: names[0], over: .nothing)
            #expect(try files(own) == [names[0]])
            #expect(try await read(names[0], .ofApp(bundleID, directory: new)) == "kept")
            #expect(try files(own) == [])
            let notebook = LogNotebook()
            let rig = KitRig(configuration: { $0.logger = notebook })
            await rig.store.logPlace(nil)
            await rig.store.logPlace(new)
            #expect(
                notebook.lines == [
                    "info storage: files are kept in the app's own place, where no extension finds them",
                    "info storage: files are kept in the directory that the app gave",
                ])
        }
    }

    @Test("a move that a crash ended in the middle is brought to its end")
    func crashed() async throws {
        try await withDirectories { former, new in
            for name in names { try write("old " + name, name, to: former) }
            try FileManager.default.createDirectory(at: new, withIntermediateDirectories: true)
            try FileManager.default.moveItem(
                at: former.appendingPathComponent(names[0]), to: new.appendingPathComponent(names[0]))
            let storage = FileEntitlementStorage(directory: new, movingFrom: former)
            for name in names { #expect(try await read(name, storage) == "old " + name) }
            #expect(try files(new) == Set(names))
            #expect(try files(former).isEmpty)
        }
    }

    @Test("a directory that there is nothing for is not made")
    func nothing() async throws {
        try await withDirectories { former, new in
            let empty = FileEntitlementStorage(directory: new, movingFrom: former)
            let version = try await empty.version(of: names[0])
            #expect(version == .nothing)
            #expect(!FileManager.default.fileExists(atPath: new.path))
        }
    }

    @Test("files that lie in both places are joined, and of what there is once the directory's own word stands")
    func ownFiles() async throws {
        try await withDirectories { former, new in
            let (statements, identity) = (DiskState.File.statements.rawValue, DiskState.File.identity.rawValue)
            let (server, clock) = (DiskState.File.server.rawValue, DiskState.File.clock.rawValue)
            try write("one\ntwo", statements, to: former)
            try write("three\n", statements, to: new)
            try write(#"{"customerID":"ann","purchases":[1,2]}"#, identity, to: former)
            try write(#"{"purchases":[2,3]}"#, identity, to: new)
            try write("{\"never", server, to: former)
            try write("{}", server, to: new)
            try write("{}", clock, to: former)
            try write("{\"never", clock, to: new)
            let storage = FileEntitlementStorage(directory: new, movingFrom: former)
            for _ in 0..<2 {
                #expect(try await read(statements, storage) == "one\ntwo\nthree\n")
                // Somebody may have logged out here.
                #expect(try await read(identity, storage) == #"{"purchases":[1,2,3]}"#)
                #expect(try await read(server, storage) == "{}")
                #expect(try await read(clock, storage) == "{}")
            }
            #expect(try files(former) == [server + ".unreadable"])
        }
    }

    @Test("an extension that writes before the app was launched once takes nothing away from it")
    func extensionFirst() async throws {
        try await withDirectories { former, new in
            let payer = Payer { _ in .completed }
            let rig = KitRig.web(payer)
            let before = rig.store(in: FileEntitlementStorage(directory: former))
            await before.identify(customerID: "ann", token: "t")
            let report = await rig.whileTimePasses(afterPageOf: payer) {
                await before.purchase("monthly", via: .web)
            }
            #expect(report.outcome == .pending)
            await before.settled()
            await before.stop()
            let nowhere = former.deletingLastPathComponent().appendingPathComponent("nowhere")
            let other = rig.store(in: FileEntitlementStorage(directory: new, movingFrom: nowhere))
            await other.refresh()
            await other.settled()
            let written = try files(new)
            #expect(written.contains(names[0]))
            let after = rig.store(in: FileEntitlementStorage(directory: new, movingFrom: former))
            await after.start()
            await after.settled()
            #expect(await after.current.customerID == "ann")
            #expect(await after.unfinishedCheckouts().count == 1)
            let left = try files(former)
            #expect(left.isEmpty)
            for store in [other, after] { await store.stop() }
        }
    }

    @Test("files that cannot be moved now are used where they are, and moved as soon as they can be")
    func notNow() async throws {
        try await withDirectories { former, new in
            try write("old", names[0], to: former)
            // Where a file of that name lies no directory can be made.
            try Data().write(to: new)
            let storage = FileEntitlementStorage(directory: new, movingFrom: former)
            let kept = try await storage.read(names[0])
            #expect(kept.data == Data("old".utf8))
            #expect(await storage.failureToMove != nil)
            let version = try await storage.save(.append(Data("er".utf8)), as: names[0], over: kept.version)
            #expect(try await storage.save(.replace(Data("first".utf8)), as: names[1], over: .nothing) != nil)
            await storage.setAside(names[1])
            #expect(try files(former) == [names[0], names[1] + ".unreadable"])
            try FileManager.default.removeItem(at: new)
            let next = try #require(version)
            #expect(try await storage.save(.replace(Data("new".utf8)), as: names[0], over: next) != nil)
            #expect(try await read(names[0], storage) == "new")
            #expect(try files(new) == [names[0]])
            #expect(await storage.failureToMove == nil)
        }
    }

    @Test(
        "who is known goes on being known where the files cannot be moved, and the log says why",
        arguments: [true, false])
    func lockedOut(isAway: Bool) async throws {
        try await withDirectories { former, new in
            let notebook = LogNotebook()
            let rig = KitRig(server: {
                $0.numbers["apple:A"] = 1
                $0.grants = [.forever("premium", of: 1)]
            }) {
                $0.logger = notebook
            }
            let before = rig.store(in: FileEntitlementStorage(directory: former))
            #expect(await before.refresh().givesAccess(to: "premium"))
            await before.settled()
            await before.stop()
            try Data().write(to: new)
            if isAway { rig.server.edit { $0.mood = .unreachable } }
            rig.device.edit { $0.current = [Statements.transaction("5", product: "lifetime", until: nil)] }
            let after = rig.store(in: FileEntitlementStorage(directory: new, movingFrom: former))
            await after.start()
            await after.settled()
            #expect(await after.current.givesAccess(to: "premium"))
            #expect(await after.current.givesAccess(to: "forever"))
            let isTold = notebook.lines.contains {
                $0.hasPrefix("error storage: files could not be moved, and are used where they were: ")
            }
            #expect(isTold)
            // The disk has room again.
            try FileManager.default.removeItem(at: new)
            await after.refresh()
            await after.settled()
            #expect(await after.current.givesAccess(to: "premium"))
            #expect(try files(former).isEmpty)
            await after.stop()
        }
    }
}

extension KitRig {
    /// A store on other files than the simulated ones.
    fileprivate func store(in storage: FileEntitlementStorage) -> EntitlementStore {
        EntitlementStore(configuration: configuration, store: device, server: server, storage: storage, clock: clock)
    }
}
