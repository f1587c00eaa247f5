//! Records the behaviour of a simulated host as a conformance script. The script can be run against
//! a socket or a kernel.

use super::environment::ALGORITHMS;
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::{Config, Overrides, Profile, Role, presets};
use std::fmt::Write as _;

/// Bytes of the timestamps option with its padding.
const TIMESTAMPS: u64 = 12;
/// Window scale of a host whose buffers grow.
const SHIFT: u32 = 10;
/// Descriptor of the first socket of a script.
const SOCKET: u32 = 3;
/// Default send buffer of the recorded host, bytes (second value of `tcp_wmem`).
const SEND_BUFFER: u64 = 16_384;
/// Largest send buffer that the application requests, bytes.
const MOST_WRITTEN: u64 = 1 << 29;
/// Default initial window, segments.
const INITIAL_WINDOW: f64 = 10.0;

/// The reason why a host cannot be recorded: a script cannot set a parameter to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scripts cannot set {0} to the value of this host")]
pub struct Unscriptable(
    /// Name of the parameter, a field of [`Config`].
    pub &'static str,
);

/// The script of one host with profile `linux`.
///
/// ```
/// use lasthop_base::units::{Duration, Instant};
/// use lasthop_script::Recorder;
/// use lasthop_tcp::{Overrides, Profile, Role, Variant, presets};
///
/// let [linux, rfc] = [Profile::Linux, Profile::Rfc]
///     .map(|profile| presets::config(Variant::Cubic, profile, &Overrides::default()));
/// let mut recorder = Recorder::new(&linux, Role::Opener, Duration::ZERO).expect("profile linux");
/// recorder.written(Instant::ZERO, 1_000);
/// assert!(recorder.script().starts_with("--timer_hz=250\n"));
/// // Scripts describe hosts with profile `linux` only.
/// assert!(Recorder::new(&rfc, Role::Opener, Duration::ZERO).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    config: Config,
    role: Role,
    /// Linux's name of the congestion control algorithm.
    algorithm: &'static str,
    /// Time of the host's clock at the start of the run.
    clock: Duration,
    /// The events.
    text: String,
    /// Descriptor of the connection; `None` before it is open.
    socket: Option<u32>,
    /// Bytes written before the connection is open, and whether it was closed then.
    pending: (u64, bool),
    /// Total bytes written.
    written: u64,
}

impl Recorder {
    /// Starts the script of a host that opens or accepts a connection. `clock` is the time of the
    /// host's clock at the start of the run, which determines the ticks of its timers.
    ///
    /// # Errors
    ///
    /// Scripts cannot set a parameter to the value in `config`.
    pub fn new(config: &Config, role: Role, clock: Duration) -> Result<Self, Unscriptable> {
        let set = Overrides {
            segment: Some(config.segment),
            timer_tick: Some(config.timer_tick),
            sack: Some(config.sack),
            timestamps: Some(config.timestamps),
            restart_after_idle: Some(config.restart_after_idle),
            initial_window: Some(config.initial_window),
            dupack_threshold: Some(config.dupack_threshold),
            min_rto: Some(config.min_rto),
            max_rto: Some(config.max_rto),
            ..Overrides::default()
        };
        let algorithm = config.congestion_control;
        let found = ALGORITHMS.iter().find_map(|&(name, variant)| {
            let host = presets::config(variant, Profile::Linux, &set);
            (host.congestion_control == algorithm).then_some((name, host))
        });
        let Some((algorithm, host)) = found else {
            return Err(Unscriptable("congestion_control"));
        };
        let tick = config.timer_tick.as_nanos();
        let has_rate = tick == 0 || 1_000_000_000 % tick == 0;
        let parameters = [
            ("profile", config.profile == host.profile),
            ("sack_recovery", config.recovery == host.recovery),
            ("hystart", config.hystart == host.hystart),
            ("pacing", config.pacing == host.pacing),
            ("undo", config.undo == host.undo),
            ("receive_window", config.first_window() == host.first_window()),
            ("autotuning", config.autotuning),
            ("send_buffer", config.send_buffer.is_none()),
            ("segmentation_offload", config.segmentation_offload),
            ("delayed_ack", config.delayed_ack == host.delayed_ack),
            ("ecn", config.ecn == host.ecn && !config.ecn),
            ("abe", config.abe == host.abe),
            ("nagle", !config.nagle),
            ("limited_transmit", config.limited_transmit == host.limited_transmit),
            ("handshake", config.handshake),
            ("pad_segments", !config.pad_segments),
            ("initial_window", config.initial_window.fract() == 0.0),
            ("initial_rto", config.initial_rto == host.initial_rto),
            ("clock_granularity", config.clock_granularity == host.clock_granularity),
            ("timer_tick", has_rate),
        ];
        if let Some(&(name, _)) = parameters.iter().find(|(_, is_equal)| !is_equal) {
            return Err(Unscriptable(name));
        }
        Ok(Recorder {
            config: *config,
            role,
            algorithm,
            clock,
            text: String::new(),
            socket: None,
            pending: (0, false),
            written: 0,
        })
    }

