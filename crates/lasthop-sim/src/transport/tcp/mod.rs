//! TCP between simulated hosts: a pair of [`Connection`]s with identical parameters.
//!
//! The pair detects spurious retransmissions, because it has access to both ends
//! ([`copies`](lasthop_tcp::copies)). A packet that retransmits data is marked as a copy, and its
//! ordinal is passed to the receiving end.

mod keys;
mod rules;

pub(crate) use keys::config_on;
pub use lasthop_tcp::TcpKeys;
pub use lasthop_tcp::config::SackRecovery;

use super::{
    Answers, CarriesDatagrams, CarriesStreams, End, Losses, Moment, Numbers, Observed, Transport,
    TransportEvent, TransportFeatures,
};
use lasthop_base::packet::{Descriptor, Extension, MAX_SACK_BLOCKS, Packet, TcpHeader, flags};
use lasthop_base::rng::Stream;
use lasthop_base::schema::metrics::{Ratio, Report, metrics};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::copies::{Cause, Spurious};
use lasthop_tcp::{Config, Connection, Limit, Role};

metrics! {
    /// The TCP connections of a flow, both ends.
    pub struct TcpMetrics {
        /// Segments sent, retransmissions, SYN and FIN included.
        segments_sent: "Segments sent", Count, Neither, Sum;
        /// Segments, or packets of QUIC, with data that was sent before.
        retransmissions: "Retransmissions", Count, Lower, Sum;
        /// Expiries of the retransmission timer.
        timeouts: "Timeouts", Count, Lower, Sum;
        /// Timeouts of the ends that opened a connection.
        opener_timeouts: "Opener timeouts", Count, Lower, Sum;
        /// Timeouts of the ends that accepted a connection.
        acceptor_timeouts: "Acceptor timeouts", Count, Lower, Sum;
        /// Timeouts whose segment had arrived.
        spurious_timeouts: "Spurious timeouts", Count, Lower, Sum;
        /// Retransmissions whose data had arrived or arrives by an earlier transmission.
        spurious_retransmissions: "Spurious retransmissions", Count, Lower, Sum;
        /// Fast retransmits: recoveries entered by duplicate or selective ACKs.
        fast_retransmits: "Fast retransmits", Count, Lower, Sum;
        /// Reductions of the congestion window.
        #[was = "window_cuts"]
        window_reductions: "Window reductions", Count, Lower, Sum;
        /// Segments received more than once.
        duplicates_received: "Duplicates received", Count, Lower, Sum;
        /// Tail loss probes sent (RFC 8985).
        tail_probes: "Tail probes", Count, Neither, Sum;
        /// Reductions of cwnd that were undone as spurious.
        #[was = "reductions_taken_back"]
        reductions_undone: "Undone reductions", Count, Neither, Sum;
        /// Part of the time with unacknowledged data in which congestion control, pacing or loss
        /// recovery limited the senders.
        limited_by_congestion_window: "Congestion-limited time", Fraction, Neither, Mean, Ratio;
        /// Part of that time in which the peer's receive window limited the senders, or congestion control by a
        /// delivery rate measured at this limit.
        limited_by_receive_window: "Receive-window-limited time", Fraction, Neither, Mean, Ratio;
        /// Part of that time in which the application waited for room in the send buffer, or congestion control
        /// limited the senders by a delivery rate measured at this limit.
        limited_by_send_buffer: "Send-buffer-limited time", Fraction, Neither, Mean, Ratio;
        /// Part of that time in which all data of the application had been sent.
        limited_by_application: "Application-limited time", Fraction, Neither, Mean, Ratio;
    }
}

metrics! {
    /// TCP that receives notifications from a link.
    pub struct NoticeMetrics {
        /// Losses of outstanding segments of which a link notified the sender (ELN).
        explicit_losses: "Explicit losses", Count, Neither, Sum;
        /// Timeouts without effect, as a link was retransmitting the segment (ERSN).
        timeouts_held: "Timeouts held", Count, Neither, Sum;
    }
}

/// The machine.
pub type Machine = Tcp;

