import EntitlementCore
import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// A running service with a ledger that holds many worlds, and the keys of those who ask it.
struct OwnershipService {
    let installation: Installation
    let process: ServiceProcess
    let admin: HTTPClient
    private let publishable: [String: HTTPClient]

    static func start() async throws -> OwnershipService {
        let installation = try await Installation()
        func key(_ arguments: String...) async throws -> String {
            let (_, output, errors) = try await installation.run(["keys", "create"] + arguments)
            try #require(!output.isEmpty, "\(errors)")
            return output.trimmingCharacters(in: .whitespacesAndNewlines)
        }
        let admin = try await key("--name", "test", "--scopes", "admin")
        var devices: [String: String] = [:]
        for environment in ["production", "sandbox"] {
            devices[environment] = try await key(
                "--name", "app", "--scopes", "reconcile", "--app", installation.world.bundleID, "--environment",
                environment)
        }
        let process = try await ServiceProcess.start(installation)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        return OwnershipService(
            installation: installation, process: process, admin: HTTPClient(process.url, key: admin),
            publishable: devices.mapValues { HTTPClient(process.url, key: $0) })
    }

    func stop() {
        process.stop()
        installation.remove()
    }

    /// What an app of that customer's environment asks with.
    func device(_ customer: CustomerKey) throws -> HTTPClient {
        try #require(publishable[customer.environment.rawValue])
    }

    /// What a device asks with that the app's server let in.
    func device(withTokenFor customer: CustomerKey) async throws -> HTTPClient {
        let answer = try await admin.send(
            "POST", "/v1/customers/\(customer.customerID)/tokens",
            body: bytes(["environment": customer.environment.rawValue, "expires_in": 600]))
        return HTTPClient(process.url, key: try #require(answer.json["token"] as? String, "\(answer.text)"))
    }
}

/// Drives a service through a world of several customers, and holds every answer against the witness.
///
/// The witness decides what a step must come to; the service decides instants, positions and the ids of grants.
struct OwnershipDriver {
    let world: OwnershipWorld
    let service: OwnershipService
    /// The world in failure messages: the seed, or the scenario's name.
    let name: String
    var witness: OwnershipWitness
    /// The ledger's position before the first step.
    let begin: Int64
    /// Chooses what is sent twice, and what is asked again later.
    var random: SplitMix64
    /// When transfers and grants were recorded, in milliseconds.
    var instants: Set<Int64> = []
    private var signed: [Int: String] = [:]
    private var transfers: [Int: Int64] = [:]
    private var grants: [Int: String] = [:]
    private var revocations: [String: Int64] = [:]
    /// The steps whose command was sent under an idempotency key.
    private var keyed: Set<Int> = []
    private var heard = Heard()
    private var notes: [KeptAnswer] = []

    init(_ world: OwnershipWorld, _ service: OwnershipService, name: String) async throws {
        self.world = world
        self.service = service
        self.name = name
        witness = world.witness()
        begin = try await service.admin.head()
        random = SplitMix64(seed: world.seed ^ 0x0D71_0E57)
    }

    /// Takes all steps, and keeps some answers by the way.
    mutating func drive(comparingSteps: Bool = false, deletingViews: Bool = false) async throws {
        for step in world.steps {
            try await drive(step)
            if deletingViews, step.number == world.steps.count / 2 { try await service.installation.deleteViews() }
            if comparingSteps { try await expectRecordOfSome(after: step) }
            if random.chance(6) { try await keepAnswers() }
        }
    }

    private func context(_ step: OwnershipStep) -> String { "\(name), step \(step.number) \(step.deed.word)" }

