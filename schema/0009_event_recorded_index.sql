-- Recorded time never decreases with position, which is what a block range index is made for.
CREATE INDEX event_recorded ON event USING brin (recorded_at) WITH (pages_per_range = 32, autosummarize = on);
