import Foundation
import Testing

@testable import Service

/// The page about HTTP, which `deploy/render-docs` renders.
@Suite("The page about HTTP")
struct HTTPPageTests {
    @Test("docs/http.md is what the description renders to: deploy/render-docs writes it")
    func page() throws {
        let page = try String(contentsOf: HTTPPage.file, encoding: .utf8)
        let rendered = try HTTPPage().rendered(over: page)
        guard ProcessInfo.processInfo.environment["RIGHTFUL_RENDER_DOCS"] == nil else {
            try Data(rendered.utf8).write(to: HTTPPage.file)
            return
        }
        let differing = zip(
            page.split(separator: "\n", omittingEmptySubsequences: false),
            rendered.split(separator: "\n", omittingEmptySubsequences: false)
        ).first { $0 != $1 }
        let isRendered = page == rendered
        #expect(isRendered, "run deploy/render-docs: «\(differing?.0 ?? "")» is to be «\(differing?.1 ?? "")»")
    }
}
