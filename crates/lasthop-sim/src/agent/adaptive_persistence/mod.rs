//! Adaptive persistence as an agent: it reads the counters of TCP and the link, and limits the link's
//! transmissions per packet.
//!
//! ```text
//!            a packet enters               n packets, or a time limit
//!   IDLE ------------------------> COUNTING ----------------------------------> DUE
//!     ^                                                                          |
//!     +------------ counters are read, the controller sets a limit --------------+
//! ```
//!
//! The computation of the limit is in `controller.rs`. The agent neither delays nor changes packets.
//!
//! Limitation: estimates reach the link without delay.

mod controller;

pub use controller::{PersistenceController, PersistenceParameters};

use super::family::{AgentKeys, AgentSite, Refusal};
use super::{Agent, Batch, Crossing, Segment, Verdict};
use lasthop_analysis::arq_chain::MAX_PDUS;
use lasthop_analysis::{AnalysisError, GilbertElliottLaw};
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::{Metric, Ratio, Report, metrics};
use lasthop_base::units::{Bytes, Duration, Instant, Probability};
use lasthop_link::channel::Errors;
use std::marker::PhantomData;

table! {
    /// Adaptive persistence: limits the link's transmissions per packet. The limit follows from the
    /// loss of TCP outside the link, so that the link loses at most a fraction of it.
    pub struct AdaptivePersistenceKeys as "adaptive-persistence" {
        /// Host of the agent, one end of the link, and the end of the TCP connections whose losses
        /// it uses; required on links. On a radio, each station has an agent, and the key is
        /// omitted.
        at: Option<String>;
        /// Direction of the packets whose transmissions are limited.
        direction: ControlledPackets = "outgoing";
        /// Residual loss of the link, as a fraction of the loss outside the link.
        alpha: Probability = "10 %";
        /// Method of converting the residual loss to a limit.
        inversion: Inversion = "exact";
        /// Weight of the latest packet in the running estimates of loss; default: 1/256.
        weight: Probability = "0.00390625";
        /// Estimate of the end-to-end loss before the first packet.
        initial_loss: Probability = "1 %";
        /// Estimate of the loss of the link before the first packet.
        initial_link_loss: Probability = "0 %";
        /// Minimum of the inferred loss outside the link.
        #[was = "least_wired_loss"]
        min_wired_loss: Probability = "0.001 %";
        /// Maximum of the inferred loss outside the link.
        #[was = "greatest_wired_loss"]
        max_wired_loss: Probability = "50 %";
        /// Maximum limit, in transmissions; the minimum is 1.
        max_transmissions: u32 = "100", Limits::range(1, 1_000);
        /// Number of packets after which the limit is recomputed.
        update_packets: u32 = "100", Limits::range(1, 1_000_000);
        /// Time after which the limit is recomputed if fewer packets have arrived.
        update_time: Duration = "1 s", Limits::POSITIVE;
        /// Probability that a frame in the good state of the channel is followed by another one in
        /// the good state. Default of this and the next three keys: those of errors
        /// "slotted-gilbert-elliott"; required with other errors.
        stay_good: Option<Probability>;
        /// Probability that a frame in the bad state of the channel is followed by another one in
        /// the bad state.
        stay_bad: Option<Probability>;
        /// Probability that a frame is lost in the good state.
        loss_good: Option<Probability>;
        /// Probability that a frame is lost in the bad state.
        loss_bad: Option<Probability>;
        /// Number of link frames per packet; default: that of the largest packet of the link, 1 if
        /// the protocol does not segment packets.
        pdus: Option<u32>, Limits::range(1, MAX_PDUS as u64);
        /// Number of frames between two transmissions of the same data.
        spacing: u32 = "1", Limits::range(1, 1_000);
    }
}

choice! {
    /// Direction of the packets that an agent limits.
    pub enum ControlledPackets {
        /// Packets sent by its host.
        Outgoing = "outgoing",
        /// Packets sent to its host; the other end applies the limit without delay.
        Incoming = "incoming",
    }
}

choice! {
    /// Method of converting a loss rate to a limit of transmissions.
    pub enum Inversion {
        /// By the dominant eigenvalue of the chain: an approximation that underestimates the loss.
        Eigenvalue = "eigenvalue",
        /// By the exact chain.
        Exact = "exact",
    }
}

/// Requirement on channel keys that are not defined by the link.
const CHANNEL: &str = "a probability such as \"2.5 %\" or 0.025, from 0 to 1; it has a default only \
    where errors of kind \"slotted-gilbert-elliott\" destroy the frames";

