extension StoreLife {
    /// Lives that end four days before an instant, so that some of what they tell of is going on; one customer each.
    ///
    /// Equal seeds and instants give equal lives. A life so long that the store's certificates were not valid when it began
    /// is left out, and the next seed takes its place.
    ///
    /// - Parameters:
    ///   - seed: of the first life; each further one takes the next.
    ///   - instant: in milliseconds since 1970.
    package static func recent(seed: UInt64, customers: Int, until instant: Int64) -> [StoreLife] {
        var lives: [StoreLife] = []
        var seed = seed
        while lives.count < customers {
            let life = recent(seed: seed, until: instant)
            if life.world.start > SimulatedAuthority.validity.lowerBound { lives.append(life) }
            seed += 1
        }
        return lives
    }

    /// One such life, however long it is.
    package static func recent(seed: UInt64, until instant: Int64) -> StoreLife {
        let standard = random(seed: seed)
        let length = (standard.notifications.last?.signedDate ?? 0) - standard.world.start
        var world = StoreWorld.standard
        world.start = instant - length - 4 * Span.day
        return random(seed: seed, world: world)
    }
}
