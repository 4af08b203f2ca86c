extension OwnershipScenario {
    /// What devices post, and whose it becomes.
    static let claims: [OwnershipScenario] = [
        OwnershipScenario("two_logins_on_one_apple_account") { story, cast in
            var bob = cast.bob
            bob.appTransactionID = cast.annAppleID
            story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            let anns = story.lastStatement()
            story.store.buy(bob, lifetime, at: on(1, 5))
            let bobs = story.lastStatement()
            story.deliver(at: on(1, 5, 1))
            // One device, two logins: it holds what either bought.
            story.post([anns, bobs], as: cast.bobLogin, at: on(1, 6))
            story.post([anns, bobs], as: cast.annLogin, at: on(1, 7))
            // The Apple account alone is neither of them.
            story.post([anns], as: cast.annLogin, proof: .appTransaction(cast.annAppleID), at: on(1, 8))
            story.post([anns], as: cast.annApple, proof: .appTransaction(cast.annAppleID), at: on(1, 9))
        },
        OwnershipScenario("thief_posts_what_bears_a_token") { story, cast in
            story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            let copied = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.post([copied], as: cast.bobLogin, proof: .none, at: on(1, 2))
            story.post([copied], as: cast.bobLogin, at: on(1, 3))
            story.post([copied], as: cast.bobLogin, proof: .secretKey, at: on(1, 4))
            story.post([copied], as: cast.dan, at: on(1, 5))
        },
        OwnershipScenario("thief_posts_what_is_claimed") { story, cast in
            story.store.buy(cast.nobody, lifetime, at: on(1, 1))
            let statement = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.post([statement], as: cast.cleo, at: on(1, 2))
            story.post([statement], as: cast.dan, at: on(1, 3))
            story.post([statement], as: cast.cleo, at: on(1, 4))
        },
        OwnershipScenario("thief_claims_before_the_owner") { story, cast in
            story.store.buy(cast.nobody, lifetime, at: on(1, 1))
            let statement = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.post([statement], as: cast.dan, at: on(1, 2))
            story.post([statement], as: cast.cleo, at: on(1, 3))
        },
        OwnershipScenario("without_proof_nothing_is_claimed") { story, cast in
            story.store.buy(cast.nobody, lifetime, at: on(1, 1))
            let statement = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.post([statement], as: cast.dan, proof: .none, at: on(1, 2))
            story.post([statement], as: cast.dan, proof: .appTransaction(cast.annAppleID), at: on(1, 3))
            story.post([statement], as: cast.cleo, proof: .secretKey, at: on(1, 4))
        },
        OwnershipScenario("proof_by_app_transaction") { story, cast in
            // No notification ever told of this purchase.
            story.store.buy(cast.nobody, lifetime, at: on(1, 1))
            let statement = story.store.loseLastNotification()
            let proof = OwnershipStep.Proof.appTransaction(cast.annAppleID)
            story.post([statement], as: cast.annApple, proof: proof, at: on(1, 2))
            story.post([statement], as: cast.cleo, proof: proof, at: on(1, 3))
            story.link(.appTransactionID(cast.annAppleID), to: cast.cleo, at: on(1, 4))
            story.post([statement], as: cast.cleo, proof: proof, at: on(1, 5))
        },
        OwnershipScenario("claimed_for_past_and_future") { story, cast in
            let key = story.store.subscribe(cast.nobody, to: news, at: on(1, 1))
            story.store.renew(key)
            let second = story.lastStatement()
            story.deliver(at: on(2, 1, 1))
            story.post([second], as: cast.cleo, at: on(2, 2))
            story.store.renew(key)
            story.deliver(at: on(3, 1, 1))
        },
        OwnershipScenario("family_member") { story, cast in
            story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            let key = story.store.subscribe(cast.guest(cast.bob), to: news, at: on(1, 1), familyShared: true)
            let members = story.lastStatement()
            story.store.endSharing(key, at: on(1, 20))
            story.deliver(at: on(1, 20, 1))
            story.post([members], as: cast.bobApple, proof: .appTransaction(cast.bobAppleID), at: on(1, 21))
            story.post([members], as: cast.annLogin, at: on(1, 22))
        },
        OwnershipScenario("thief_posts_a_renewal_that_was_lost") { story, cast in
            let key = story.store.subscribe(cast.ann, to: news, at: on(1, 1))
            story.deliver(at: on(1, 1, 1))
            story.store.renew(key)
            let renewal = story.store.loseLastNotification()
            story.post([renewal], as: cast.dan, proof: .none, at: on(2, 2))
            story.post([renewal], as: cast.dan, at: on(2, 3))
        },
        OwnershipScenario("late_token_on_a_claimed_period") { story, cast in
            let key = story.store.subscribe(cast.nobody, to: news, at: on(1, 1))
            let first = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.post([first], as: cast.cleo, at: on(1, 2))
            story.store.renew(key)
            let second = story.lastStatement()
            story.store.renew(key)
            story.store.identify(key, payment: 1, token: cast.annToken, at: on(3, 5))
            story.deliver(at: on(3, 5, 1))
            // The period bears a token now, whatever the old statement about it says.
            story.post([second], as: cast.cleo, at: on(3, 6))
            story.post([second], as: cast.annLogin, at: on(3, 7))
        },
        OwnershipScenario("claimed_before_the_late_token_arrives") { story, cast in
            let key = story.store.subscribe(cast.nobody, to: news, at: on(1, 1))
            let old = story.lastStatement()
            story.deliver(at: on(1, 1, 1))
            story.store.identify(key, token: cast.annToken, at: on(1, 5))
            let new = story.lastStatement()
            let late = story.holdBack()
            story.post([old], as: cast.dan, at: on(1, 6))
            story.deliver(late, at: on(1, 7))
            story.post([old], as: cast.dan, at: on(1, 8))
            story.post([new], as: cast.annLogin, at: on(1, 9))
        },
        OwnershipScenario("later_payment_bears_a_token") { story, cast in
            let key = story.store.subscribe(cast.nobody, to: news, at: on(1, 1))
            let first = story.lastStatement()
            story.store.renew(key, token: cast.annToken)
            let second = story.lastStatement()
            story.deliver(at: on(2, 1, 1))
            story.post([first, second], as: cast.cleo, at: on(2, 2))
            story.post([second], as: cast.annLogin, at: on(2, 3))
        },
    ]
}