    /// Returns a time of the script. Times are such that the clock's ticks are whole.
    fn time(&self, now: Instant) -> String {
        let shift = match self.config.timer_tick.as_nanos() {
            0 => 0,
            tick => self.clock.as_nanos() % tick,
        };
        let micros = (now.as_nanos() + shift) / 1_000;
        format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }

    /// Starts a line.
    fn at(&mut self, now: Instant) {
        let time = self.time(now);
        let _ = write!(self.text, "{time} ");
    }

    /// Records a call of the application on the connection.
    fn call(&mut self, now: Instant, call: &str, arguments: &str, result: u64) {
        let socket = self.socket.unwrap_or(SOCKET);
        self.at(now);
        let _ = writeln!(self.text, "{call}({socket}, {arguments}) = {result}");
    }

    /// Records that the application writes `bytes`.
    pub fn written(&mut self, now: Instant, bytes: u64) {
        self.written += bytes;
        if self.socket.is_some() {
            self.write(now, bytes);
        } else {
            self.pending.0 += bytes;
        }
    }

    fn write(&mut self, now: Instant, bytes: u64) {
        self.call(now, "write", &format!("..., {bytes}"), bytes);
    }

    /// Records that the application reads `bytes`, all available ones.
    pub fn read(&mut self, now: Instant, bytes: u64) {
        self.call(now, "read", &format!("..., {bytes}"), bytes);
    }

    /// Records that the application closes. Data written at the same time is sent with the FIN.
    pub fn closed(&mut self, now: Instant) {
        if self.socket.is_some() {
            self.hold_last_write(now);
            self.call(now, "shutdown", "SHUT_WR", 0);
        } else {
            self.pending.1 = true;
        }
    }

    /// If the last event is a write at `now`, makes it wait for the next call.
    fn hold_last_write(&mut self, now: Instant) {
        let start = self.text.trim_end().rfind('\n').map_or(0, |end| end + 1);
        let write = format!("{} write(", self.time(now));
        if let Some(rest) = self.text[start..].strip_prefix(&write) {
            let rest = rest.replacen(')', ", MSG_MORE)", 1);
            self.text.truncate(start);
            self.at(now);
            self.text.push_str("send(");
            self.text.push_str(&rest);
        }
    }

    /// Records that the connection is open, and the calls that waited for that.
    fn opened(&mut self, now: Instant, socket: u32) {
        self.socket = Some(socket);
        let (bytes, is_closed) = std::mem::take(&mut self.pending);
        if bytes > 0 {
            self.write(now, bytes);
        }
        if is_closed {
            self.closed(now);
        }
    }

    /// Records that the host sends a segment.
    pub fn sent(&mut self, now: Instant, header: &TcpHeader) {
        if self.text.is_empty() && self.role == Role::Opener {
            self.at(now);
            let _ = writeln!(self.text, "connect({SOCKET}, ..., ...) = -1 EINPROGRESS (...)");
        }
        self.segment(now, '>', header);
    }

    /// Records that the host receives a segment.
    pub fn received(&mut self, now: Instant, header: &TcpHeader) {
        self.segment(now, '<', header);
        let is_syn = header.flags & flags::SYN != 0;
        match self.role {
            _ if self.socket.is_some() => {}
            Role::Opener if is_syn => self.opened(now, SOCKET),
            Role::Acceptor if !is_syn => {
                self.at(now);
                let _ = writeln!(self.text, "accept({SOCKET}, ..., ...) = {}", SOCKET + 1);
                self.opened(now, SOCKET + 1);
            }
            Role::Opener | Role::Acceptor => {}
        }
    }

    fn segment(&mut self, now: Instant, direction: char, header: &TcpHeader) {
        let is_syn = header.flags & flags::SYN != 0;
        let has_ack = header.flags & flags::ACK != 0;
        self.at(now);
        let letters = match (is_syn, header.flags & flags::FIN != 0) {
            (true, _) => "S",
            (_, true) => "F",
            _ if header.is_pushed() => "P",
            _ => "",
        };
        let dot = if has_ack { "." } else { "" };
        let (seq, payload) = (header.seq, header.payload);
        let _ = write!(self.text, "{direction} {letters}{dot} {seq}:{}({payload})", seq + payload);
        if has_ack {
            let _ = write!(self.text, " ack {}", header.ack);
        }
        if direction == '<' {
            let shift = if is_syn { 0 } else { SHIFT };
            let window = (header.window >> shift).min(u16::MAX.into());
            let _ = write!(self.text, " win {window}");
        }
        let options = self.options(header, is_syn);
        if !options.is_empty() {
            let _ = write!(self.text, " <{}>", options.join(","));
        }
        self.text.push('\n');
    }

