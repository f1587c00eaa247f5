//! An ideal selective-repeat link, packet by packet: the oracle between the chain of
//! [`super::arq_chain`] and a simulator with a real protocol.
//!
//! Time goes in frames. In each, the channel steps, then PDUs are sent: first those that are known
//! to have failed, in order of sequence number, then new ones, up to the capacity. Each fails
//! independently with the loss probability of the frame's state, and the sender knows so
//! `spacing` frames later, without error. A PDU that fails for the `limit`-th time takes its whole
//! SDU with it.
//!
//! ```text
//!   new PDU --> sent --> arrived: one PDU less is missing; none missing: SDU delivered
//!                 ^  \--> failed, known `spacing` frames later --> limit reached: SDU given up
//!                 |                                          \--> waits for room in a frame
//!                 +-------------------------------------------------+
//! ```
//!
//! Source: section 3 and 4.1 of Vacirca et al., "Investigating Interactions between ARQ Mechanisms
//! and TCP over Wireless Links", with the gaps filled: capacity, and SDUs that follow one another.
//!
//! Not modelled: windows, headers, status reports, errors of the feedback.

use super::arq_chain::{MAX_PDUS, MAX_TRANSMISSIONS};
use super::gilbert_elliott::MAX_SPACING;
use super::{AnalysisError, GilbertElliottLaw, Result, count};
use lasthop_base::rng::{Stream, Streams};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Most frames of a run.
pub const MAX_RUN_FRAMES: u64 = 10_000_000_000;

/// An ideal selective-repeat link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdealSr {
    /// The channel; steps once a frame.
    pub channel: GilbertElliottLaw,
    /// PDUs an SDU.
    pub pdus: u32,
    /// Frames from the transmission of a PDU to its retransmission (d), at least 1.
    pub spacing: u32,
    /// Most transmissions of a PDU; `None` for no limit.
    pub limit: Option<u32>,
    /// PDUs a frame; `None` for as many as there are.
    pub capacity: Option<u32>,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdealSrCounts {
    /// Frames of the run in which something was sent or waited for.
    pub frames: u64,
    /// SDUs delivered.
    pub delivered: u64,
    /// SDUs given up.
    pub given_up: u64,
    /// PDUs sent.
    pub transmissions: u64,
    /// PDUs that arrived.
    pub arrivals: u64,
    /// Sum over the finished SDUs of the square of their transmissions.
    pub squared_transmissions: f64,
    /// SDUs by the frames that they took from first transmission to last arrival: entry n counts
    /// those with n.
    pub delays: Vec<u64>,
}

/// One SDU under way.
#[derive(Clone, Copy, Debug)]
struct Sdu {
    first_frame: u64,
    /// PDUs sent at least once.
    sent: u32,
    /// PDUs that have not arrived.
    missing: u32,
    transmissions: u32,
    is_given_up: bool,
}

/// A PDU that failed: sequence number, transmissions so far.
type Failed = (u64, u32);

struct Machine<'a> {
    link: &'a IdealSr,
    transitions: Stream,
    errors: Stream,
    is_bad: bool,
    frame: u64,
    /// SDUs that are not finished, in order; the first has number `base`.
    sdus: VecDeque<Sdu>,
    base: u64,
    /// Failures not yet known: when they will be, and what.
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
        // Without a limit every SDU must get through at some time.
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

    /// Sends `sdus` SDUs, each alone: `gap` frames pass after each. A gap of many times
    /// 1 / (good_to_bad + bad_to_good) makes them independent, as the chain has them. Random
    /// numbers come from the streams of `component`.
    ///
    /// # Errors
    /// If a parameter is out of its range, or if there is no limit and no end to be expected.
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

    /// Runs `frames` frames with SDUs always waiting.
    ///
    /// # Errors
    /// If a parameter is out of its range, or there is no capacity that could be filled.
    pub fn run_saturated(
        &self,
        frames: u64,
        streams: &Streams,
        component: &str,
    ) -> Result<IdealSrCounts> {
        self.check()?;
        if self.capacity.is_none() {
            let allowed = "a number of PDUs a frame: nothing else bounds a saturated link";
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
            // An SDU given up takes its waiting PDUs with it.
            if self.open(number).is_some() {
                self.transmit(number, attempts + 1, loss);
                room -= 1;
            }
        }
        // New PDUs; only the last SDU can have any left.
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

    /// The SDU of a PDU, unless it is finished.
    fn open(&mut self, number: u64) -> Option<&mut Sdu> {
        let index = (number / u64::from(self.link.pdus)).checked_sub(self.base)?;
        let sdu = self.sdus.get_mut(usize::try_from(index).ok()?)?;
        (sdu.missing > 0 && !sdu.is_given_up).then_some(sdu)
    }

    /// The sender learns that a PDU failed.
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