    private mutating func drive(_ step: OwnershipStep) async throws {
        let context = context(step)
        switch step.deed {
        case .deliver(let index):
            // Signed once: what arrives again is the same to the byte.
            let isNew = signed[index] == nil
            let payload = try signed[index] ?? service.installation.authority.sign(world.notifications[index])
            signed[index] = payload
            let answer = try await service.admin.notify(payload)
            try #require(answer.status == 200, "\(context): \(answer.text)")
            #expect(answer.json["duplicate"] as? Bool == !isNew, "\(context): \(answer.text)")
            if let statement = world.notifications[index].statement { heard.insert(statement.testimony) }
            witness.tell(step)
        case .post(let post):
            try await drive(post, step, context)
        case .link(let link):
            let member = link.name.member
            let head = try await service.admin.head()
            let answer = try await command(link.target, "link", [member.name: member.value], step)
            try expect(answer, witness.tell(step), context)
            guard answer.status == 200 else { return }
            #expect(answer.json["linked"] as? String == link.customer.customerID, "\(context): \(answer.text)")
            // What held already is answered as it was when it was recorded.
            guard try answer.position > head else { return }
            let meant = witness.record.ownership.customer(link.target).customerID
            #expect(answer.json["customer_id"] as? String == meant, "\(context): \(answer.text)")
        case .transfer(let transfer):
            let answer = try await command(
                transfer.from, "transfer",
                ["original_transaction_id": transfer.original.originalTransactionID, "to": transfer.to.customerID], step
            )
            try #require(answer.status == 200, "\(context): \(answer.text)")
            transfers[step.number] = try answer.position
            witness.tell(step, recordedAt: try await recordedAt(answer))
            try await expectSides(answer, context)
        case .undoTransfer(let undoing):
            let position = try #require(transfers[undoing.step], "\(context)")
            let answer = try await command(undoing.customer, "transfer", ["undo": position], step)
            let isDone = answer.status == 200
            try expect(answer, witness.tell(step, recordedAt: isDone ? try await recordedAt(answer) : nil), context)
            if isDone { try await expectSides(answer, context) }
        case .grant(let gift):
            let until = gift.lasting.map { Int64(Date().timeIntervalSince1970 * 1000) + $0 }
            var body: [String: Any] = ["entitlement": gift.entitlement, "reason": "a test"]
            body["until"] = until.map { "\(Timestamp(milliseconds: $0))" }
            let answer = try await command(gift.customer, "grant", body, step)
            try #require(answer.status == 200, "\(context): \(answer.text)")
            grants[step.number] = try #require(answer.json["grant_id"] as? String)
            witness.tell(step, recordedAt: try await recordedAt(answer), until: until)
        case .revokeGrant(let undoing):
            try await drive(undoing, step, context)
        }
    }

    private mutating func drive(
        _ undoing: OwnershipStep.Undoing, _ step: OwnershipStep, _ context: String
    ) async throws {
        let grant = try #require(grants[undoing.step], "\(context)")
        let answer = try await command(undoing.customer, "revoke_grant", ["grant_id": grant, "reason": "a test"], step)
        try #require(answer.status == 200, "\(context): \(answer.text)")
        let verdict = witness.tell(step, recordedAt: try await recordedAt(answer))
        // What was taken back before is no mistake to take back again: the answer is the first one, and nothing else
        // changes. Under an idempotency key it is an event, which then says nothing new.
        if let first = revocations[grant] {
            #expect(verdict == .refused, "\(context)")
            let isAgain = try answer.position > first
            #expect(isAgain == keyed.contains(step.number), "\(context): \(answer.text)")
        } else {
            #expect(verdict == .accepted, "\(context)")
            revocations[grant] = try answer.position
        }
    }

    private mutating func drive(_ post: OwnershipStep.Post, _ step: OwnershipStep, _ context: String) async throws {
        let authority = service.installation.authority
        var body: [String: Any] = [
            "app": world.world.bundleID, "environment": post.customer.environment.rawValue,
            "signed_transactions": try post.statements.map { try authority.sign($0) },
        ]
        let sender: HTTPClient
        switch post.proof {
        case .none: sender = try service.device(post.customer)
        case .secretKey: sender = service.admin
        case .customerToken: sender = try await service.device(withTokenFor: post.customer)
        case .appTransaction(let id):
            sender = try service.device(post.customer)
            body["app_transaction"] = try authority.signAppTransaction(
                id, post.customer.environment, world: world.world)
        }
        let answer = try await sender.send(
            "POST", "/v1/customers/\(post.customer.customerID)/reconcile", body: bytes(body))
        try #require(answer.status == 200, "\(context): \(answer.text)")
        guard case .received(let receptions) = witness.tell(step) else {
            throw MisledDriver(context: "\(context): the witness has no receptions")
        }
        try PostExpectation(post: post, receptions: receptions, world: world.world, witness: witness, heard: heard)
            .hold(answer, context)
        for statement in post.statements { heard.insert(statement.testimony) }
        if answer.json["proof"] as? String != "none" { try await expectReads(of: post.customer, as: answer, context) }
    }

