//! Mah's measured distributions of web traffic (B. A. Mah, INFOCOM 1997), as ns-2 ships them.
//!
//! Source of the tables: see `mah/README.md`. Sampled as ns-2 samples them: the smallest value
//! whose cumulative probability reaches the uniform draw, without interpolation.

use crate::rng::Stream;
use std::sync::OnceLock;

/// An empirical distribution over whole numbers.
#[derive(Clone, Debug)]
pub struct Empirical {
    values: Vec<u64>,
    cumulative: Vec<f64>,
}

impl Empirical {
    /// Parses `value,count,cdf` lines after a header. The tables are part of the program; a
    /// malformed line is skipped, which the tests of the means would show.
    fn parse(csv: &str) -> Self {
        let rows = csv.lines().skip(1).filter_map(|line| {
            // Searching for a single character takes longer to begin than these fields are long.
            let mut fields = line.split([',']);
            let value = fields.next()?.parse::<u64>().ok()?;
            let cumulative = fields.nth(1)?.parse::<f64>().ok()?;
            Some((value, cumulative))
        });
        let (values, cumulative) = rows.unzip();
        Empirical { values, cumulative }
    }

    /// Length of a request in bytes; 0 in 6 of 4100 cases.
    pub fn request_length() -> &'static Empirical {
        static TABLE: OnceLock<Empirical> = OnceLock::new();
        TABLE.get_or_init(|| Empirical::parse(include_str!("mah/mah_request_length.csv")))
    }

    /// Length of a reply, page or object, in bytes; 0 in 8 of 4100 cases.
    pub fn reply_length() -> &'static Empirical {
        static TABLE: OnceLock<Empirical> = OnceLock::new();
        TABLE.get_or_init(|| Empirical::parse(include_str!("mah/mah_reply_length.csv")))
    }

    /// Connections per page, the page itself included.
    pub fn connections_per_page() -> &'static Empirical {
        static TABLE: OnceLock<Empirical> = OnceLock::new();
        TABLE.get_or_init(|| Empirical::parse(include_str!("mah/mah_connections_per_page.csv")))
    }

    /// One value.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        let u = stream.uniform();
        let index = self.cumulative.partition_point(|&cumulative| cumulative < u);
        self.values[index.min(self.values.len() - 1)]
    }

    /// Mean of the table.
    pub fn mean(&self) -> f64 {
        let mut below = 0.0;
        let mut mean = 0.0;
        for (&value, &cumulative) in self.values.iter().zip(&self.cumulative) {
            mean += value as f64 * (cumulative - below);
            below = cumulative;
        }
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Streams;

    #[test]
    fn tables_have_their_published_means() {
        assert!((Empirical::request_length().mean() - 337.34).abs() < 0.01);
        assert!((Empirical::reply_length().mean() - 7230.97).abs() < 0.01);
        assert!((Empirical::connections_per_page().mean() - 2.84).abs() < 0.01);
    }

    #[test]
    fn samples_follow_the_table() {
        // P(reply <= 2112) = 0.5; n = 100 000, 4.5 standard errors: false alarm below 1e-5.
        let mut stream = Streams { seed: 1, replication: 0 }.stream("test", "mah");
        let n = 100_000;
        let table = Empirical::reply_length();
        let below = (0..n).filter(|_| table.sample(&mut stream) <= 2112).count();
        let p = table.cumulative[table.values.iter().position(|&value| value == 2112).unwrap()];
        let error = (p * (1.0 - p) / f64::from(n)).sqrt();
        assert!((below as f64 / f64::from(n) - p).abs() < 4.5 * error);
    }
}
