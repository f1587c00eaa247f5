//! Data in flight: sequence numbers, timers, windows, and the state shared by all recovery schemes.

mod acks;
mod kept;
mod losses;
mod pauses;
mod peer_window;
mod rates;
mod sending;
mod writing;

use crate::config::{Config, Profile, UndoKind, WritePolicy};
use crate::congestion_control::{Algorithm, CongestionControl, Passage};
use crate::loss::duplicates::DuplicateAcks;
use crate::policy::Policies;
use crate::rtt::RttEstimator;
use crate::send_buffer::SendBuffer;
use crate::sender::SenderCounters;
use crate::sent::SentSegments;
use crate::timers::Timers;
use crate::undo::Undo;
use crate::usage::Usage;
use crate::validation::Validation;
use crate::wheel::Wheel;
use kept::Kept;
use lasthop_base::units::{Duration, Instant};
use peer_window::PeerWindow;
use sending::Output;
pub(crate) use sending::Resent;
use writing::Stream;

/// Data in flight, and the state shared by all recovery schemes.
#[derive(Clone, Debug)]
pub struct Flight {
    pub(crate) config: Config,
    /// Payload bytes of a full segment.
    pub(crate) mss: u64,
    /// Oldest unacknowledged byte (RFC 9293: SND.UNA).
    pub(crate) snd_una: u64,
    /// Next byte to send (SND.NXT); a timeout resets it to `snd_una`.
    pub(crate) snd_nxt: u64,
    /// One past the highest byte ever sent.
    pub(crate) snd_max: u64,
    /// One past the last byte that the application has written (SYN and FIN count as one each).
    pub(crate) write_end: u64,
    /// Segmentation of written data.
    pub(crate) stream: Stream,
    pub(crate) peer: PeerWindow,
    pub(crate) congestion_control: Algorithm,
    pub(crate) rtt: RttEstimator,
    pub(crate) duplicates: DuplicateAcks,
    pub(crate) timers: Timers,
    /// Records of outstanding segments.
    kept: Kept,
    parts: Parts,
    pub(crate) hints: Hints,
    pub(crate) output: Output,
    /// Send buffer with data that waits for room, under [`Config::autotuning`] or
    /// [`Config::send_buffer`].
    buffer: Option<Box<SendBuffer>>,
    pub(crate) undo: Undo,
    /// Under [`Config::window_validation`].
    validation: Option<Box<Validation>>,
    gate: SendGate,
    /// The segment used for the RTT measurement: its end and send time (Karn's algorithm).
    pub(crate) timed: Option<(u64, Instant)>,
    /// Window after the handshake in segments; 1 after the loss of one SYN (ns-2) or two (RFC 6928,
    /// section 2).
    pub(crate) initial_window: f64,
    pub(crate) losses: Losses,
    pub(crate) counters: SenderCounters,
    pub(crate) usage: Usage,
}

/// Values derived from the configuration.
#[derive(Clone, Debug)]
struct Parts {
    /// Whether send calls are merged: [`WritePolicy::Stream`].
    joins_writes: bool,
    /// Whether the congestion control algorithm measures deliveries.
    measures_deliveries: bool,
    /// Whether an idle period before a segment changes the window.
    restarts_after_idle: bool,
    /// Whether components other than recovery and congestion control process each ACK: records,
    /// undo, ECN, an application that waits for room.
    is_watched: bool,
    /// Whether the growth of the window is checked at each ACK.
    checks_window_growth: bool,
    /// Whether the transfer is one-way, and neither that nor `is_watched` or `joins_writes` is set.
    has_plain_acks: bool,
    /// Quantity from which a reduction is computed.
    in_use: InUse,
}

