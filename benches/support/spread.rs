//! The shape of a set of figures.

/// A set of figures in microseconds, sorted.
#[derive(Clone, Debug)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    /// Of signed nanoseconds, at least one.
    pub(crate) fn of_ns(all: impl Iterator<Item = i64>) -> Self {
        let mut sorted: Vec<f64> = all.map(|nanos| nanos as f64 / 1e3).collect();
        assert!(!sorted.is_empty(), "a spread of nothing");
        sorted.sort_by(f64::total_cmp);
        Self(sorted)
    }

    /// The figure that a share `q` of all do not exceed, by nearest rank.
    pub(crate) fn at(&self, q: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share from 0 to 1 of a length"
        )]
        let rank = (self.0.len() as f64 * q).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    /// As a JSON object, in microseconds.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "min": self.at(0.0),
            "p50": self.at(0.5),
            "p90": self.at(0.9),
            "p99": self.at(0.99),
            "p99_9": self.at(0.999),
            "max": self.at(1.0),
            "count": self.0.len(),
        })
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, q) in
            [("min", 0.0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)]
        {
            write!(formatter, " {name} {:9.1}", self.at(q))?;
        }
        write!(formatter, "  (us, {} values)", self.0.len())
    }
}
