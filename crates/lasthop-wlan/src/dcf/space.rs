//! Positions of stations, and propagation: which stations can read, sense or disturb which frames, and the
//! received power.
//!
//! ```text
//!   distance   0 ------- crossover ------- transmission -------- interference -- carrier sense ----->
//!   read       | yes                                  | no
//!   disturbs   | yes                                                       | no
//!   sensed     | yes                                                                        | no
//!   power      | d^-2       | d^-exponent, continuous at the crossover
//! ```
//!
//! All stations transmit with equal power through omnidirectional antennas, so that distance alone
//! determines the received power. A frame is read if, during its whole duration, its power exceeds the sum
//! of the interfering powers by the capture threshold.
//!
//! Sources: T. S. Rappaport, Wireless Communications (2002), 4.6, two-ray ground reflection, whose exponent
//! is 4 and whose crossover is 4 pi h^2 / wavelength: 86 m for antennas at 1.5 m and 914 MHz, which are
//! ns-2's defaults, as are 250 m, 550 m and 10 dB.
//!
//! Limitations: fading and shadowing (except by error processes), obstacles, unequal powers, ranges that
//! depend on the rate, and mobility are not modelled.

use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Decibels, Distance};

choice! {
    /// Frame that a receiver attempts to read when several reach it.
    pub enum Capture {
        /// The first frame; the strongest one of several frames that begin simultaneously.
        First = "first",
        /// Also a later frame, if it is stronger than all others by the capture threshold.
        Strongest = "strongest",
    }
}

/// A position in the plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Coordinate towards the east.
    pub x: Distance,
    /// Coordinate towards the north.
    pub y: Distance,
}

impl Position {
    /// Returns the distance to another position, in metres.
    pub fn distance(self, other: Position) -> f64 {
        let along = |one: Distance, other: Distance| one.as_metres() - other.as_metres();
        libm::hypot(along(self.x, other.x), along(self.y, other.y))
    }
}

/// Ranges of frames, and capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Propagation {
    /// Maximum distance at which frames are read.
    pub transmission: Distance,
    /// Maximum distance at which frames are sensed, at least `transmission`.
    pub carrier_sense: Distance,
    /// Maximum distance at which frames interfere, at least `transmission`.
    pub interference: Distance,
    /// Minimum ratio of the power of a frame to that of the interference; `None`: no interference
    /// is tolerated.
    pub capture_threshold: Option<Decibels>,
    /// Frame that a receiver attempts to read.
    pub capture: Capture,
    /// Path loss exponent beyond the crossover distance.
    pub exponent: f64,
    /// Crossover distance, up to which the path loss exponent is 2.
    pub crossover: Distance,
}

impl Propagation {
    /// Returns the power at a distance in metres, relative to the power at 1 m, which is the
    /// minimum distance of stations.
    fn power(&self, distance: f64) -> f64 {
        let distance = distance.max(1.0);
        let crossover = self.crossover.as_metres().max(1.0);
        let near = distance.min(crossover);
        let far = distance.max(crossover) / crossover;
        libm::pow(far, -self.exponent) / (near * near)
    }
}

/// Propagation between all pairs of stations.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    stations: usize,
    /// By transmitter and receiver.
    links: Vec<Link>,
    /// Minimum power ratio of readable frames; infinite if no interference is tolerated.
    threshold: f64,
    pub takes_over: bool,
}

/// Propagation from a transmitter to a receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub is_read: bool,
    pub is_sensed: bool,
    /// Interfering power: 0 beyond the interference range.
    interference: f64,
    power: f64,
}

impl Reach {
    pub fn new(propagation: &Propagation, positions: &[Position]) -> Self {
        let Propagation { transmission, carrier_sense, interference, .. } = propagation;
        let link = |from: &Position, to: &Position| {
            let distance = from.distance(*to);
            let within = |range: &Distance| distance <= range.as_metres();
            let power = propagation.power(distance);
            Link {
                is_read: within(transmission),
                is_sensed: within(carrier_sense),
                interference: if within(interference) { power } else { 0.0 },
                power,
            }
        };
        let row = |from| positions.iter().map(move |to| link(from, to));
        Reach {
            stations: positions.len(),
            links: positions.iter().flat_map(row).collect(),
            threshold: propagation.capture_threshold.map_or(f64::INFINITY, Decibels::ratio),
            takes_over: propagation.capture == Capture::Strongest,
        }
    }

    pub fn link(&self, from: u16, to: u16) -> Link {
        self.links[usize::from(from) * self.stations + usize::from(to)]
    }

    /// Returns `true` if a frame from `from` is read at `to` while `others` transmit.
    pub fn survives(&self, from: u16, to: u16, others: impl Iterator<Item = u16>) -> bool {
        let disturbing: f64 = others.map(|other| self.link(other, to).interference).sum();
        disturbing == 0.0 || self.link(from, to).power >= self.threshold * disturbing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn propagation() -> Propagation {
        Propagation {
            transmission: Distance::from_metres(250),
            carrier_sense: Distance::from_metres(550),
            interference: Distance::from_metres(550),
            capture_threshold: Some(Decibels::new(10)),
            capture: Capture::First,
            exponent: 4.0,
            crossover: Distance::from_metres(86),
        }
    }

    fn at(x: u64) -> Position {
        Position { x: Distance::from_metres(x), y: Distance::default() }
    }

    #[test]
    fn power_falls_with_the_square_and_then_with_the_exponent() {
        let law = propagation();
        assert_eq!(law.power(0.0), 1.0);
        assert!((law.power(10.0) - 0.01).abs() < 1e-15);
        // At 86 m, 86^-2; at twice the distance, a sixteenth of it.
        assert!((law.power(172.0) * 86.0 * 86.0 * 16.0 - 1.0).abs() < 1e-12);
    }

    /// 10 dB with an exponent of 4: the interferer is at least 10^(1/4) = 1.778 times as far away.
    #[test]
    fn the_nearer_one_is_read_from_a_ratio_of_distances_on() {
        let between = |near: u64, far: u64| {
            let reach = Reach::new(&propagation(), &[at(1_000), at(1_000 - near), at(1_000 + far)]);
            reach.survives(1, 0, [2].into_iter())
        };
        assert!(!between(200, 355));
        assert!(between(200, 356));
        // Two interferers equal one of twice the power: 2^(1/4) times the distance.
        let stations = [at(1_000), at(800), at(1_356), at(1_356)];
        assert!(!Reach::new(&propagation(), &stations).survives(1, 0, [2, 3].into_iter()));
        // Stations beyond the interference range do not disturb.
        assert!(between(240, 551) && !between(240, 420));
    }

    #[test]
    fn ranges_include_their_end() {
        let reach = Reach::new(&propagation(), &[at(0), at(250), at(251), at(550), at(551)]);
        let kinds = [1, 2, 3, 4].map(|to| {
            let link = reach.link(0, to);
            (link.is_read, link.is_sensed)
        });
        assert_eq!(kinds, [(true, true), (false, true), (false, true), (false, false)]);
    }
}