impl Parts {
    fn new(config: &Config, kept: &Kept) -> Self {
        let joins_writes = config.writes != WritePolicy::Messages;
        let is_watched = !kept.is_nothing()
            || config.undo != UndoKind::Off
            || config.ecn
            || config.send_buffer.is_some();
        let checks_window_growth = config.window_validation || config.byte_counting.is_some();
        Parts {
            joins_writes,
            measures_deliveries: config.congestion_control.measures(),
            restarts_after_idle: config.window_validation || config.restart_after_idle,
            is_watched,
            checks_window_growth,
            has_plain_acks: config.one_way && !is_watched && !checks_window_growth && !joins_writes,
            in_use: match config.profile {
                Profile::Ns2 => InUse::Window { receive_window: config.receive_window },
                Profile::Rfc => InUse::Flight,
                Profile::Linux => InUse::CongestionWindow,
            },
        }
    }
}

/// Which data may be sent next.
#[derive(Clone, Copy, Debug)]
struct SendGate {
    /// One past the last byte that the windows of congestion control, recovery and receiver permit.
    allowed: u64,
    /// Whether new data below `allowed` is all that may be sent, independent of recovery.
    is_plain: bool,
    /// Whether nothing may be sent before the next input.
    is_quiet: bool,
    /// Whether an ACK for new data only advances SND.UNA and grows the window.
    takes_plain_acks: bool,
    /// Whether the send fast path applies: no segment records, pacing, idle restart or pending
    /// retransmission.
    has_fast_path: bool,
}

impl SendGate {
    fn new(has_fast_path: bool) -> Self {
        SendGate {
            allowed: 0,
            is_plain: true,
            is_quiet: true,
            takes_plain_acks: false,
            has_fast_path,
        }
    }
}

/// Information in ACKs in addition to the acknowledgment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    /// The ACK being processed echoes a mark of the network (ECE).
    pub has_echo_of_mark: bool,
    /// Acknowledgment number of the latest ACK with a mark that its segment was lost on a link.
    pub loss_mark: Option<u64>,
    /// Time of the latest loss of a segment that queues drop first, for a sender that classifies
    /// losses by it.
    out_lost: Option<Instant>,
    /// Send and arrival times from its timestamps, for a congestion control algorithm that requires
    /// them.
    pub passage: Option<Passage>,
    /// RTT sample of the latest ACK, for a congestion control algorithm that measures.
    ack_rtt: Option<Duration>,
}

/// Losses and reductions so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Number of expiries of the timer for the SYN.
    syn_timeouts: u32,
    /// `snd_una` at the latest timeout.
    timed_out_at: Option<u64>,
    /// One past the highest byte sent at that time.
    pub timed_out_to: u64,
    /// One past the highest byte declared lost; 0 before any.
    declared_to: u64,
    /// Number of timeouts that did not reduce the threshold further, but are marked with CWR
    /// nevertheless (Linux).
    pub extra_cwr_marks: u64,
    /// Number of reductions up to which no mark with CWR is required because they were undone.
    pub undone_reductions: u64,
    /// Whether a duplicate ACK permits one new segment (RFC 3042).
    limited_transmit_due: bool,
    /// Bytes sent by limited transmit since the latest ACK for new data.
    limited_bytes: u64,
}

/// Quantity from which a reduction is computed.
#[derive(Clone, Copy, Debug)]
enum InUse {
    /// The congestion window with inflation, at most the receive window in segments (ns-2).
    Window { receive_window: f64 },
    /// The congestion window (Linux).
    CongestionWindow,
    /// The flight size, without what limited transmit has sent (RFC 5681, section 3.2).
    Flight,
}

/// Initial congestion window in segments: 1 before a handshake.
fn first_cwnd(config: &Config, initial_window: f64) -> f64 {
    if config.handshake { 1.0 } else { initial_window }
}

/// Creates the timers of a host whose clock is at `boot_offset`.
fn first_timers(config: &Config, boot_offset: Duration) -> Timers {
    Timers::new(Wheel::new(config.timer_tick, boot_offset))
}

/// Returns `true` if only the windows limit full segments, as long as none is retransmitted.
fn has_send_fast_path(config: &Config, kept: &Kept, parts: &Parts) -> bool {
    kept.is_nothing() && !config.pacing && !parts.restarts_after_idle
}

