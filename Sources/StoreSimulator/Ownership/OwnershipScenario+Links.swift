extension OwnershipScenario {
    /// Names that come to mean somebody else.
    static let links: [OwnershipScenario] = [
        OwnershipScenario("login_after_the_purchase") { story, cast in
            let key = story.store.subscribe(cast.guest(cast.ann), to: news, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            story.link(.appTransactionID(cast.annAppleID), to: cast.annLogin, at: on(1, 10))
            story.store.renew(key)
            story.deliver(at: on(2, 1, 1))
        },
        OwnershipScenario("link_before_the_purchase") { story, cast in
            story.link(.appAccountToken(cast.annToken), to: cast.cleo, at: on(1, 1))
            story.store.subscribe(cast.ann, to: news, at: on(1, 5))
            let statement = story.lastStatement()
            story.deliver(at: on(1, 5, 1))
            story.post([statement], as: cast.cleo, at: on(1, 6))
            story.post([statement], as: cast.annLogin, at: on(1, 7))
        },
        OwnershipScenario("chain_of_links") { story, cast in
            story.store.subscribe(cast.guest(cast.ann), to: news, at: on(1, 1))
            story.store.buy(cast.ann, lifetime, at: on(1, 2))
            story.deliver(at: on(1, 2, 1))
            story.link(.appTransactionID(cast.annAppleID), to: cast.annLogin, at: on(1, 10))
            story.link(.customerID(cast.annLogin.customerID), to: cast.cleo, at: on(1, 11))
        },
        OwnershipScenario("chain_opened_again") { story, cast in
            story.store.subscribe(cast.guest(cast.ann), to: news, at: on(1, 1))
            story.store.buy(cast.ann, lifetime, at: on(1, 2))
            story.deliver(at: on(1, 2, 1))
            story.link(.appTransactionID(cast.annAppleID), to: cast.annLogin, at: on(1, 10))
            story.link(.appAccountToken(cast.annToken), to: cast.cleo, at: on(1, 11))
            story.link(.appAccountToken(cast.annToken), to: cast.annLogin, at: on(1, 12))
        },
        OwnershipScenario("circle_of_links") { story, cast in
            story.store.subscribe(cast.bob, to: news, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            story.link(.appAccountToken(cast.bobToken), to: cast.cleo, at: on(1, 2))
            story.link(.customerID(cast.cleo.customerID), to: cast.dan, at: on(1, 3))
            story.link(.customerID(cast.dan.customerID), to: cast.bobLogin, at: on(1, 4))
            // Opened in the middle, the same link is no circle any more.
            story.link(.customerID(cast.cleo.customerID), to: cast.cleo, at: on(1, 5))
            story.link(.customerID(cast.dan.customerID), to: cast.bobLogin, at: on(1, 6))
        },
        OwnershipScenario("last_link_wins") { story, cast in
            story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.store.subscribe(cast.bob, to: news, at: on(1, 2))
            story.deliver(at: on(1, 2, 1))
            story.link(.appAccountToken(cast.annToken), to: cast.cleo, at: on(1, 3))
            story.link(.appAccountToken(cast.annToken.uppercased()), to: cast.dan, at: on(1, 4))
            story.link(.customerID(cast.bobLogin.customerID), to: cast.cleo, at: on(1, 5))
            story.link(.appAccountToken(cast.bobToken), to: cast.bobLogin, at: on(1, 6))
        },
        OwnershipScenario("link_of_a_customer_with_grants") { story, cast in
            story.grant("premium", to: cast.cleo, at: on(1, 5))
            story.grant("news", to: cast.cleo, lasting: 10 * Span.day, at: on(1, 5))
            story.store.subscribe(cast.ann, to: news, at: on(1, 10))
            story.deliver(at: on(1, 10, 1))
            story.link(.customerID(cast.cleo.customerID), to: cast.annLogin, at: on(2, 1))
        },
        OwnershipScenario("link_of_a_claimant") { story, cast in
            story.store.buy(cast.nobody, lifetime, at: on(1, 1))
            let statement = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.post([statement], as: cast.cleo, at: on(1, 2))
            story.post([statement], as: cast.annLogin, at: on(1, 3))
            story.link(.customerID(cast.cleo.customerID), to: cast.annLogin, at: on(1, 4))
            story.post([statement], as: cast.annLogin, at: on(1, 5))
        },
        OwnershipScenario("links_stay_in_their_environment") { story, cast in
            var tester = cast.ann
            tester.environment = .sandbox
            let key = story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            let twin = story.store.subscribe(
                tester, to: news, at: on(1, 3), originalTransactionID: key.originalTransactionID)
            story.deliver(at: on(1, 3, 1))
            story.link(.appAccountToken(cast.annToken), to: cast.cleo, at: on(1, 4))
            story.transfer(
                twin, from: CustomerKey(.sandbox, cast.annToken), to: CustomerKey(.sandbox, cast.dan.customerID),
                at: on(1, 10))
        },
    ]
}
