extension OwnershipScenario {
    /// Originals that are handed on as a whole.
    static let transfers: [OwnershipScenario] = [
        OwnershipScenario("transfer_and_back") { story, cast in
            let key = story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.store.renew(key)
            story.deliver(at: on(2, 1, 1))
            let transfer = story.transfer(key, from: cast.annLogin, to: cast.cleo, at: on(2, 5))
            story.undoTransfer(transfer, cast.annLogin, at: on(2, 10))
        },
        OwnershipScenario("transfer_moved_on") { story, cast in
            let key = story.store.buy(cast.ann, lifetime, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            let first = story.transfer(key, from: cast.annLogin, to: cast.bobLogin, at: on(1, 10))
            let second = story.transfer(key, from: cast.bobLogin, to: cast.cleo, at: on(1, 20))
            story.undoTransfer(first, cast.annLogin, at: on(1, 25))
            story.undoTransfer(second, cast.bobLogin, at: on(2, 1))
            story.undoTransfer(second, cast.bobLogin, at: on(2, 2))
            story.undoTransfer(first, cast.annLogin, at: on(2, 10))
        },
        OwnershipScenario("transfer_of_two_tokens") { story, cast in
            let key = story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.store.renew(key, token: cast.bobToken)
            story.store.renew(key)
            story.deliver(at: on(3, 1, 1))
            let transfer = story.transfer(key, from: cast.bobLogin, to: cast.cleo, at: on(3, 10))
            story.undoTransfer(transfer, cast.bobLogin, at: on(3, 20))
        },
        OwnershipScenario("transfer_before_a_renewal") { story, cast in
            let key = story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            story.transfer(key, from: cast.annLogin, to: cast.cleo, at: on(1, 10))
            story.store.renew(key, token: cast.bobToken)
            story.store.renew(key)
            story.deliver(at: on(3, 1, 1))
        },
        OwnershipScenario("transfer_in_a_grace_period") { story, cast in
            let key = story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.store.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            story.deliver(at: on(2, 1, 1))
            story.transfer(key, from: cast.annLogin, to: cast.cleo, at: on(2, 5))
        },
        OwnershipScenario("transfer_of_what_is_over") { story, cast in
            let key = story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            story.transfer(key, from: cast.annLogin, to: cast.cleo, at: on(3, 1))
        },
        OwnershipScenario("transfer_after_a_change_of_product") { story, cast in
            let key = story.store.subscribe(cast.ann, to: newsBundle, at: on(1, 1))
            story.store.change(key, to: news, at: on(1, 10))
            story.deliver(at: on(1, 10, 1))
            story.transfer(key, from: cast.annLogin, to: cast.cleo, at: on(1, 15))
        },
        OwnershipScenario("transfer_of_what_was_revoked") { story, cast in
            let key = story.store.buy(cast.ann, lifetime, at: on(1, 1))
            story.store.refund(key, at: on(1, 10))
            story.deliver(at: on(1, 10, 1))
            story.transfer(key, from: cast.annLogin, to: cast.cleo, at: on(2, 1))
        },
        OwnershipScenario("transfer_to_an_alias") { story, cast in
            let key = story.store.buy(cast.ann, lifetime, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            story.link(.customerID(cast.dan.customerID), to: cast.cleo, at: on(1, 5))
            story.transfer(key, from: cast.annLogin, to: cast.dan, at: on(1, 10))
        },
        OwnershipScenario("devices_after_a_transfer") { story, cast in
            let key = story.store.buy(cast.ann, lifetime, at: on(1, 1))
            let statement = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.transfer(key, from: cast.annLogin, to: cast.cleo, at: on(1, 10))
            story.post([statement], as: cast.annLogin, at: on(1, 11))
            story.post([statement], as: cast.cleo, at: on(1, 12))
            story.post([statement], as: cast.dan, at: on(1, 13))
        },
        OwnershipScenario("transfer_of_what_was_claimed") { story, cast in
            let key = story.store.buy(cast.nobody, lifetime, at: on(1, 1))
            let statement = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.post([statement], as: cast.dan, at: on(1, 2))
            // The true owner complained.
            story.transfer(key, from: cast.dan, to: cast.cleo, at: on(1, 10))
        },
    ]

    /// What is given away.
    static let grants: [OwnershipScenario] = [
        OwnershipScenario("grant_beside_a_subscription") { story, cast in
            story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            story.grant("news", to: cast.annLogin, lasting: 20 * Span.day, at: on(1, 20))
        },
        OwnershipScenario("grant_bridges_a_refund") { story, cast in
            let key = story.store.buy(cast.ann, lifetime, at: on(1, 1))
            story.store.refund(key, at: on(1, 20))
            story.deliver(at: on(1, 20, 1))
            story.grant("premium", to: cast.annLogin, lasting: 10 * Span.day, at: on(1, 15))
        },
        OwnershipScenario("grant_revoked") { story, cast in
            let grant = story.grant("premium", to: cast.cleo, at: on(1, 5))
            story.revokeGrant(grant, cast.cleo, at: on(2, 1))
            story.revokeGrant(grant, cast.cleo, at: on(2, 2))
            story.grant("premium", to: cast.cleo, lasting: 10 * Span.day, at: on(3, 1))
        },
        OwnershipScenario("grant_revoked_after_its_end") { story, cast in
            let grant = story.grant("premium", to: cast.cleo, lasting: 10 * Span.day, at: on(1, 5))
            story.revokeGrant(grant, cast.cleo, at: on(2, 1))
        },
    ]
}