/// Both ends of a TCP connection.
#[derive(Clone, Debug)]
pub struct Tcp {
    opener: Connection,
    /// Stored elsewhere, because a connection of any transport has the size of the largest one. A
    /// segment that arrives at the opener causes more accesses than one at the acceptor.
    acceptor: Box<Connection>,
    /// Random number stream for the phases of the hosts' clocks.
    clock: Stream,
}

/// Samples the phase of a host's clock within its tick.
fn boot_offset(clock: &mut Stream, config: &Config) -> Duration {
    let period = config.clock_period().as_nanos();
    Duration::from_nanos((clock.uniform() * period as f64) as u64)
}

impl Tcp {
    /// Creates a connection whose ends have these parameters. The phases of their clocks are
    /// sampled from `clock`.
    pub fn new(config: &Config, mut clock: Stream) -> Self {
        let [opener, acceptor] = [Role::Opener, Role::Acceptor]
            .map(|role| Connection::new(config, role, boot_offset(&mut clock, config)));
        Tcp { opener, acceptor: Box::new(acceptor), clock }
    }

    /// Returns the parameters of both ends.
    pub fn config(&self) -> &Config {
        self.opener.config()
    }

    #[inline(always)]
    fn end(&self, end: End) -> &Connection {
        match end {
            End::Opener => &self.opener,
            End::Acceptor => &self.acceptor,
        }
    }

    #[inline(always)]
    fn end_mut(&mut self, end: End) -> &mut Connection {
        match end {
            End::Opener => &mut self.opener,
            End::Acceptor => &mut self.acceptor,
        }
    }

    /// Returns an end and its peer.
    fn end_and_peer(&mut self, end: End) -> (&mut Connection, &mut Connection) {
        let Tcp { opener, acceptor, .. } = self;
        match end {
            End::Opener => (opener, acceptor),
            End::Acceptor => (acceptor, opener),
        }
    }

    /// Marks a packet as a copy: `end` has sent at least a part of it before.
    #[cold]
    #[inline(never)]
    fn mark_copy<X: Extension>(&mut self, now: Instant, end: End, packet: &mut Descriptor<X>) {
        let (end, peer) = self.end_and_peer(end);
        packet.set_copy(end.note_copy(now, &packet.tcp, peer));
    }
}

impl Transport for Tcp {
    fn features(&self) -> TransportFeatures {
        TransportFeatures::of_tcp(self.config())
    }

    fn open(&mut self) {
        for end in [&mut self.opener, &mut *self.acceptor] {
            let offset = boot_offset(&mut self.clock, end.config());
            end.reset(offset);
        }
    }

    #[inline(always)]
    fn poll_transmit<X: Extension>(
        &mut self,
        now: Instant,
        end: End,
        packet: &mut Descriptor<X>,
    ) -> bool {
        let this = self.end_mut(end);
        if this.is_quiet() {
            return false;
        }
        if let Some((tcp, bytes)) = this.poll_bare(now) {
            *packet = Descriptor { hop: 0, incarnation: 0, bytes, tcp };
            return true;
        }
        let mut header = TcpHeader::default();
        let Some(bytes) = this.poll_transmit(now, &mut header) else { return false };
        *packet = Descriptor { hop: 0, incarnation: 0, bytes, tcp: X::narrow(&header) };
        if this.has_retransmitted() {
            self.mark_copy(now, end, packet);
        }
        true
    }

    #[inline(always)]
    fn receive<X: Extension>(&mut self, now: Instant, end: End, packet: &Descriptor<X>) {
        self.end_mut(end).receive(now, &packet.tcp);
    }

    fn receive_copy<X: Extension>(&mut self, now: Instant, end: End, packet: &Descriptor<X>) {
        self.end_mut(end).receive_copy(now, &packet.tcp, packet.copy());
    }

    fn receive_damaged<X: Extension>(&mut self, now: Instant, end: End, packet: &Descriptor<X>) {
        self.end_mut(end).receive_damaged(now, &packet.tcp);
    }

    #[inline(always)]
    fn next_timeout(&self, end: End) -> Instant {
        self.end(end).next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant, end: End) -> bool {
        let (end, peer) = self.end_and_peer(end);
        let before = end.counters().timeouts;
        end.handle_timeout(now);
        let has_expired = end.counters().timeouts > before;
        if has_expired {
            end.note_timeout(now, peer);
        }
        has_expired
    }