impl Flight {
    /// Creates the state of the first connection instance.
    pub(crate) fn new(config: &Config, boot_offset: Duration) -> Self {
        let first = u64::from(!config.handshake);
        let kept = Kept::new(config);
        let parts = Parts::new(config, &kept);
        Flight {
            config: *config,
            mss: config.segment.get(),
            snd_una: first,
            snd_nxt: first,
            snd_max: first,
            write_end: first,
            stream: Stream::new(config),
            peer: PeerWindow::new(config.first_window()),
            congestion_control: Algorithm::new(config, first_cwnd(config, config.initial_window)),
            rtt: RttEstimator::new(config, boot_offset),
            duplicates: DuplicateAcks::new(config.dupack_threshold),
            timers: first_timers(config, boot_offset),
            gate: SendGate::new(has_send_fast_path(config, &kept, &parts)),
            kept,
            parts,
            hints: Hints::default(),
            output: Output::new(config.pacing),
            buffer: SendBuffer::new(config).map(Box::new),
            undo: Undo::new(config),
            validation: config.window_validation.then(Box::default),
            timed: None,
            initial_window: config.initial_window,
            losses: Losses::default(),
            counters: SenderCounters::default(),
            usage: Usage::default(),
        }
    }

    /// Returns `true` if no data was ever written and no ACK can change the state.
    pub(crate) fn is_unused(&self) -> bool {
        let first = u64::from(!self.config.handshake);
        self.config.one_way && !self.parts.is_watched && self.write_end == first
    }

    /// Starts a new connection instance if the previous one is unused.
    pub(crate) fn restart_clock(&mut self, boot_offset: Duration) {
        self.rtt = RttEstimator::new(&self.config, boot_offset);
        self.timers = first_timers(&self.config, boot_offset);
    }

    /// Resets the state for a new connection instance. Only the counters and the times are kept, and with ns-2
    /// the initial window of one of a host that has lost a SYN. The state is reset in place, since
    /// a browser starts one instance per request. All fields are listed, so that none is forgotten.
    pub(crate) fn reset(&mut self, boot_offset: Duration) {
        let Flight {
            config,
            mss: _,
            snd_una,
            snd_nxt,
            snd_max,
            write_end,
            stream,
            peer,
            congestion_control,
            rtt,
            duplicates,
            timers,
            kept,
            parts,
            hints,
            output,
            buffer,
            undo,
            validation,
            gate,
            timed,
            initial_window,
            losses,
            counters,
            usage,
        } = self;
        usage.set(None, counters.losses_declared);
        if config.profile != Profile::Ns2 {
            *initial_window = config.initial_window;
        }
        let first = u64::from(!config.handshake);
        [*snd_una, *snd_nxt, *snd_max, *write_end] = [first; 4];
        *gate = SendGate::new(has_send_fast_path(config, kept, parts));
        *timed = None;
        (*hints, *losses) = (Hints::default(), Losses::default());
        *peer = PeerWindow::new(config.first_window());
        *output = Output::new(output.pacer.is_some());
        *undo = Undo::new(config);
        *timers = first_timers(config, boot_offset);
        *rtt = RttEstimator::new(config, boot_offset);
        *duplicates = DuplicateAcks::new(config.dupack_threshold);
        congestion_control.reset(config, first_cwnd(config, *initial_window));
        stream.clear(config);
        kept.reset();
        if let Some(validation) = validation {
            **validation = Validation::default();
        }
        if let Some(buffer) = buffer {
            buffer.clear(config);
        }
    }

    /// Takes over the SYN sent by `before`, with which the parameters of this flight were
    /// negotiated.
    pub(crate) fn adopt_handshake(&mut self, before: Flight) {
        [self.snd_una, self.snd_nxt, self.snd_max] =
            [before.snd_una, before.snd_nxt, before.snd_max];
        self.write_end = before.write_end;
        self.stream.message_ends = before.stream.message_ends;
        self.stream.first_message_end = before.stream.first_message_end;
        (self.kept, self.timed, self.rtt) = (before.kept, before.timed, before.rtt);
        (self.timers, self.counters, self.usage) = (before.timers, before.counters, before.usage);
        (self.losses, self.initial_window) = (before.losses, before.initial_window);
    }

