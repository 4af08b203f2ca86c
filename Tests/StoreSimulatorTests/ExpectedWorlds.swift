/// What a scenario of several customers must come to, worked out by hand.
struct ExpectedWorld {
    /// What becomes of each step but the deliveries: `accepted`, `refused`, or a word for each posted statement.
    let verdicts: [String]
    /// Who owns what in the end, and which names mean somebody else.
    let lines: [String]
}

let expectedClaims: [String: ExpectedWorld] = [
    "two_logins_on_one_apple_account": ExpectedWorld(
        verdicts: ["conflict own", "own conflict", "unproven", "conflict"],
        lines: [
            "ann news: +active news.monthly 01-01 | expired news.monthly 02-01",
            "bob premium: +active lifetime 01-05",
        ]),
    "thief_posts_what_bears_a_token": ExpectedWorld(
        verdicts: ["unproven", "conflict", "known_conflict", "conflict"],
        lines: ["ann news: +active news.monthly 01-01 | expired news.monthly 02-01"]),
    "thief_posts_what_is_claimed": ExpectedWorld(
        verdicts: ["claimed", "conflict", "own"],
        lines: ["cleo premium: +active lifetime 01-01"]),
    "thief_claims_before_the_owner": ExpectedWorld(
        verdicts: ["claimed", "conflict"],
        lines: ["dan premium: +active lifetime 01-01"]),
    "without_proof_nothing_is_claimed": ExpectedWorld(
        verdicts: ["unproven", "unproven", "claimed"],
        lines: ["cleo premium: +active lifetime 01-01"]),
    "proof_by_app_transaction": ExpectedWorld(
        verdicts: ["claimed", "unproven", "accepted", "own"],
        lines: ["cleo premium: +active lifetime 01-01", "apple-ann = cleo"]),
    "claimed_for_past_and_future": ExpectedWorld(
        verdicts: ["claimed"],
        lines: ["cleo news: +active news.monthly 01-01 | expired news.monthly 04-01"]),
    "family_member": ExpectedWorld(
        verdicts: ["own", "conflict"],
        lines: [
            "ann news: +active news.monthly 01-01 | expired news.monthly 02-01",
            "apple-bob news: +active news.monthly 01-01 | revoked news.monthly 01-20",
        ]),
    "thief_posts_a_renewal_that_was_lost": ExpectedWorld(
        verdicts: ["unproven", "conflict"],
        lines: ["ann news: +active news.monthly 01-01 | expired news.monthly 03-01"]),
    "late_token_on_a_claimed_period": ExpectedWorld(
        verdicts: ["claimed", "conflict", "own"],
        lines: [
            "ann news: +active news.monthly 02-01 | expired news.monthly 03-01",
            "cleo news: +active news.monthly 01-01 | expired news.monthly 02-01 | +active news.monthly 03-01 | "
                + "expired news.monthly 04-01",
        ]),
    "claimed_before_the_late_token_arrives": ExpectedWorld(
        verdicts: ["claimed", "conflict", "own"],
        lines: ["ann news: +active news.monthly 01-01 | expired news.monthly 02-01"]),
    "later_payment_bears_a_token": ExpectedWorld(
        verdicts: ["claimed conflict", "own"],
        lines: [
            "ann news: +active news.monthly 02-01 | expired news.monthly 03-01",
            "cleo news: +active news.monthly 01-01 | expired news.monthly 02-01",
        ]),
]

let expectedLinks: [String: ExpectedWorld] = [
    "login_after_the_purchase": ExpectedWorld(
        verdicts: ["accepted"],
        lines: ["ann news: +active news.monthly 01-01 | expired news.monthly 03-01", "apple-ann = ann"]),
    "link_before_the_purchase": ExpectedWorld(
        verdicts: ["accepted", "own", "own"],
        lines: ["cleo news: +active news.monthly 01-05 | expired news.monthly 02-05", "ann = cleo"]),
    "chain_of_links": ExpectedWorld(
        verdicts: ["accepted", "accepted"],
        lines: [
            "cleo news: +active news.monthly 01-01 | expired news.monthly 02-01",
            "cleo premium: +active lifetime 01-02", "ann = cleo", "apple-ann = cleo",
        ]),
    "chain_opened_again": ExpectedWorld(
        verdicts: ["accepted", "accepted", "accepted"],
        lines: [
            "ann news: +active news.monthly 01-01 | expired news.monthly 02-01",
            "ann premium: +active lifetime 01-02", "apple-ann = ann",
        ]),
    "circle_of_links": ExpectedWorld(
        verdicts: ["accepted", "accepted", "refused", "accepted", "accepted"],
        lines: [
            "cleo news: +active news.monthly 01-01 | expired news.monthly 02-01", "bob = cleo", "dan = cleo",
        ]),
    "last_link_wins": ExpectedWorld(
        verdicts: ["accepted", "accepted", "accepted", "accepted"],
        lines: [
            "bob news: +active news.monthly 01-02 | expired news.monthly 02-02",
            "dan news: +active news.monthly 01-01 | expired news.monthly 02-01", "ann = dan",
        ]),
    "link_of_a_customer_with_grants": ExpectedWorld(
        verdicts: ["accepted", "accepted", "accepted"],
        lines: [
            "ann news: +active grant 01-05 | +active news.monthly 01-10 | expired news.monthly 02-10",
            "ann premium: +active grant 01-05", "cleo = ann",
        ]),
    "link_of_a_claimant": ExpectedWorld(
        verdicts: ["claimed", "conflict", "accepted", "own"],
        lines: ["ann premium: +active lifetime 01-01", "cleo = ann"]),
    "links_stay_in_their_environment": ExpectedWorld(
        verdicts: ["accepted", "accepted"],
        lines: [
            "cleo news: +active news.monthly 01-01 | expired news.monthly 02-01",
            "ann(sandbox) news: +active news.monthly 01-03 | expired news.monthly 01-10",
            "dan(sandbox) news: +active news.monthly 01-10 | expired news.monthly 02-03", "ann = cleo",
        ]),
]

