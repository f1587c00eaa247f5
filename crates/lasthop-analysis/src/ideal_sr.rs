//! Simulation of an ideal selective-repeat link: a reference between the chain of
//! [`super::arq_chain`] and the simulator with a real protocol.
//!
//! Time is counted in frames. In each frame, the channel steps; then PDUs are sent up to the capacity:
//! failed PDUs first, in order of sequence number, followed by new ones. Each PDU fails independently
//! with the loss probability of the frame's state. The sender is notified `spacing` frames later,
//! without error. If a PDU fails for the `limit`-th time, its whole SDU is discarded.
//!
//! ```text
//!   new PDU --> sent --> arrived: one PDU less is missing; none missing: SDU delivered
//!                 ^  \--> failed, known `spacing` frames later --> limit reached: SDU discarded
//!                 |                                          \--> waits for room in a frame
//!                 +-------------------------------------------------+
//! ```
//!
//! Source: section 3 and 4.1 of Vacirca et al., "Investigating Interactions between ARQ Mechanisms
//! and TCP over Wireless Links". Capacity and consecutive SDUs, which the paper leaves open, are added.
//!
//! Limitations: windows, headers, status reports and feedback errors are not modelled.

use super::arq_chain::{MAX_PDUS, MAX_TRANSMISSIONS};
use super::gilbert_elliott::MAX_SPACING;
use super::{AnalysisError, GilbertElliottLaw, Result, count};
use lasthop_base::rng::{Stream, Streams};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Maximum number of frames of a run.
pub const MAX_RUN_FRAMES: u64 = 10_000_000_000;

/// An ideal selective-repeat link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdealSr {
    /// The channel; steps once per frame.
    pub channel: GilbertElliottLaw,
    /// Number of PDUs per SDU.
    pub pdus: u32,
    /// Frames from the transmission of a PDU to its retransmission (d), at least 1.
    pub spacing: u32,
    /// Maximum number of transmissions per PDU; `None` for no limit.
    pub limit: Option<u32>,
    /// Maximum number of PDUs per frame; `None` for no limit.
    pub capacity: Option<u32>,
}

/// Counters of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdealSrCounts {
    /// Frames of the run in which the link sent or waited.
    pub frames: u64,
    /// SDUs delivered.
    pub delivered: u64,
    /// SDUs discarded after the limit.
    pub given_up: u64,
    /// PDUs sent.
    pub transmissions: u64,
    /// PDUs received.
    pub arrivals: u64,
    /// Sum of the squared numbers of transmissions of the finished SDUs.
    pub squared_transmissions: f64,
    /// Number of SDUs by their duration in frames, from first transmission to last arrival: entry n
    /// counts durations of n frames.
    pub delays: Vec<u64>,
}

/// An SDU in progress.
#[derive(Clone, Copy, Debug)]
struct Sdu {
    first_frame: u64,
    /// PDUs sent at least once.
    sent: u32,
    /// PDUs not yet received.
    missing: u32,
    transmissions: u32,
    is_given_up: bool,
}

/// A failed PDU: sequence number, transmissions so far.
type Failed = (u64, u32);

struct Machine<'a> {
    link: &'a IdealSr,
    transitions: Stream,
    errors: Stream,
    is_bad: bool,
    frame: u64,
    /// Unfinished SDUs, in order; the first has number `base`.
    sdus: VecDeque<Sdu>,
    base: u64,
    /// Failures of which the sender is not yet notified: time of the notification, and PDU.
    unknown: VecDeque<(u64, Failed)>,
    waiting: BinaryHeap<Reverse<Failed>>,
    is_saturated: bool,
    counts: IdealSrCounts,
}

impl IdealSr {
    fn check(&self) -> Result<()> {
        count("pdus", self.pdus, 1..=MAX_PDUS)?;
        count("spacing", self.spacing, 1..=MAX_SPACING)?;
        self.limit.map_or(Ok(0), |limit| count("limit", limit, 1..=MAX_TRANSMISSIONS))?;
        self.capacity.map_or(Ok(0), |capacity| count("capacity", capacity, 1..=1_000_000))?;
        // Without a limit, every SDU must be delivered eventually.
        let single = super::ArqChain::new(self.channel, 1, self.spacing)?;
        if self.limit.is_none() && single.mean_attempts()? > 1e6 {
            let allowed = "a channel over which a PDU needs at most a million transmissions";
            return Err(AnalysisError::new("limit", "none", allowed));
        }
        Ok(())
    }

