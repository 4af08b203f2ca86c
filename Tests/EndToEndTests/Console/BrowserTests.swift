import Testing

/// What the tests of the console do it with.
@Suite("The browser of the tests", .serialized, .timeLimit(.minutes(1)))
struct BrowserTests {
    @Test("one that has quit has no process any more")
    func quit() async throws {
        let browser = try await Browser.start()
        #expect(try browser.processes() > 0)
        await browser.quit()
        while try browser.processes() > 0 { try await Task.sleep(for: .milliseconds(20)) }
    }
}