    /// Sends a command; now and then twice under one idempotency key, which must be answered the same and leave
    /// nothing more.
    private mutating func command(
        _ customer: CustomerKey, _ action: String, _ members: [String: Any], _ step: OwnershipStep
    ) async throws -> HTTPClient.Answer {
        let path = "/v1/customers/\(customer.customerID)/actions/\(action)"
        var members = members
        members["environment"] = customer.environment.rawValue
        let body = try bytes(members)
        guard random.chance(40) else { return try await service.admin.send("POST", path, body: body) }
        keyed.insert(step.number)
        let headers = ["Idempotency-Key": "\(name) \(step.number)"]
        let first = try await service.admin.send("POST", path, body: body, headers: headers)
        let head = try await service.admin.head()
        let second = try await service.admin.send("POST", path, body: body, headers: headers)
        let context = "\(context(step)), sent twice: \(first.text) \(second.text)"
        #expect(second.status == first.status && second.code == first.code, "\(context)")
        if first.status == 200 { #expect(second.body == first.body, "\(context)") }
        #expect(try await service.admin.head() == head, "\(context)")
        return first
    }

    private func expect(_ answer: HTTPClient.Answer, _ verdict: OwnershipVerdict, _ context: String) throws {
        switch verdict {
        case .accepted: try #require(answer.status == 200, "\(context): \(answer.text)")
        case .refused: try #require((400..<500).contains(answer.status), "\(context): \(answer.text)")
        case .received: throw MisledDriver(context: "\(context): the witness takes it for a post")
        }
    }

    /// The instant of the event that a command's answer names.
    private mutating func recordedAt(_ answer: HTTPClient.Answer) async throws -> Int64 {
        let event = try await service.admin.send("GET", "/v1/events/\(answer.position)")
        let instant = try milliseconds(event.json["recorded_at"])
        instants.insert(instant)
        return instant
    }

    /// What a transfer's answer says of both sides is what they read at its position, and at the one before.
    private func expectSides(_ answer: HTTPClient.Answer, _ context: String) async throws {
        let position = try answer.position
        let event = try await service.admin.send("GET", "/v1/events/\(position)")
        let environment = try #require(answer.json["environment"] as? String)
        let at = try #require(event.json["recorded_at"] as? String)
        for side in ["from", "to"] {
            let told = try #require(answer.json[side] as? [String: Any], "\(context): \(answer.text)")
            let customer = try #require(told["customer_id"] as? String)
            for (member, knownAt) in [("before", position - 1), ("after", position)] {
                let read = try await service.admin.send(
                    "GET", "/v1/customers/\(customer)/entitlements",
                    query: ["environment": environment, "at": at, "known_at": "\(knownAt)"])
                #expect(
                    canonical(told[member]) == canonical(read.json["entitlements"]),
                    "\(context), \(side) \(member): \(answer.text) instead of \(read.text)")
            }
        }
    }

    /// What a device is told is what the customer reads right after.
    private func expectReads(
        of customer: CustomerKey, as answer: HTTPClient.Answer, _ context: String
    ) async throws {
        let path = "/v1/customers/\(customer.customerID)"
        let query = ["environment": customer.environment.rawValue]
        let at = try #require(answer.json["at"] as? String)
        let read = try await service.admin.send(
            "GET", "\(path)/entitlements", query: query.merging(["at": at]) { $1 })
        for (member, readMember) in [("entitlements", "entitlements"), ("position", "known_at"), ("at", "at")] {
            #expect(
                canonical(answer.json[member]) == canonical(read.json[readMember]),
                "\(context), \(member): \(answer.text) instead of \(read.text)")
        }
        let timeline = try await service.admin.send("GET", "\(path)/timeline", query: query)
        #expect(
            canonical(answer.json["timeline"]) == canonical(timeline.json["entitlements"]),
            "\(context), timeline: \(answer.text) instead of \(timeline.text)")
    }
}