    /// Spurious retransmissions cannot be counted for units of an erasure code, which are
    /// interchangeable. They cannot be counted either if an agent terminates connections, because
    /// the receiver gets the segments of another sender.
    fn report(connections: &[&Self], is_end_to_end: bool, report: &mut Report<'_>) {
        let (mut sent, mut again, mut fast, mut cuts, mut duplicates) = (0, 0, 0, 0, 0);
        // Timeouts of openers and of acceptors.
        let mut timeouts = [0; 2];
        let (mut probes, mut undone) = (0, 0);
        let (mut mistaken, mut needless) = (0, 0);
        let mut is_known = is_end_to_end;
        let (mut limits, mut busy) = ([Duration::ZERO; 4], Duration::ZERO);
        let (mut explicit, mut held, mut knows_notices) = (0, 0, false);
        for connection in connections {
            knows_notices |= connection.config().knows_notices();
            is_known &= !connection.config().sends_blocks();
            let ends = [&connection.opener, &*connection.acceptor];
            for (end, timeouts) in ends.into_iter().zip(&mut timeouts) {
                let counters = end.counters();
                sent += counters.segments_sent;
                again += counters.retransmissions;
                *timeouts += counters.timeouts;
                fast += counters.fast_retransmits;
                cuts += counters.window_cuts;
                probes += counters.tail_probes;
                undone += counters.spurious_reductions;
                explicit += counters.explicit_losses;
                held += counters.timeouts_held;
                duplicates += end.duplicates_received();
                let spurious = end.spurious_of_peer();
                mistaken += spurious.timeouts;
                needless += spurious.retransmissions;
                let usage = end.usage();
                busy = busy + usage.busy();
                for (time, limit) in limits.iter_mut().zip(Limit::ALL) {
                    *time = *time + usage.bounded_by(limit);
                }
            }
        }
        let [of_openers, of_acceptors] = timeouts;
        let known = |count: u64| if is_known { count as f64 } else { f64::NAN };
        // Senders of units of an erasure code measure no times, and a sender without data has none.
        let [by_congestion_window, by_receive_window, by_send_buffer, by_application] =
            limits.map(|time| Ratio::new(time.as_secs_f64(), busy.as_secs_f64()));
        let metrics = TcpMetrics {
            segments_sent: sent as f64,
            retransmissions: again as f64,
            timeouts: (of_openers + of_acceptors) as f64,
            opener_timeouts: of_openers as f64,
            acceptor_timeouts: of_acceptors as f64,
            spurious_timeouts: known(mistaken),
            spurious_retransmissions: known(needless),
            fast_retransmits: fast as f64,
            window_reductions: cuts as f64,
            duplicates_received: duplicates as f64,
            tail_probes: probes as f64,
            reductions_undone: undone as f64,
            limited_by_congestion_window: by_congestion_window,
            limited_by_receive_window: by_receive_window,
            limited_by_send_buffer: by_send_buffer,
            limited_by_application: by_application,
        };
        metrics.report(report);
        if knows_notices {
            let (explicit_losses, timeouts_held) = (explicit as f64, held as f64);
            NoticeMetrics { explicit_losses, timeouts_held }.report(report);
        }
    }
}

impl CarriesStreams for Tcp {
    #[inline]
    fn write(&mut self, end: End, bytes: u64) {
        self.end_mut(end).write(bytes);
    }

    #[inline(always)]
    fn read(&self, end: End) -> u64 {
        self.end(end).delivered_bytes()
    }

    fn waiting(&self, end: End) -> u64 {
        self.end(end).waiting_bytes()
    }

    #[inline]
    fn close(&mut self, end: End) {
        self.end_mut(end).close();
    }

    fn stop(&mut self, end: End) {
        self.end_mut(end).discard_unsent();
    }

    #[inline(always)]
    fn acknowledged(&self, end: End) -> u64 {
        self.end(end).acked_bytes()
    }

    fn unsent(&self, end: End) -> u64 {
        self.end(end).unsent_bytes()
    }

    #[inline(always)]
    fn is_all_acknowledged(&self, end: End) -> bool {
        self.end(end).is_all_acked()
    }
}

impl CarriesDatagrams for Tcp {}