impl AdaptivePersistenceKeys {
    /// Returns the assumed channel, which steps once per frame (probabilities of staying good and
    /// bad, losses in good and bad), or the name of a missing key.
    fn channel(&self, site: &AgentSite<'_>) -> Result<[Probability; 4], &'static str> {
        let slotted = match site.errors[usize::from(!self.acts_on_forward(site))] {
            Errors::SlottedGilbertElliott(chain) => Some(chain),
            _ => None,
        };
        Ok([
            self.stay_good.or(slotted.map(|set| set.stay_good)).ok_or("stay_good")?,
            self.stay_bad.or(slotted.map(|set| set.stay_bad)).ok_or("stay_bad")?,
            self.loss_good.or(slotted.map(|set| set.loss_good)).ok_or("loss_good")?,
            self.loss_bad.or(slotted.map(|set| set.loss_bad)).ok_or("loss_bad")?,
        ])
    }
}

impl AdaptivePersistenceKeys {
    /// Returns the number of link frames per packet.
    fn frames_per_packet(&self, site: &AgentSite<'_>) -> u64 {
        let frames = |payload: Bytes| site.largest_packet.get().div_ceil(payload.get()).max(1);
        self.pdus.map_or_else(|| site.payload.map_or(1, frames), u64::from)
    }
}

/// State machine of the agent.
pub type Machine<P> = Box<AdaptivePersistence<P>>;

metrics! {
    /// The limit of transmissions and the estimates from which it follows.
    pub struct PersistenceMetrics {
        /// Mean over packets of the limit at their arrival at the link.
        limit_mean: "Mean limit", Count, Neither, Mean, Ratio;
        /// Limit at the end of the run.
        limit_last: "Last limit", Count, Neither, Mean;
        /// Estimate of the end-to-end loss at the end of the run.
        p_estimate: "Estimated end-to-end loss", Fraction, Neither, Mean;
        /// Estimate of the loss of the link at the end of the run.
        p_w_estimate: "Estimated link loss", Fraction, Neither, Mean;
    }
}

impl AgentKeys for AdaptivePersistenceKeys {
    type Machine<P: Segment + Clone> = Machine<P>;

    const METRICS: &'static [Metric] = PersistenceMetrics::METRICS;

    fn at(&self) -> Option<&str> {
        self.at.as_deref()
    }

    fn place_on_radio(&mut self, _base: &str, station: &str) -> Result<(), Refusal> {
        if let Some(at) = &self.at {
            let allowed = "nothing: on a radio there is one at each station";
            return Err(Refusal::new("at", format!("{at:?}"), allowed));
        }
        self.at = Some(station.to_owned());
        Ok(())
    }

    fn acts_on_forward(&self, site: &AgentSite<'_>) -> bool {
        let is_first = self.at.as_deref() == Some(site.between[0]);
        is_first == (self.direction == ControlledPackets::Outgoing)
    }

    fn check(&self, site: &AgentSite<'_>) -> Result<(), Refusal> {
        if !site.limits_transmissions {
            return Err(Refusal::new(
                "kind",
                format!("\"adaptive-persistence\" with protocol kind {:?}", site.protocol),
                "a protocol whose transmissions can be limited: \"stop-and-wait\", \"ideal-sr\", \
                 \"rlc-am\"",
            ));
        }
        if self.min_wired_loss > self.max_wired_loss {
            let allowed = format!("up to max_wired_loss, {}", self.max_wired_loss);
            return Err(Refusal::new("min_wired_loss", self.min_wired_loss.to_string(), allowed));
        }
        let [stay_good, stay_bad, ..] = self
            .channel(site)
            .map_err(|key| Refusal::new(key, lasthop_base::schema::error::MISSING, CHANNEL))?;
        if stay_good.get() >= 1.0 && stay_bad.get() >= 1.0 {
            let allowed = "below 1, or stay_good below 1: a channel that changes";
            return Err(Refusal::new("stay_bad", stay_bad.to_string(), allowed));
        }
        let frames = self.frames_per_packet(site);
        if frames > u64::from(MAX_PDUS) {
            let found =
                format!("no value, and {frames} frames per packet of {}", site.largest_packet);
            let allowed = format!(
                "up to {MAX_PDUS} frames per packet: smaller packets, a larger payload of the \
                                   protocol, or this key"
            );
            return Err(Refusal::new("pdus", found, allowed));
        }
        Ok(())
    }

    fn controlled_senders(&self) -> Option<ControlledPackets> {
        Some(self.direction)
    }