    /// The policies of the profile.
    pub(crate) fn policies(&self) -> Policies {
        Policies::of(self.config.profile)
    }

    /// Returns `true` if the timer of the SYN has expired.
    pub(crate) fn has_lost_syn(&self) -> bool {
        self.losses.syn_timeouts > 0
    }

    /// Starts to retransmit all outstanding data, from the oldest byte onwards.
    pub(crate) fn go_back(&mut self) {
        self.snd_nxt = self.snd_una;
        self.gate.has_fast_path = false;
    }

    /// Records of outstanding segments, for a connection that keeps them.
    pub(crate) fn records(&self) -> &SentSegments {
        let Kept::Records(records) = &self.kept else { panic!("this recovery keeps records") };
        records
    }

    /// Returns `true` if no segment that was declared lost waits for its retransmission, as far as
    /// there are records.
    pub(crate) fn is_all_resent(&self) -> bool {
        let Kept::Records(records) = &self.kept else { return true };
        records.marks().lost <= records.marks().resent
    }

    /// Like [`Self::records`], but mutable.
    pub(crate) fn records_mut(&mut self) -> &mut SentSegments {
        let Kept::Records(records) = &mut self.kept else { panic!("this recovery keeps records") };
        records
    }

    /// Minimum RTT measured with the records.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.kept.min_rtt()
    }

    /// Returns `true` if all written data is acknowledged.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.snd_una == self.write_end && !self.has_waiting()
    }

    /// Outstanding data in segments, rounded up.
    pub(crate) fn outstanding_segments(&self) -> u64 {
        (self.snd_max - self.snd_una).div_ceil(self.mss)
    }

    /// Recomputes how far data may be sent after a change of the windows. `inflation`: segments
    /// that recovery adds to the congestion window; `is_plain`: whether transmissions are
    /// independent of recovery.
    #[inline(always)]
    pub(crate) fn refresh(&mut self, inflation: u32, is_plain: bool) {
        let window = self.congestion_control.window() + u64::from(inflation) * self.mss;
        self.compare_windows(window);
        self.gate.allowed = if self.snd_una == 0 {
            // No data follows a SYN before it is acknowledged.
            1
        } else {
            self.snd_una + window.min(self.peer.window)
        };
        if self.parts.joins_writes {
            self.limit_joined(window);
        }
        self.set_plain(is_plain);
    }

    /// Like [`Self::refresh`] after an ACK for new data, without inflation and independent of
    /// recovery, if the connection [takes plain ACKs](Self::takes_plain_acks).
    #[inline(always)]
    fn refresh_calm(&mut self) {
        let window = self.congestion_control.window();
        self.compare_windows(window);
        self.gate.allowed = self.snd_una + window.min(self.peer.window);
        self.gate.is_plain = true;
        self.gate.is_quiet = !self.has_next();
    }

    #[inline(always)]
    fn set_plain(&mut self, is_plain: bool) {
        self.gate.is_plain = is_plain && !self.losses.limited_transmit_due;
        self.gate.is_quiet = self.gate.is_plain && !self.has_next();
    }

    /// Returns `true` if a segment at `snd_nxt` exists and the windows permit it.
    #[inline(always)]
    fn has_next(&self) -> bool {
        let end = self.snd_nxt + self.mss;
        if end + 1 < self.stream.first_message_end {
            end <= self.gate.allowed
        } else {
            self.snd_nxt < self.write_end
                && self.segment_end_beyond(self.snd_nxt) <= self.gate.allowed
        }
    }

    /// Records that not only the windows determine transmissions, so that recovery has to be
    /// queried.
    pub(crate) fn stay_awake(&mut self) {
        self.gate.is_quiet = false;
    }

    /// Determines whether the next ACK for new data takes the fast path. `is_calm`: recovery does
    /// not process it.
    #[inline(always)]
    pub(crate) fn allow_plain_acks(&mut self, is_calm: impl FnOnce() -> bool) {
        if self.parts.has_plain_acks {
            let is_first = self.snd_una == 0;
            self.gate.takes_plain_acks = !is_first && !self.has_counted_duplicates() && is_calm();
        }
    }

    /// Returns `true` if an ACK for new data only advances SND.UNA and grows the window: recovery is
    /// not active, there is nothing to reset, and only congestion control processes the ACK.
    #[inline]
    pub(crate) fn takes_plain_acks(&self) -> bool {
        self.gate.takes_plain_acks
    }

    /// Returns `true` if nothing may be sent before the next input.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.gate.is_quiet
    }

    /// Takes the segment at `snd_nxt` if the windows permit it.
    #[inline]
    pub(crate) fn next_allowed(&mut self) -> Option<u64> {
        let seq = self.snd_nxt;
        if seq >= self.write_end {
            return None;
        }
        let end = self.segment_end(seq);
        if end > self.gate.allowed {
            return None;
        }
        self.snd_nxt = end;
        Some(seq)
    }

    /// Holds back new data until the next [`Self::refresh`].
    pub(crate) fn hold_new(&mut self) {
        self.stream.held_from = 0;
    }

    /// Returns `true` if the receive window permits the segment at `snd_nxt` and it is not held
    /// back.
    pub(crate) fn fits_receiver(&self) -> bool {
        if self.snd_nxt >= self.write_end {
            return false;
        }
        if self.snd_una == 0 {
            return self.snd_nxt == 0;
        }
        let end = self.segment_end(self.snd_nxt);
        end <= self.snd_una + self.peer.window && end <= self.stream.held_from
    }

    /// Returns `true` if unsent data exists and new data is not held back.
    pub(crate) fn has_unsent(&self) -> bool {
        self.snd_nxt < self.write_end && self.stream.held_from > 0
    }

    /// Returns `true` if the receive window permits the segment at `snd_nxt`, even if it is held
    /// back.
    pub(crate) fn fits_window(&self) -> bool {
        self.snd_nxt < self.write_end
            && self.segment_end(self.snd_nxt) <= self.snd_una + self.peer.window
    }

    /// Changes the congestion control algorithm.
    pub(crate) fn change_congestion_control(&mut self, config: &Config, now: Instant) {
        let (cwnd, ssthresh) = (self.congestion_control.cwnd(), self.congestion_control.ssthresh());
        self.congestion_control = Algorithm::new(config, cwnd);
        if ssthresh.is_finite() {
            self.congestion_control.slow_start_to(cwnd, ssthresh);
        }
        self.parts.measures_deliveries = config.congestion_control.measures();
        self.config.congestion_control = config.congestion_control;
        let rtt = Some(self.rtt.srtt()).filter(|rtt| *rtt > Duration::ZERO);
        self.congestion_control.on_established(now, rtt);
        if config.pacing {
            self.output.start_pacing();
        }
    }

    /// Quantity from which a reduction is computed, in segments.
    pub(crate) fn in_use(&self, inflation: u32) -> f64 {
        match self.parts.in_use {
            InUse::Window { receive_window } => {
                (self.congestion_control.cwnd() + f64::from(inflation)).min(receive_window)
            }
            InUse::CongestionWindow => self.congestion_control.cwnd(),
            InUse::Flight => {
                (self.snd_max - self.snd_una).saturating_sub(self.losses.limited_bytes) as f64
                    / self.mss as f64
            }
        }
    }

    /// [`Self::in_use`] at a timeout: `in_use`, at most the congestion window. RFC 5681, section
    /// 3.1, refers to the "amount of outstanding data in the network". FlightSize also counts data
    /// that has left the network, reported by SACK or duplicate ACKs, and that recovery has
    /// replaced by other segments.
    pub(crate) fn in_use_at_timeout(&self, in_use: f64) -> f64 {
        in_use.min(self.congestion_control.cwnd())
    }

    /// Takes the segment at `snd_nxt` and advances `snd_nxt`.
    #[inline]
    pub(crate) fn advance_next(&mut self) -> u64 {
        let seq = self.snd_nxt;
        self.snd_nxt = self.segment_end(seq);
        seq
    }
}