    /// The MSS that the host announces.
    fn mss(&self) -> u64 {
        self.config.segment.get() + if self.config.timestamps { TIMESTAMPS } else { 0 }
    }

    fn options(&self, header: &TcpHeader, is_syn: bool) -> Vec<String> {
        let mut options = Vec::new();
        if is_syn {
            options.push(format!("mss {}", self.mss()));
            if self.config.sack {
                options.push("sackOK".to_owned());
            }
        }
        if header.has_timestamps {
            let (value, echo) = header.options.timestamps;
            options.push(format!("TS val {value} ecr {echo}"));
        }
        if is_syn {
            options.push(format!("wscale {SHIFT}"));
        }
        let blocks = &header.sack_blocks()[..header.sack_blocks.into()];
        if !blocks.is_empty() {
            let blocks: Vec<_> =
                blocks.iter().map(|(start, end)| format!("{start}:{end}")).collect();
            options.push(format!("sack {}", blocks.join(" ")));
        }
        options
    }

    /// Returns the script so far.
    pub fn script(&self) -> String {
        let Recorder { config, algorithm, .. } = self;
        let mut text = String::new();
        if let tick @ 1.. = config.timer_tick.as_nanos() {
            let (hz, phase) = (1_000_000_000 / tick, self.clock.as_nanos() / tick);
            let _ = writeln!(text, "--timer_hz={hz}\n--timer_phase={phase}");
        }
        if config.segment.get() + TIMESTAMPS > 1460 {
            let _ = writeln!(text, "--mtu={}", self.mss() + 40);
        }
        text.push_str("`../common/defaults.sh\n");
        let micros = config.min_rto.as_nanos() / 1_000;
        for (key, value) in [
            ("congestion_control", (*algorithm).to_owned()),
            ("rmem", "\"4096 131072 33554432\"".to_owned()),
            ("wmem", format!("\"4096 {SEND_BUFFER} 4194304\"")),
            ("timestamps", u8::from(config.timestamps).to_string()),
            ("sack", u8::from(config.sack).to_string()),
            ("slow_start_after_idle", u8::from(config.restart_after_idle).to_string()),
            ("reordering", config.dupack_threshold.to_string()),
            ("rto_min_us", micros.to_string()),
            ("rto_max_ms", (config.max_rto.as_nanos() / 1_000_000).to_string()),
        ] {
            let _ = writeln!(text, "sysctl -q net.ipv4.tcp_{key}={value}");
        }
        // Values of keys with the kernel's defaults.
        let of_hosts = [
            ("frto", u64::from(config.frto) * 2, 2),
            ("early_retrans", u64::from(config.tail_probes) * 3, 3),
            ("min_tso_segs", config.min_tso_segments.into(), 2),
            ("syn_linear_timeouts", config.syn_linear_timeouts.into(), 4),
        ];
        let of_sack = [
            ("dsack", u64::from(config.dsack), 1),
            ("comp_sack_delay_ns", config.sack_compression_delay.as_nanos(), 1_000_000),
            ("comp_sack_slack_ns", config.sack_compression_slack.as_nanos(), 100_000),
            ("comp_sack_nr", config.sack_compression_count.into(), 44),
        ];
        let of_sack = of_sack.into_iter().filter(|_| config.sack);
        for (key, value, default) in of_hosts.into_iter().chain(of_sack) {
            if value != default {
                let _ = writeln!(text, "sysctl -q net.ipv4.tcp_{key}={value}");
            }
        }
        if config.initial_window != INITIAL_WINDOW {
            let window = config.initial_window;
            let _ = writeln!(text, "ip route replace default dev tun0 initcwnd {window}");
        }
        text.truncate(text.trim_end().len());
        let _ = writeln!(text, "`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = {SOCKET}");
        let mut option = |name: &str, value| {
            let _ = writeln!(text, "0 setsockopt({SOCKET}, {name}, [{value}], 4) = 0");
        };
        option("SOL_TCP, TCP_NODELAY", 1);
        if self.written > SEND_BUFFER {
            // The application writes everything in one call. The memory is twice the given size.
            option("SOL_SOCKET, SO_SNDBUFFORCE", (2 * self.written).min(MOST_WRITTEN));
        }
        if self.role == Role::Acceptor {
            let _ = writeln!(text, "0 bind({SOCKET}, ..., ...) = 0\n0 listen({SOCKET}, 1) = 0");
        }
        text + &self.text
    }
}
