/// A file of the console's page, byte for byte as it stands in the repository.
package struct ConsoleAsset: Sendable {
    package let name: String
    /// As HTTP says it.
    package let contentType: String
    package let bytes: [UInt8]

    fileprivate init(_ name: String, _ bytes: [UInt8]) {
        self.name = name
        self.bytes = bytes
        let types = ["html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"]
        let ending = name.split(separator: ".").last.map(String.init) ?? ""
        contentType = "\(types[ending] ?? "text/plain"); charset=utf-8"
    }
}

/// The page of the console: no tool makes it, and nothing of it is read from disk at run time.
package enum ConsoleAssets {
    /// The page itself; it asks for the others.
    package static let page = ConsoleAsset("index.html", PackageResources.index_html)
    /// The most that the page weighs with a customer on it, in bytes; what other screens need comes when they are opened.
    package static let weightLimit = 150_000

    package static let all: [ConsoleAsset] = [
        page,
        ConsoleAsset("console.css", PackageResources.console_css),
        ConsoleAsset("screens.css", PackageResources.screens_css),
        ConsoleAsset("icon.svg", PackageResources.icon_svg),
        ConsoleAsset("main.js", PackageResources.main_js),
        ConsoleAsset("early.js", PackageResources.early_js),
        ConsoleAsset("api.js", PackageResources.api_js),
        ConsoleAsset("words.js", PackageResources.words_js),
        ConsoleAsset("dom.js", PackageResources.dom_js),
        ConsoleAsset("time.js", PackageResources.time_js),
        ConsoleAsset("address.js", PackageResources.address_js),
        ConsoleAsset("find.js", PackageResources.find_js),
        ConsoleAsset("signin.js", PackageResources.signin_js),
        ConsoleAsset("look.js", PackageResources.look_js),
        ConsoleAsset("customer.js", PackageResources.customer_js),
        ConsoleAsset("said.js", PackageResources.said_js),
        ConsoleAsset("sentence.js", PackageResources.sentence_js),
        ConsoleAsset("picture.js", PackageResources.picture_js),
        ConsoleAsset("sliders.js", PackageResources.sliders_js),
        ConsoleAsset("why.js", PackageResources.why_js),
        ConsoleAsset("event.js", PackageResources.event_js),
        ConsoleAsset("proof.js", PackageResources.proof_js),
        ConsoleAsset("attention.js", PackageResources.attention_js),
        ConsoleAsset("lanes.js", PackageResources.lanes_js),
        ConsoleAsset("history.js", PackageResources.history_js),
        ConsoleAsset("commands.js", PackageResources.commands_js),
        ConsoleAsset("steps.js", PackageResources.steps_js),
        ConsoleAsset("saving.js", PackageResources.saving_js),
        ConsoleAsset("forms.js", PackageResources.forms_js),
        ConsoleAsset("overview.js", PackageResources.overview_js),
        ConsoleAsset("charts.js", PackageResources.charts_js),
        ConsoleAsset("bars.js", PackageResources.bars_js),
        ConsoleAsset("catalog.js", PackageResources.catalog_js),
        ConsoleAsset("screenwords.js", PackageResources.screenwords_js),
    ]
}
