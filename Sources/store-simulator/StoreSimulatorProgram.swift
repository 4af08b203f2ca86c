import Foundation
import Glibc
import StoreSimulator

/// The program: plays a simulated App Store against a running service.
@main
struct StoreSimulatorProgram {
    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
            exit(0)
        } catch let error as SimulatorUsageError {
            complain("\(error.description); see `store-simulator --help`")
            exit(2)
        } catch {
            complain("\(error)")
            exit(1)
        }
    }

    private static func run(_ words: [String]) async throws {
        guard let command = words.first else { throw SimulatorUsageError("no command is given") }
        var arguments = try Arguments(Array(words.dropFirst()))
        switch command {
        case "--help", "help":
            say(help)
        case "authority":
            let directory = try arguments.required("--data")
            try arguments.end()
            try say(DemoDirectory(directory).makeAuthority())
        case "catalog":
            let isWeb = arguments.flag("--web")
            try arguments.end()
            let world = isWeb ? StoreWorld.standardOnWeb : DemoStory.world
            try say(String(decoding: world.catalogFile.encoded(), as: UTF8.self))
        case "demo":
            let directory = DemoDirectory(try arguments.required("--data"))
            let demo = DemoCommand(
                directory: directory, store: try StoreClient(&arguments),
                shop: try arguments.optional("--stripe").map { try DemoShop(directory, url: $0) })
            try arguments.end()
            try await demo.run(now: currentMilliseconds())
        case "device":
            let device = DeviceCommand(
                directory: DemoDirectory(try arguments.required("--data")), name: try arguments.required("--customer"))
            try arguments.end()
            try device.run(now: currentMilliseconds())
        case "play":
            let play = try PlayCommand(&arguments)
            try arguments.end()
            try await play.run()
        case "serve":
            let serve = try ServeStoreCommand(&arguments)
            try arguments.end()
            try await serve.run()
        case "stripe":
            let stripe = try StripeCommand(&arguments)
            try arguments.end()
            try await stripe.run()
        default:
            throw SimulatorUsageError("there is no command '\(command)'")
        }
    }

    private static func complain(_ text: String) {
        let line = text.split(whereSeparator: \.isNewline).joined(separator: " ")
        try? FileHandle.standardError.write(contentsOf: Data("store-simulator: \(line)\n".utf8))
    }

    static func currentMilliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    private static let help = """
        store-simulator: a simulated App Store, with a certificate authority of its own, and a simulated Stripe.

        Usage: store-simulator COMMAND [OPTIONS]

          authority --data DIR   make the certificate authority, and print the path of the root to trust
          catalog [--web]        print the catalog of the simulated app; with --web also how Stripe sells it
          demo --data DIR --url URL [--api-key-file FILE] [--stripe URL]
                                 play a few customers' lives, once, and show what each is entitled to
                                 --stripe: one more has bought on the web, of the simulated Stripe that `stripe` serves
                                 there from the same DIR, in production; what is bought there next is delivered, too
          device --data DIR --customer NAME
                                 print what the device of somebody of the demo posts to be reconciled
          play --data DIR --url URL [--seed N] [--customers M] [--delivery STYLE]
                                 play lives made up at random
                                 STYLE: in_order, shuffled, duplicated, delayed, chaotic or lossy
          serve --data DIR [--port N] [--sandbox-port M] [--seed N] [--customers M] [--faults PERCENT]
                [--url URL] [--days-ago B] [--speed S] [--outage-days D] [--delivery STYLE]
                                 serve the App Store Server API on this machine until Ctrl-C, about lives that lead up
                                 to the first start and go on, with a tester in the sandbox who is renewed every five
                                 minutes for an hour a day; and print the entry of the app for the configuration
                                 Ports: 8085 and 8086; 0 takes a free one
                                 PERCENT: of the requests are answered badly
                                 URL: what the store sends is delivered there, when it sends it; what fails is tried
                                 again after 1, 12, 24, 48 and 72 hours, in the sandbox not at all
                                 B: so many days ago the store's clock begins, once everything before is delivered
                                 (D); S: it runs so many times faster (10080: a week in a minute, 1 to 1000000) until
                                 it has caught up, and is never ahead
                                 D: so many of the clock's first days nothing gets through (0)
          stripe --data DIR [--environment E] [--port N] [--url URL] [--period-minutes M] [--faults PERCENT]
                                 serve a Stripe account on this machine until Ctrl-C: its API, and pages on
                                 which somebody pays for checkouts of the service, cancels, lets the card be refused, is
                                 refunded; and print its entry in `stripe` of the configuration
                                 E: sandbox, which is Stripe's test mode, or production
                                 N: 8087; 0 takes a free port
                                 URL: the service's address; signed webhooks are delivered there, and again after failures;
                                 where it is not given, to the endpoint that POST /v1/webhook_endpoints makes
                                 M: what is sold by the month or year is renewed after so many minutes (0: in earnest)
                                 Nothing that was bought outlives the command

        DIR holds the authority's keys, which `authority` makes, and Stripe's, which `stripe` makes. Whoever trusts its root believes everything it signs: for tests only.
        """
}

/// Prints a line at once, also when nobody watches a terminal.
func say(_ line: String) {
    try? FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))
}