let expectedTransfers: [String: ExpectedWorld] = [
    "transfer_and_back": ExpectedWorld(
        verdicts: ["accepted", "accepted"],
        lines: [
            "ann news: +active news.monthly 01-01 | expired news.monthly 02-05 | +active news.monthly 02-10 | "
                + "expired news.monthly 03-01",
            "cleo news: +active news.monthly 02-05 | expired news.monthly 02-10",
        ]),
    "transfer_moved_on": ExpectedWorld(
        verdicts: ["accepted", "accepted", "refused", "accepted", "refused", "accepted"],
        lines: [
            "ann premium: +active lifetime 01-01 | expired lifetime 01-10 | +active lifetime 02-10",
            "bob premium: +active lifetime 01-10 | expired lifetime 01-20 | +active lifetime 02-01 | "
                + "expired lifetime 02-10",
            "cleo premium: +active lifetime 01-20 | expired lifetime 02-01",
        ]),
    "transfer_of_two_tokens": ExpectedWorld(
        verdicts: ["accepted", "accepted"],
        lines: [
            "ann news: +active news.monthly 01-01 | expired news.monthly 02-01",
            "bob news: +active news.monthly 02-01 | expired news.monthly 03-10 | +active news.monthly 03-20 | "
                + "expired news.monthly 04-01",
            "cleo news: +active news.monthly 03-10 | expired news.monthly 03-20",
        ]),
    "transfer_before_a_renewal": ExpectedWorld(
        verdicts: ["accepted"],
        lines: [
            "ann news: +active news.monthly 01-01 | expired news.monthly 01-10",
            "cleo news: +active news.monthly 01-10 | expired news.monthly 04-01",
        ]),
    "transfer_in_a_grace_period": ExpectedWorld(
        verdicts: ["accepted"],
        lines: [
            "ann news: +active news.monthly 01-01 | +in_grace_period news.monthly 02-01 | "
                + "expired news.monthly 02-05",
            "cleo news: +in_grace_period news.monthly 02-05 | in_billing_retry news.monthly 02-17 | "
                + "expired news.monthly 04-02",
        ]),
    "transfer_of_what_is_over": ExpectedWorld(
        verdicts: ["accepted"],
        lines: [
            "ann news: +active news.monthly 01-01 | expired news.monthly 02-01",
            "cleo news: expired news.monthly 03-01",
        ]),
    "transfer_after_a_change_of_product": ExpectedWorld(
        verdicts: ["accepted"],
        lines: [
            "ann news: +active newsbundle.yearly 01-01 | +active news.monthly 01-10 | expired news.monthly 01-15",
            "ann premium: +active newsbundle.yearly 01-01 | expired newsbundle.yearly 01-10",
            "cleo news: +active news.monthly 01-15 | expired news.monthly 02-10",
            "cleo premium: expired newsbundle.yearly 01-15",
        ]),
    "transfer_of_what_was_revoked": ExpectedWorld(
        verdicts: ["accepted"],
        lines: [
            "ann premium: +active lifetime 01-01 | revoked lifetime 01-10 | expired lifetime 02-01",
            "cleo premium: revoked lifetime 02-01",
        ]),
    "transfer_to_an_alias": ExpectedWorld(
        verdicts: ["accepted", "accepted"],
        lines: [
            "ann premium: +active lifetime 01-01 | expired lifetime 01-10",
            "cleo premium: +active lifetime 01-10", "dan = cleo",
        ]),
    "devices_after_a_transfer": ExpectedWorld(
        verdicts: ["accepted", "own", "own", "conflict"],
        lines: [
            "ann premium: +active lifetime 01-01 | expired lifetime 01-10",
            "cleo premium: +active lifetime 01-10",
        ]),
    "transfer_of_what_was_claimed": ExpectedWorld(
        verdicts: ["claimed", "accepted"],
        lines: [
            "cleo premium: +active lifetime 01-10",
            "dan premium: +active lifetime 01-01 | expired lifetime 01-10",
        ]),
]

let expectedGrants: [String: ExpectedWorld] = [
    "grant_beside_a_subscription": ExpectedWorld(
        verdicts: ["accepted"],
        lines: ["ann news: +active news.monthly 01-01 | +active grant 01-20 | expired grant 02-09"]),
    "grant_bridges_a_refund": ExpectedWorld(
        verdicts: ["accepted"],
        lines: ["ann premium: +active lifetime 01-01 | +active grant 01-15 | revoked lifetime 01-25"]),
    "grant_revoked": ExpectedWorld(
        verdicts: ["accepted", "accepted", "refused", "accepted"],
        lines: [
            "cleo premium: +active grant 01-05 | revoked grant 02-01 | +active grant 03-01 | revoked grant 03-11"
        ]),
    "grant_revoked_after_its_end": ExpectedWorld(
        verdicts: ["accepted", "accepted"],
        lines: ["cleo premium: +active grant 01-05 | expired grant 01-15"]),
]