impl Answers for Tcp {
    #[inline(always)]
    fn answer<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        let Some(bytes) = self.end_mut(End::Acceptor).answer(at, &mut packet.tcp) else {
            return false;
        };
        packet.bytes = bytes;
        true
    }

    fn answer_copy<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        let ordinal = packet.copy();
        packet.set_copy(0);
        let bytes = self.end_mut(End::Acceptor).answer_copy(at, &mut packet.tcp, ordinal);
        packet.bytes = bytes.unwrap_or(packet.bytes);
        bytes.is_some()
    }
}

impl Observed for Tcp {
    fn clock(&self, end: End) -> Duration {
        self.end(end).clock_at_start()
    }

    fn losses(&self, end: End) -> Losses {
        let counters = self.end(end).counters();
        let sent = counters.segments_sent - counters.retransmissions;
        Losses { sent, lost: counters.losses_declared }
    }

    fn start_observation(&mut self) {
        self.opener.observe_peer();
        self.acceptor.observe_peer();
    }

    fn observe(&self, end: End, moment: Moment<'_>, tell: &mut dyn FnMut(TransportEvent)) {
        let numbered = TransportEvent::numbered;
        match moment {
            Moment::Sent(Packet { tcp, .. }) => {
                tell(numbered("segment_sent", tcp.seq.into(), tcp.payload.into()));
            }
            Moment::Received(Packet { tcp, .. }) => {
                if tcp.payload > 0 {
                    tell(numbered("segment_received", tcp.seq.into(), tcp.payload.into()));
                } else {
                    let (name, number) = ("ack_received", Some(tcp.ack.into()));
                    tell(TransportEvent::Single { name, number, value: None });
                }
                for &(first, end) in &tcp.sack_blocks()[..usize::from(tcp.sack_blocks)] {
                    let bytes = end.wrapping_sub(first);
                    tell(numbered("sack_block", first.into(), bytes.into()));
                }
            }
            Moment::TimedOut => {
                tell(TransportEvent::Single { name: "timeout", number: None, value: None });
            }
            Moment::Settled => {
                let sender = self.end(end).sender();
                let state = sender.model_state();
                let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
                let bits = |rate: Option<f64>| known(rate.map(|bytes| 8.0 * bytes));
                let values = [
                    sender.congestion_window(),
                    sender.slow_start_threshold(),
                    bits(sender.pacing_rate()),
                    bits(state.max_bw),
                    known(state.min_rtt.map(Duration::as_secs_f64)),
                    bits(state.bw_shortterm),
                    known(state.inflight_shortterm),
                    known(state.inflight_longterm),
                    known(state.extra_acked),
                    f64::NAN,
                    f64::NAN,
                    f64::NAN,
                ];
                tell(TransportEvent::State { values, phase: state.phase });
            }
        }
    }

    fn observe_past(&mut self, tell: &mut dyn FnMut(Instant, End, TransportEvent)) {
        if self.config().sends_blocks() {
            return;
        }
        for end in End::BOTH {
            let (_, peer) = self.end_and_peer(end);
            for Spurious { cause, sequence, length, at } in peer.take_spurious_of_peer() {
                let (name, value) = match cause {
                    Cause::Retransmission => ("spurious_retransmission", Some(length.into())),
                    Cause::Timeout => ("spurious_timeout", None),
                };
                // The 32-bit number on the wire, as in other events.
                let number = Some(u64::from(sequence as u32));
                tell(at, end, TransportEvent::Single { name, number, value });
            }
        }
    }

    fn numbers(&self, packet: &Packet) -> Option<Numbers> {
        let (instance, tcp) = (packet.plain_incarnation(), packet.tcp);
        let mut blocks = [None; MAX_SACK_BLOCKS];
        let present = tcp.sack_blocks().into_iter().take(tcp.sack_blocks.into());
        for (place, block) in blocks.iter_mut().zip(present) {
            *place = Some(block);
        }
        let has_data = tcp.payload > 0 || tcp.flags & (flags::SYN | flags::FIN) != 0;
        Some(Numbers {
            instance,
            sequence: has_data.then_some(tcp.seq),
            ack: (tcp.flags & flags::ACK != 0).then_some(tcp.ack),
            blocks,
        })
    }
}