    fn machine(&self, streams: &Streams, component: &str) -> Machine<'_> {
        let mut transitions = streams.stream(component, "transitions");
        let is_bad = transitions.bernoulli(self.channel.stationary()[1]);
        Machine {
            link: self,
            transitions,
            errors: streams.stream(component, "frame loss"),
            is_bad,
            frame: 0,
            sdus: VecDeque::new(),
            base: 0,
            unknown: VecDeque::new(),
            waiting: BinaryHeap::new(),
            is_saturated: false,
            counts: IdealSrCounts::default(),
        }
    }

    /// Sends `sdus` SDUs one at a time, each followed by a gap of `gap` frames. A gap of many times
    /// 1 / (good_to_bad + bad_to_good) makes them independent, as the chain assumes. The random
    /// numbers are those of the streams of `component`.
    ///
    /// # Errors
    /// If a parameter is out of its range, or if the run has no limit and is not expected to end.
    pub fn run_isolated(
        &self,
        sdus: u64,
        gap: u32,
        streams: &Streams,
        component: &str,
    ) -> Result<IdealSrCounts> {
        self.check()?;
        let idle = self.channel.spaced(count("gap", gap, 1..=MAX_SPACING)?)?;
        let mut machine = self.machine(streams, component);
        for _ in 0..sdus {
            machine.offer();
            while !machine.sdus.is_empty() {
                machine.run_frame();
            }
            machine.unknown.clear();
            machine.waiting.clear();
            machine.step(&idle);
        }
        Ok(machine.counts)
    }

    /// Runs `frames` frames with a saturated sender.
    ///
    /// # Errors
    /// If a parameter is out of its range, or if the capacity is unlimited.
    pub fn run_saturated(
        &self,
        frames: u64,
        streams: &Streams,
        component: &str,
    ) -> Result<IdealSrCounts> {
        self.check()?;
        if self.capacity.is_none() {
            let allowed = "a number of PDUs per frame: no other parameter bounds a saturated link";
            return Err(AnalysisError::new("capacity", "none", allowed));
        }
        if frames > MAX_RUN_FRAMES {
            let allowed = format!("at most {MAX_RUN_FRAMES}");
            return Err(AnalysisError::new("frames", frames, allowed));
        }
        let mut machine = self.machine(streams, component);
        machine.is_saturated = true;
        for _ in 0..frames {
            machine.run_frame();
        }
        Ok(machine.counts)
    }
}

impl Machine<'_> {
    fn step(&mut self, channel: &GilbertElliottLaw) {
        let leave = channel.leave()[usize::from(self.is_bad)];
        self.is_bad ^= self.transitions.bernoulli(leave);
    }

    fn offer(&mut self) {
        self.sdus.push_back(Sdu {
            first_frame: self.frame,
            sent: 0,
            missing: self.link.pdus,
            transmissions: 0,
            is_given_up: false,
        });
    }

    fn run_frame(&mut self) {
        self.step(&self.link.channel);
        let loss = self.link.channel.loss()[usize::from(self.is_bad)];
        while let Some(&(due, failed)) = self.unknown.front() {
            if due > self.frame {
                break;
            }
            self.unknown.pop_front();
            self.learn(failed);
        }
        let mut room = self.link.capacity.unwrap_or(u32::MAX);
        while room > 0 {
            let Some(Reverse((number, attempts))) = self.waiting.pop() else { break };
            // The waiting PDUs of a discarded SDU are skipped.
            if self.open(number).is_some() {
                self.transmit(number, attempts + 1, loss);
                room -= 1;
            }
        }
        // New PDUs; only the last SDU can have unsent ones.
        while room > 0 {
            match self.sdus.back() {
                Some(sdu) if sdu.sent < self.link.pdus && !sdu.is_given_up => {
                    let sent = sdu.sent;
                    let index = self.base + self.sdus.len() as u64 - 1;
                    if let Some(sdu) = self.sdus.back_mut() {
                        sdu.sent += 1;
                        if sent == 0 {
                            sdu.first_frame = self.frame;
                        }
                    }
                    let number = index * u64::from(self.link.pdus) + u64::from(sent);
                    self.transmit(number, 1, loss);
                    room -= 1;
                }
                _ if self.is_saturated => self.offer(),
                _ => break,
            }
        }
        while let Some(sdu) = self.sdus.front() {
            if sdu.missing > 0 && !sdu.is_given_up {
                break;
            }
            self.counts.squared_transmissions += f64::from(sdu.transmissions).powi(2);
            self.sdus.pop_front();
            self.base += 1;
        }
        self.frame += 1;
        self.counts.frames += 1;
    }

    /// Returns the SDU of a PDU, unless it is finished.
    fn open(&mut self, number: u64) -> Option<&mut Sdu> {
        let index = (number / u64::from(self.link.pdus)).checked_sub(self.base)?;
        let sdu = self.sdus.get_mut(usize::try_from(index).ok()?)?;
        (sdu.missing > 0 && !sdu.is_given_up).then_some(sdu)
    }

    /// Notifies the sender of a failed PDU.
    fn learn(&mut self, (number, attempts): Failed) {
        let is_last = self.link.limit.is_some_and(|limit| attempts >= limit);
        let Some(sdu) = self.open(number) else { return };
        if is_last {
            sdu.is_given_up = true;
            self.counts.given_up += 1;
        } else {
            self.waiting.push(Reverse((number, attempts)));
        }
    }

    fn transmit(&mut self, number: u64, attempts: u32, loss: f64) {
        let fails = self.errors.bernoulli(loss);
        let frame = self.frame;
        self.counts.transmissions += 1;
        let Some(sdu) = self.open(number) else { return };
        sdu.transmissions += 1;
        if fails {
            let due = frame + u64::from(self.link.spacing);
            self.unknown.push_back((due, (number, attempts)));
            return;
        }
        sdu.missing -= 1;
        let delivered = (sdu.missing == 0).then_some((frame - sdu.first_frame) as usize + 1);
        self.counts.arrivals += 1;
        if let Some(delay) = delivered {
            self.counts.delivered += 1;
            if self.counts.delays.len() <= delay {
                self.counts.delays.resize(delay + 1, 0);
            }
            self.counts.delays[delay] += 1;
        }
    }
}
