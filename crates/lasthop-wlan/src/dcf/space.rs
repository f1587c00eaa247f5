//! Where stations stand, and what follows: who reads whose frames, who senses them, whom they disturb, and
//! how strong they arrive.
//!
//! ```text
//!   distance   0 ------- crossover ------- transmission -------- interference -- carrier sense ----->
//!   read       | yes                                  | no
//!   disturbs   | yes                                                       | no
//!   sensed     | yes                                                                        | no
//!   power      | d^-2       | d^-exponent, continuous at the crossover
//! ```
//!
//! All stations transmit with the same power through antennas that favour no direction, so that distance
//! alone decides. A frame is read if it is stronger than the sum of what disturbs it by the capture
//! threshold for as long as it lasts.
//!
//! Sources: T. S. Rappaport, Wireless Communications (2002), 4.6, two-ray ground reflection, whose exponent
//! is 4 and whose crossover is 4 pi h^2 / wavelength: 86 m for antennas at 1.5 m and 914 MHz, which are
//! ns-2's defaults, as are 250 m, 550 m and 10 dB.
//!
//! *Not modelled*: fading and shadowing (error processes can stand for them), obstacles, different powers,
//! ranges that depend on the rate, stations that move.

use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Decibels, Distance};

choice! {
    /// Which frame a receiver tries to read when several reach it.
    pub enum Capture {
        /// The one that began first; of several that begin at once the strongest.
        First = "first",
        /// A later one too, if it is stronger than all else by the capture threshold.
        Strongest = "strongest",
    }
}

/// A place in the plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// To the east.
    pub x: Distance,
    /// To the north.
    pub y: Distance,
}

impl Position {
    /// Distance to another place, in metres.
    pub fn distance(self, other: Position) -> f64 {
        let along = |one: Distance, other: Distance| one.as_metres() - other.as_metres();
        libm::hypot(along(self.x, other.x), along(self.y, other.y))
    }
}

/// How far frames reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Propagation {
    /// Frames are read up to this distance.
    pub transmission: Distance,
    /// They keep the medium busy up to this distance, which is not less than `transmission`.
    pub carrier_sense: Distance,
    /// They disturb others up to this distance, which is not less than `transmission`.
    pub interference: Distance,
    /// By how much a frame must be stronger than what disturbs it; `None`: nothing may.
    pub capture_threshold: Option<Decibels>,
    /// Which frame a receiver tries to read.
    pub capture: Capture,
    /// Power falls with this power of the distance beyond the crossover.
    pub exponent: f64,
    /// Up to this distance it falls with the square.
    pub crossover: Distance,
}

impl Propagation {
    /// Power at a distance in metres, in units of that at 1 m, nearer than which no two stations stand.
    fn power(&self, distance: f64) -> f64 {
        let distance = distance.max(1.0);
        let crossover = self.crossover.as_metres().max(1.0);
        let near = distance.min(crossover);
        let far = distance.max(crossover) / crossover;
        libm::pow(far, -self.exponent) / (near * near)
    }
}

/// What each station is to each other one.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    stations: usize,
    /// By transmitter and receiver.
    links: Vec<Link>,
    /// Ratio of powers from which a frame is read; infinite where none is.
    threshold: f64,
    pub takes_over: bool,
}

/// What a transmitter is to a receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub is_read: bool,
    pub is_sensed: bool,
    /// Power as interference: 0 beyond its range.
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

    /// Is a frame from `from` read at `to` while `others` transmit?
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
        // 86 m: 86^-2; twice as far: a sixteenth of it.
        assert!((law.power(172.0) * 86.0 * 86.0 * 16.0 - 1.0).abs() < 1e-12);
    }

    /// 10 dB with an exponent of 4: the other is 10^(1/4) = 1.778 times as far away or farther.
    #[test]
    fn the_nearer_one_is_read_from_a_ratio_of_distances_on() {
        let between = |near: u64, far: u64| {
            let reach = Reach::new(&propagation(), &[at(1_000), at(1_000 - near), at(1_000 + far)]);
            reach.survives(1, 0, [2].into_iter())
        };
        assert!(!between(200, 355));
        assert!(between(200, 356));
        // Two of them disturb as one of twice the power: 2^(1/4) times as far.
        let stations = [at(1_000), at(800), at(1_356), at(1_356)];
        assert!(!Reach::new(&propagation(), &stations).survives(1, 0, [2, 3].into_iter()));
        // Nothing disturbs beyond its range.
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
