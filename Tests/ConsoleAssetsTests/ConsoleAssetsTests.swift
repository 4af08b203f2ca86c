import Foundation
import Testing

@testable import ConsoleAssets

/// The files of the console's page, before anybody opens it.
@Suite("The files of the console")
struct ConsoleAssetsTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().appending(path: "../../Sources/ConsoleAssets/files").standardizedFileURL

    private static func text(_ asset: ConsoleAsset) -> String { String(decoding: asset.bytes, as: UTF8.self) }

    @Test("the binary carries every file of the folder, byte for byte, each with its type")
    func files() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path())
        #expect(Set(ConsoleAssets.all.map(\.name)) == Set(names))
        #expect(ConsoleAssets.all.count == names.count)
        for asset in ConsoleAssets.all {
            let bytes = try Data(contentsOf: Self.folder.appending(path: asset.name))
            let isSame = Data(asset.bytes) == bytes
            #expect(isSame, "\(asset.name)")
            #expect(!asset.contentType.hasPrefix("text/plain"), "\(asset.name)")
        }
        #expect(ConsoleAssets.page.contentType.hasPrefix("text/html"))
    }

    private static let scripts = Dictionary(
        uniqueKeysWithValues: ConsoleAssets.all.filter { $0.name.hasSuffix(".js") }.map { ($0.name, text($0)) })

    /// What the first module needs, and what these do; with what is imported later only where that is asked for.
    private static func reached(andLater: Bool) throws -> Set<String> {
        var reached: Set<String> = []
        var waiting = ["main.js"]
        while let name = waiting.popLast() {
            guard reached.insert(name).inserted else { continue }
            let text = try #require(scripts[name], "\(name) is imported and not there")
            waiting += text.matches(of: /(?:from|import) "\.\/([a-z]+\.js)"/).map { String($0.1) }
            if andLater { waiting += text.matches(of: /import\("\.\/([a-z]+\.js)"\)/).map { String($0.1) } }
        }
        return reached
    }

    @Test("the page with a customer on it weighs less than its limit, and no file has more than 400 lines")
    func weight() throws {
        // What is no part of the answer comes after it, and is of the page all the same.
        let scripts = try Self.reached(andLater: false).union(["why.js", "commands.js"])
        let later: Set = ["screens.css"]
        let page = ConsoleAssets.all.filter {
            $0.name.hasSuffix(".js") ? scripts.contains($0.name) : !later.contains($0.name)
        }
        #expect(page.reduce(0) { $0 + $1.bytes.count } < ConsoleAssets.weightLimit)
        for asset in ConsoleAssets.all {
            #expect(
                Self.text(asset).split(separator: "\n", omittingEmptySubsequences: false).count <= 400, "\(asset.name)")
        }
    }

    @Test("nothing becomes markup or program from a text, and nothing is asked of another host")
    func safety() {
        let banned = [
            "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setTimeout(\"",
            ".srcdoc", "http://", "https://", "javascript:", "DOMParser",
        ]
        // What names a language of markup, and is asked of nobody.
        let names = ["http://www.w3.org/2000/svg"]
        for asset in ConsoleAssets.all {
            let text = names.reduce(Self.text(asset)) { $0.replacingOccurrences(of: $1, with: "") }
            for word in banned { #expect(!text.contains(word), "\(asset.name) has \(word)") }
        }
    }

    @Test("the page has neither scripts nor styles within it, and every address in it is relative")
    func page() throws {
        let page = ConsoleAssets.page.bytes
        let html = String(decoding: page, as: UTF8.self)
        #expect(!html.contains("<style") && !html.contains("style=") && !html.contains(" on"))
        for script in html.matches(of: /<script([^>]*)>([^<]*)</) {
            #expect(script.1.contains("src=") && script.2.isEmpty)
        }
        let names = Set(ConsoleAssets.all.map(\.name))
        for address in html.matches(of: /(?:src|href)="([^"]*)"/) {
            let name = address.1.split(separator: "/").last.map(String.init) ?? ""
            #expect(address.1 == "console/assets/\(name)" && names.contains(name), "\(address.1)")
        }
    }

    @Test("every module that one imports is there, and all of them are reached from the first")
    func modules() throws {
        #expect(try Self.reached(andLater: true) == Set(Self.scripts.keys))
    }

    @Test("the page asks at once for every module that a customer needs, so that none is found out about later")
    func preloads() throws {
        let page = ConsoleAssets.page
        let preloaded = Self.text(page).matches(of: /rel="modulepreload" href="console\/assets\/([a-z]+\.js)"/)
        #expect(Set(preloaded.map { String($0.1) } + ["early.js", "main.js"]) == (try Self.reached(andLater: false)))
    }

    @Test("texts for people stand in two files: elsewhere no quoted text is a sentence")
    func words() {
        for asset in ConsoleAssets.all where asset.name.hasSuffix(".js") && !asset.name.hasSuffix("words.js") {
            for line in Self.text(asset).split(separator: "\n") where !line.drop(while: { $0 == " " }).hasPrefix("//") {
                for quoted in line.matches(of: /"([^"]*)"/) {
                    let isSentence = quoted.1.contains(/[A-Z][a-z]+ [a-z]+ [a-z]+/)
                    #expect(!isSentence, "\(asset.name): \(quoted.1)")
                }
            }
        }
    }
}
