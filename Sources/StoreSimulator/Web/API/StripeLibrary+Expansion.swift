// References that are asked for as whole objects: `expand[]=latest_charge`, and of each object of a list
// `expand[]=data.payment_intent.latest_charge`. Stripe goes four levels deep.
extension StripeLibrary {
    private static let mostLevels = 4

    /// Expands what each object of a page refers to.
    func expandingData(_ answer: Answer, _ names: [String]) -> Answer {
        let ofData = names.filter { $0.hasPrefix("data.") }
        if let other = names.first(where: { !ofData.contains($0) }) {
            return Self.error(400, "This property cannot be expanded (\(other)): in a list it begins with data.")
        }
        if let deep = names.first(where: { $0.split(separator: ".").count > Self.mostLevels }) {
            return Self.error(400, "You cannot expand more than \(Self.mostLevels) levels of a property (\(deep)).")
        }
        guard answer.status == 200, !ofData.isEmpty, case .object(var members) = answer.document,
            case .array(let elements)? = members["data"]
        else { return answer }
        members["data"] = .array(elements.map { expand($0, ofData.map { String($0.dropFirst(5)) }) })
        return Answer(status: 200, document: .object(members))
    }

    /// Expands what an object refers to.
    func expand(_ json: PayloadValue, _ names: [String]) -> PayloadValue {
        names.reduce(json) { expand($0, $1.split(separator: ".").map(String.init)[...]) }
    }

    private func expand(_ json: PayloadValue, _ path: ArraySlice<String>) -> PayloadValue {
        guard let name = path.first, case .object(var members) = json else { return json }
        if name == "line_items", case .string(let id)? = members["id"],
            case .session(let session)? = books.object(id, at: now)
        {
            members[name] = .list(
                session.lineItems(isLive: isLive), url: "/v1/checkout/sessions/\(session.id)/line_items")
        }
        if case .string(let id)? = members[name], let object = books.object(id, at: now) {
            members[name] = self.json(object)
        }
        if let member = members[name], path.count > 1 { members[name] = expand(member, path.dropFirst()) }
        return .object(members)
    }
}