    fn build<P: Segment + Clone>(
        &self,
        site: &AgentSite<'_>,
        _connections: usize,
    ) -> Result<Machine<P>, AnalysisError> {
        // The checks of the scenario ensure that the channel is known.
        let [stay_good, stay_bad, loss_good, loss_bad] =
            self.channel(site).map_err(|key| AnalysisError {
                argument: key,
                found: "nothing".to_owned(),
                allowed: "a probability".to_owned(),
            })?;
        let channel = GilbertElliottLaw::new(
            1.0 - stay_good.get(),
            1.0 - stay_bad.get(),
            loss_good.get(),
            loss_bad.get(),
        )?;
        let controller = PersistenceController::new(PersistenceParameters {
            alpha: self.alpha.get(),
            weight: self.weight.get(),
            initial_loss: self.initial_loss.get(),
            initial_link_loss: self.initial_link_loss.get(),
            wired_loss: [self.min_wired_loss.get(), self.max_wired_loss.get()],
            max_transmissions: self.max_transmissions,
            inversion: self.inversion,
            channel,
            pdus: u32::try_from(self.frames_per_packet(site)).unwrap_or(u32::MAX),
            spacing: self.spacing,
        })?;
        let (packets, time) = (u64::from(self.update_packets), self.update_time);
        Ok(Box::new(AdaptivePersistence::new(controller, UpdateInterval { packets, time })))
    }
}

/// Condition for recomputing the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateInterval {
    /// Number of packets that enter the direction, at least 1.
    pub packets: u64,
    /// Maximum time since the first packet after the last update, above 0.
    pub time: Duration,
}

/// Adaptive persistence at the start of a direction.
#[derive(Clone, Debug)]
pub struct AdaptivePersistence<P> {
    controller: PersistenceController,
    interval: UpdateInterval,
    seen_end_to_end: Batch,
    seen_link: Batch,
    /// Packets since the last update, and time of the next update without further packets.
    entered: u64,
    deadline: Instant,
    is_due: bool,
    /// Packets before the last update, and the sum of their limits.
    packets: u64,
    limits: u64,
    carries: PhantomData<P>,
}

/// Returns the difference between `now` and `seen`, and updates `seen`.
fn since(seen: &mut Batch, now: Batch) -> Batch {
    let earlier = std::mem::replace(seen, now);
    Batch { packets: now.packets - earlier.packets, lost: now.lost - earlier.lost }
}

impl<P> AdaptivePersistence<P> {
    /// Creates an agent; both parts of `interval` are above 0.
    pub fn new(controller: PersistenceController, interval: UpdateInterval) -> Self {
        debug_assert!(
            interval.packets > 0 && interval.time > Duration::ZERO,
            "the interval is positive"
        );
        AdaptivePersistence {
            controller,
            interval,
            seen_end_to_end: Batch::default(),
            seen_link: Batch::default(),
            entered: 0,
            deadline: Instant::NEVER,
            is_due: false,
            packets: 0,
            limits: 0,
            carries: PhantomData,
        }
    }

    /// Returns the number of packets and the sum of their limits.
    fn totals(&self) -> (u64, u64) {
        let limits = self.limits + self.entered * u64::from(self.controller.limit());
        (self.packets + self.entered, limits)
    }
}

impl<P: Segment> Agent<P> for AdaptivePersistence<P> {
    fn down(&mut self, now: Instant, _crossing: Crossing, _packet: &mut P) -> Verdict {
        self.entered += 1;
        if self.deadline == Instant::NEVER {
            self.deadline = now + self.interval.time;
        }
        self.is_due |= self.entered >= self.interval.packets;
        Verdict::Forward
    }

    fn watches_all(&self) -> bool {
        true
    }

    fn inspects_received(&self) -> bool {
        false
    }

    fn next_timeout(&self) -> Instant {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.is_due |= self.deadline <= now;
    }

    fn wants_losses(&self) -> bool {
        self.is_due
    }

    /// Sets a new limit. The next update waits for a packet.
    fn on_losses(&mut self, end_to_end: Batch, link: Batch) {
        let link = since(&mut self.seen_link, link);
        let end_to_end = since(&mut self.seen_end_to_end, end_to_end);
        (self.packets, self.limits) = self.totals();
        self.entered = 0;
        self.deadline = Instant::NEVER;
        self.is_due = false;
        self.controller.update(end_to_end, link);
    }

    fn transmission_limit(&self) -> Option<u32> {
        Some(self.controller.limit())
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let (packets, limits) = self.totals();
        let metrics = PersistenceMetrics {
            // NaN without packets.
            limit_mean: Ratio::new(limits as f64, packets as f64),
            limit_last: f64::from(self.controller.limit()),
            p_estimate: self.controller.end_to_end_loss(),
            p_w_estimate: self.controller.link_loss(),
        };
        metrics.report(report);
    }
}