// Answers that have to stay what they are.
extension OwnershipDriver {
    /// Keeps what somebody reads as of now, to be asked for again.
    private mutating func keepAnswers() async throws {
        let customer = random.pick(world.names)
        let boundaries = witness.record.boundaryInstants(customer) + instants
        let at = boundaries.isEmpty ? world.world.start : random.pick(boundaries.sorted())
        let position = try await service.admin.head()
        let known = ["environment": customer.environment.rawValue, "known_at": "\(position)"]
        let atInstant = known.merging(["at": "\(Timestamp(milliseconds: at))"]) { $1 }
        for (route, query) in [("timeline", known), ("entitlements", atInstant), ("explain", atInstant)] {
            notes.append(
                try await KeptAnswer(
                    "/v1/customers/\(customer.customerID)/\(route)", query, service.admin,
                    "\(name), kept at position \(position)"))
        }
    }

    /// What was kept on the way is answered the same, to the byte.
    func expectKeptAnswers() async throws {
        for note in notes { try await note.expectAgain(service.admin) }
    }
}

/// An answer that must be given again, to the byte.
struct KeptAnswer {
    private let path: String
    private let query: [String: String]
    private let body: Data
    private let context: String

    init(_ path: String, _ query: [String: String], _ client: HTTPClient, _ context: String) async throws {
        let answer = try await client.send("GET", path, query: query)
        try #require(answer.status == 200, "\(context): \(answer.text)")
        (self.path, self.query, self.context) = (path, query, context)
        body = answer.body
    }

    func expectAgain(_ client: HTTPClient, _ when: String = "afterwards") async throws {
        let answer = try await client.send("GET", path, query: query)
        #expect(
            answer.body == body,
            "\(context), \(path) \(query) \(when): \(answer.text) instead of \(String(decoding: body, as: UTF8.self))")
    }
}

/// Driver and witness speak of different things; the test is wrong, whoever else is right.
struct MisledDriver: Error { let context: String }

/// The body of a request.
func bytes(_ members: [String: Any]) throws -> [UInt8] {
    Array(try JSONSerialization.data(withJSONObject: members, options: [.sortedKeys]))
}

/// One text for equal JSON values.
func canonical(_ value: Any?) -> String {
    let wrapped: [Any] = [value ?? "absent"]
    let data = try? JSONSerialization.data(withJSONObject: wrapped, options: [.sortedKeys])
    return String(decoding: data ?? Data(), as: UTF8.self)
}

extension HTTPClient.Answer {
    /// The position a command's answer names.
    var position: Int64 {
        get throws { try #require((json["position"] as? NSNumber)?.int64Value, "\(status) \(text)") }
    }
}

extension OwnershipStep.LinkedName {
    /// The member of the body that names it.
    fileprivate var member: (name: String, value: String) {
        switch self {
        case .appAccountToken(let token): ("app_account_token", token)
        case .appTransactionID(let id): ("app_transaction_id", id)
        case .customerID(let id): ("customer_id", id)
        }
    }
}

extension OwnershipStep.Deed {
    fileprivate var word: String {
        switch self {
        case .deliver: "deliver"
        case .post(let post): "post as \(post.customer.customerID) by \(post.proof)"
        case .link(let link): "link \(link.customer.customerID) to \(link.target.customerID)"
        case .transfer(let transfer):
            "transfer \(transfer.original.originalTransactionID) from \(transfer.from.customerID) to "
                + transfer.to.customerID
        case .undoTransfer(let undoing): "undo the transfer of step \(undoing.step)"
        case .grant(let gift): "grant \(gift.entitlement) to \(gift.customer.customerID)"
        case .revokeGrant(let undoing): "revoke the grant of step \(undoing.step)"
        }
    }
}
