//! Mah's measured distributions of web traffic (B. A. Mah, INFOCOM 1997), as included in ns-2.
//!
//! Source of the tables: see `mah/README.md`. They are sampled as in ns-2: the result is the
//! smallest value whose cumulative probability reaches the uniform random number, without
//! interpolation.

use lasthop_base::rng::Stream;

/// An empirical distribution of integers.
#[derive(Clone, Copy, Debug)]
pub struct Empirical {
    values: &'static [u64],
    cumulative: &'static [f64],
}

/// The columns of a table of `ROWS` rows, parsed at compile time.
struct Columns<const ROWS: usize> {
    values: [u64; ROWS],
    cumulative: [f64; ROWS],
}

impl<const ROWS: usize> Columns<ROWS> {
    /// Parses `value,count,cdf` lines after a header.
    const fn read(csv: &[u8]) -> Self {
        let mut columns = Columns { values: [0; ROWS], cumulative: [0.0; ROWS] };
        let mut at = 0;
        while csv[at] != b'\n' {
            at += 1;
        }
        let mut row = 0;
        while row < ROWS {
            let (value, comma) = number(csv, at + 1);
            let (_, comma) = number(csv, comma + 1);
            let (cumulative, end) = number(csv, comma + 1);
            columns.values[row] = value as u64;
            columns.cumulative[row] = cumulative;
            // Lines end with carriage return and line feed.
            at = end + 1;
            row += 1;
        }
        assert!(csv[at] == b'\n' && at + 1 == csv.len(), "a table has as many rows as it says");
        columns
    }
}

/// Parses the decimal number that begins at `at`. Returns the number and its end. Numerator and
/// denominator are exact, so that the quotient is the nearest floating-point number.
const fn number(csv: &[u8], mut at: usize) -> (f64, usize) {
    let (mut digits, mut scale, mut has_point) = (0_u64, 1_u64, false);
    loop {
        match csv[at] {
            digit @ b'0'..=b'9' => {
                digits = digits * 10 + (digit - b'0') as u64;
                if has_point {
                    scale *= 10;
                }
            }
            b'.' => has_point = true,
            b',' | b'\r' => break,
            _ => panic!("a table holds numbers only"),
        }
        at += 1;
    }
    // Powers of ten are exact up to 10^22, which exceeds 64 bits.
    assert!(digits < 1 << 53, "the digits of a number fit a double");
    (digits as f64 / scale as f64, at)
}

impl Empirical {
    const fn of<const ROWS: usize>(columns: &'static Columns<ROWS>) -> Self {
        Empirical { values: &columns.values, cumulative: &columns.cumulative }
    }

    /// Length of a request in bytes; 0 in 6 of 4100 cases.
    pub const fn request_length() -> Empirical {
        static TABLE: Columns<383> = Columns::read(include_bytes!("mah/mah_request_length.csv"));
        Empirical::of(&TABLE)
    }

    /// Length of a reply (page or object) in bytes; 0 in 8 of 4100 cases.
    pub const fn reply_length() -> Empirical {
        static TABLE: Columns<2233> = Columns::read(include_bytes!("mah/mah_reply_length.csv"));
        Empirical::of(&TABLE)
    }

    /// Connections per page, the page itself included.
    pub const fn connections_per_page() -> Empirical {
        static TABLE: Columns<26> =
            Columns::read(include_bytes!("mah/mah_connections_per_page.csv"));
        Empirical::of(&TABLE)
    }

    /// Samples one value.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        let u = stream.uniform();
        let index = self.cumulative.partition_point(|&cumulative| cumulative < u);
        self.values[index.min(self.values.len() - 1)]
    }

    /// Mean of the table.
    pub fn mean(&self) -> f64 {
        let mut below = 0.0;
        let mut mean = 0.0;
        for (&value, &cumulative) in self.values.iter().zip(self.cumulative) {
            mean += value as f64 * (cumulative - below);
            below = cumulative;
        }
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;

    #[test]
    fn tables_have_their_published_means() {
        assert!((Empirical::request_length().mean() - 337.34).abs() < 0.01);
        assert!((Empirical::reply_length().mean() - 7230.97).abs() < 0.01);
        assert!((Empirical::connections_per_page().mean() - 2.84).abs() < 0.01);
    }

    #[test]
    fn samples_follow_the_table() {
        // P(reply <= 2112) = 0.5; n = 100 000, 4.5 standard errors: false positives below 1e-5.
        let mut stream = Streams { seed: 1, replication: 0 }.stream("test", "mah");
        let n = 100_000;
        let table = Empirical::reply_length();
        let below = (0..n).filter(|_| table.sample(&mut stream) <= 2112).count();
        let p = table.cumulative[table.values.iter().position(|&value| value == 2112).unwrap()];
        let error = (p * (1.0 - p) / f64::from(n)).sqrt();
        assert!((below as f64 / f64::from(n) - p).abs() < 4.5 * error);
    }
}
