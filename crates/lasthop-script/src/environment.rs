//! Configuration of the host of a script: a profile, `net.ipv4.*` settings, and the resulting
//! socket parameters.

use super::Note;
use super::parser::LONGEST;
use super::segments::{Options, Segment};
use lasthop_base::packet::flags;
use lasthop_base::units::{Bytes, Duration};
use lasthop_tcp::config::RecoveryKind;
use lasthop_tcp::host::{
    Configure, EcnOffer, KeepAlive, Limits, MtuProbing, Negotiated, ReceiveMemory, Settings,
};
use lasthop_tcp::presets;
use lasthop_tcp::{Config, Overrides, Profile, Variant, Wheel};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum packet size of a path without a smaller limit, bytes.
const ETHERNET_MTU: u32 = 1500;

/// Initial sequence number. Sequence numbers of a script wrap around 32 bits in the first window,
/// at a point where usually no segment ends.
pub(super) const INITIAL_SEQUENCE: u32 = u32::MAX - 1506;

/// Initial sequence number of the peer.
pub(super) const PEER_SEQUENCE: u32 = 0x7fff_ff00;

/// Bytes of the IPv4 and TCP headers.
const IPV4_HEADERS: u32 = 40;
/// Bytes of the IPv6 and TCP headers.
const IPV6_HEADERS: u32 = 60;

/// Settings of `net.ipv4`, with the values of the `defaults.sh` of packetdrill's scripts.
const DEFAULTS: &[(&str, &str)] = &[
    ("tcp_rmem", "4096 540000 15728640"),
    ("tcp_wmem", "4096 262144 4194304"),
    ("tcp_timestamps", "1"),
    ("tcp_sack", "1"),
    ("tcp_window_scaling", "1"),
    ("tcp_syn_retries", "5"),
    ("tcp_synack_retries", "5"),
    ("tcp_retries2", "15"),
    ("tcp_orphan_retries", "0"),
    ("tcp_fin_timeout", "60"),
    ("tcp_keepalive_time", "7200"),
    ("tcp_keepalive_intvl", "75"),
    ("tcp_keepalive_probes", "9"),
    ("tcp_congestion_control", ""),
    ("tcp_rto_min_us", "200000"),
    ("tcp_rto_max_ms", "60000"),
    ("tcp_reordering", "3"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_ecn", "0"),
    ("tcp_syn_linear_timeouts", "4"),
    ("tcp_dsack", "1"),
    ("tcp_min_tso_segs", "2"),
    ("tcp_frto", "2"),
    ("tcp_early_retrans", "4"),
    ("tcp_mtu_probing", "0"),
    ("tcp_base_mss", "1024"),
    ("tcp_mtu_probe_floor", "48"),
    ("tcp_probe_threshold", "8"),
    ("tcp_retries1", "3"),
    ("tcp_moderate_rcvbuf", "1"),
    ("tcp_comp_sack_delay_ns", "1000000"),
    ("tcp_comp_sack_slack_ns", "100000"),
    ("tcp_comp_sack_nr", "44"),
    ("tcp_notsent_lowat", "4294967295"),
    // Default before Linux 6.17; limits the buffer that an application may set.
    ("net.core.rmem_max", "212992"),
];

/// Known settings without effect.
const WITHOUT_EFFECT: &[&str] = &[
    "tcp_adv_win_scale",
    "tcp_allowed_congestion_control",
    "tcp_app_win",
    "tcp_autocorking",
    "tcp_backlog_ack_defer",
    "tcp_challenge_ack_limit",
    "tcp_ecn_fallback",
    "tcp_max_reordering",
    "tcp_min_rtt_wlen",
    "tcp_no_ssthresh_metrics_save",
    "tcp_recovery",
    "tcp_tso_rtt_log",
    "tcp_fack",
    "tcp_tso_win_divisor",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_syncookies",
    "tcp_no_metrics_save",
    "tcp_limit_output_bytes",
    "tcp_invalid_ratelimit",
    "tcp_pacing_ss_ratio",
    "tcp_pacing_ca_ratio",
];

/// Offer in the SYN of a script.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    options: Options,
    ecn: EcnOffer,
}

impl Offer {
    /// Returns the offer of a SYN or SYN/ACK.
    pub fn of(syn: &Segment) -> Self {
        let ecn = match syn.flags & (flags::ECE | flags::CWR) {
            0 => EcnOffer::Never,
            flags::ECE => EcnOffer::Grants,
            _ => EcnOffer::Asks,
        };
        Offer { options: syn.options.clone(), ecn }
    }
}

/// Settings of the host.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    profile: Profile,
    values: BTreeMap<&'static str, String>,
    /// MTU, bytes, and the MSS that is announced: the MTU without headers.
    mtu: u32,
    mss: u32,
    /// Interval between timer ticks, and time since boot at the start of the script. Scripts that
    /// specify neither expect exact timers.
    ticks: [Duration; 2],
    /// `initcwnd` of the route, segments.
    initial_window: Option<f64>,
    /// Whether the script has configured its host.
    is_configured: bool,
    /// Offer in the script's own SYN, which applies unless the host is configured otherwise.
    offer: Option<Offer>,
    pub notes: Vec<Note>,
}

impl Environment {
    /// Creates a host before any shell command. `offer` is the offer in the script's own SYN.
    pub fn new(profile: Profile, offer: Option<Offer>) -> Self {
        let owned = |&(name, value): &(&'static str, &str)| (name, value.to_owned());
        let mut values: BTreeMap<_, _> = DEFAULTS.iter().map(owned).collect();
        if profile == Profile::Linux {
            values.insert("tcp_rto_max_ms", "120000".to_owned());
        }
        let (is_configured, initial_window) = (false, None);
        let mss = ETHERNET_MTU - IPV4_HEADERS;
        Environment {
            profile,
            values,
            mtu: ETHERNET_MTU,
            mss,
            ticks: [Duration::ZERO; 2],
            initial_window,
            is_configured,
            offer,
            notes: Vec::new(),
        }
    }

    /// Sets the MTU of the path, for IPv6 or IPv4.
    pub fn set_path(&mut self, mtu: Option<u64>, is_ipv6: bool) {
        let headers = if is_ipv6 { IPV6_HEADERS } else { IPV4_HEADERS };
        let mtu = mtu.map_or(ETHERNET_MTU, |mtu| mtu.min(65_535) as u32);
        self.mtu = mtu;
        self.mss = mtu.saturating_sub(headers).max(1);
    }

    /// Sets the timer ticks of the kernel: `hz` per second, `phase` of them before the script.
    pub fn set_ticks(&mut self, hz: u64, phase: u64) {
        let tick = Duration::from_nanos(1_000_000_000 / hz);
        self.ticks = [tick, tick * (phase % Wheel::PERIOD)];
    }

    /// Applies the settings in a shell command; adds a note on all other commands.
    pub fn shell(&mut self, line: u32, command: &str) {
        // A backslash continues a line.
        let mut whole = String::new();
        for (below, one) in command.lines().enumerate() {
            if let Some(begun) = one.strip_suffix('\\') {
                whole.push_str(begun);
                continue;
            }
            whole.push_str(one);
            for one in std::mem::take(&mut whole).split(';').map(str::trim) {
                if one.ends_with("defaults.sh") {
                    self.is_configured = true;
                } else if !one.is_empty() && !one.starts_with('#') {
                    self.shell_line(line + below as u32, one);
                }
            }
        }
    }

    fn shell_line(&mut self, line: u32, command: &str) {
        let mut is_known = false;
        let words = shell_words(command);
        for (at, word) in words.iter().enumerate() {
            let assigned = word.split_once('=').map(|(name, value)| (name, value.to_owned()));
            // `echo VALUE > /proc/sys/net/ipv4/NAME` has the opposite order.
            let written = (words[0] == "echo" && at > 1 && word.starts_with("/proc/sys/"))
                .then(|| (word.as_str(), words[1].clone()));
            let name = assigned.or(written);
            let Some((name, value)) = name else {
                if word == "initcwnd" && words[0] == "ip" {
                    self.initial_window = words.get(at + 1).and_then(|value| value.parse().ok());
                    is_known = self.initial_window.is_some();
                }
                continue;
            };
            let path = name.trim_start_matches("/proc/sys/").replace('/', ".");
            if path == "net.core.rmem_max" {
                self.values.insert("net.core.rmem_max", value);
                is_known = true;
                continue;
            }
            let Some(name) = path.strip_prefix("net.ipv4.") else { continue };
            is_known = true;
            self.is_configured = true;
            if let Some(known) = self.values.keys().copied().find(|known| *known == name) {
                self.values.insert(known, value);
            } else if !WITHOUT_EFFECT.contains(&name) {
                self.note(line, format!("net.ipv4.{name} is not modelled"));
            }
        }
        if !is_known {
            self.note(line, format!("the shell command \"{command}\" is skipped"));
        }
    }

    fn note(&mut self, line: u32, text: String) {
        self.notes.push(Note { line, text });
    }

    fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |value| value.as_str())
    }

    fn number(&self, name: &str) -> u64 {
        let default = || DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let parse = |text: &str| text.trim().parse().ok();
        parse(self.text(name)).or_else(|| default().and_then(parse)).unwrap_or(0)
    }

    /// Value of a numeric setting.
    pub fn setting(&self, name: &str) -> u64 {
        self.number(name)
    }

    /// Default memory of a receive buffer, bytes.
    pub fn default_receive_buffer(&self) -> i64 {
        self.sizes("tcp_rmem")[1] as i64
    }

    /// Default memory of a send buffer, bytes.
    pub fn default_send_buffer(&self) -> i64 {
        self.sizes("tcp_wmem")[1] as i64
    }

    fn is_on(&self, name: &str) -> bool {
        self.number(name) != 0
    }

    /// The three sizes of a buffer: minimum, default, maximum.
    fn sizes(&self, name: &str) -> [u64; 3] {
        let mut sizes = [0; 3];
        for (size, word) in sizes.iter_mut().zip(self.text(name).split_whitespace()) {
            *size = arithmetic(word);
        }
        sizes
    }

    /// Returns the settings of a socket. `receive_buffer` is the value of `SO_RCVBUF` if set,
    /// `largest` the maximum segment size set by `TCP_MAXSEG`, and `clamp` the maximum window set
    /// by `TCP_WINDOW_CLAMP`.
    pub fn settings(
        &self,
        receive_buffer: Option<u64>,
        largest: Option<u64>,
        clamp: Option<u64>,
    ) -> Settings {
        let [_, default, most] = self.sizes("tcp_rmem");
        // Linux: half of the memory of a buffer is for data. A size that the application sets is
        // doubled first.
        let space = receive_buffer.unwrap_or(default / 2);
        let clamp = clamp.or(receive_buffer);
        let buffer = clamp.unwrap_or(u64::MAX).min(space);
        let scaled = space.max(most).max(self.number("net.core.rmem_max"));
        let scaled = clamp.unwrap_or(u64::MAX).min(scaled);
        let scale = scaled.max(1).ilog2().saturating_sub(15).min(14) as u8;
        let mss = largest.map_or(self.mss, |mss| self.mss.min(mss as u32));
        let memory = self.is_linux().then_some(ReceiveMemory {
            size: 2 * space,
            most,
            clamp,
            grows: receive_buffer.is_none() && self.is_on("tcp_moderate_rcvbuf"),
        });
        let offer = self.offer.as_ref().filter(|_| !self.is_configured);
        if let Some(Offer { options: offer, ecn }) = offer {
            return Settings {
                mss: offer.mss.unwrap_or(mss),
                window_scale: offer.window_scale.map(|scale| scale.min(14) as u8),
                sack: offer.sack_permitted,
                timestamps: offer.timestamps.is_some(),
                ecn: *ecn,
                ..self.configured(mss, scale, buffer, memory)
            };
        }
        self.configured(mss, scale, buffer, memory)
    }

    fn configured(
        &self,
        mss: u32,
        scale: u8,
        buffer: u64,
        receive_memory: Option<ReceiveMemory>,
    ) -> Settings {
        Settings {
            mss,
            mtu: self.mtu,
            window_scale: self.is_on("tcp_window_scaling").then_some(scale),
            sack: self.is_on("tcp_sack"),
            ecn: match self.number("tcp_ecn") {
                0 => EcnOffer::Never,
                1 => EcnOffer::Asks,
                _ => EcnOffer::Grants,
            },
            timestamps: self.is_on("tcp_timestamps"),
            initial_sequence: INITIAL_SEQUENCE,
            send_buffer: (self.sizes("tcp_wmem")[1] as u32, false),
            unsent_limit: match self.number("tcp_notsent_lowat") {
                limit if limit >= u32::MAX.into() => None,
                limit => Some(limit as u32),
            },
            receive_buffer: if receive_memory.is_some() && buffer <= u64::from(mss) {
                buffer
            } else {
                (buffer / u64::from(mss) * u64::from(mss)).max(buffer.min(1))
            } as u32,
            receive_memory,
            syn_retries: ["tcp_syn_retries", "tcp_synack_retries"]
                .map(|name| self.number(name) as u32),
            retries: self.number("tcp_retries2") as u32,
            orphan_retries: match self.number("tcp_orphan_retries") {
                // Default of Linux.
                0 => 8,
                retries => retries as u32,
            },
            longest_rto: self.longest_rto(),
            time_wait: Duration::from_secs(60),
            fin_wait: seconds(self.number("tcp_fin_timeout")),
            ack_delay: Duration::from_millis(if self.is_linux() { 40 } else { 200 }),
            mtu_probing: self.mtu_probing(),
            limits: Limits::default(),
            user_timeout: None,
            deferred_accept: 0,
            delays_first_ack: false,
            keep_alive: None,
            boot_offset: self.ticks[1],
        }
    }

    pub fn is_linux(&self) -> bool {
        self.profile == Profile::Linux
    }

    fn mtu_probing(&self) -> Option<MtuProbing> {
        let mode = self.number("tcp_mtu_probing");
        let bytes = |name: &str| self.number(name).clamp(48, 65_000) as u32;
        (self.is_linux() && mode > 0).then(|| MtuProbing {
            from_start: mode > 1,
            base: bytes("tcp_base_mss"),
            floor: bytes("tcp_mtu_probe_floor"),
            retries: self.number("tcp_retries1") as u32,
            threshold: self.number("tcp_probe_threshold").min(65_535) as u32,
        })
    }

    fn longest_rto(&self) -> Duration {
        span(self.number("tcp_rto_max_ms"), 1_000_000)
    }

    /// Default keep-alive parameters.
    pub fn keep_alive(&self) -> KeepAlive {
        KeepAlive {
            idle: seconds(self.number("tcp_keepalive_time")),
            interval: seconds(self.number("tcp_keepalive_intvl")),
            probes: self.number("tcp_keepalive_probes") as u32,
        }
    }

    /// Returns `true` if the congestion control algorithm is modelled. An empty name selects the
    /// default of the profile.
    pub fn has_law(name: &str) -> bool {
        name.is_empty() || variant(name).is_some()
    }

    /// Name of the configured congestion control algorithm; empty if none is configured.
    pub fn law(&self) -> &str {
        self.text("tcp_congestion_control").trim()
    }

    /// Name of the congestion control algorithm, or of the default of the profile.
    pub fn law_or_default(&self) -> &str {
        match (self.law(), self.is_linux()) {
            ("", true) => "cubic",
            ("", false) => "reno",
            (law, _) => law,
        }
    }

    /// Returns the function that computes the parameters of a connection from the result of the
    /// handshake. `law` is the name of its congestion control algorithm.
    pub fn configure(&self, law: &str) -> Configure {
        let (environment, law) = (self.clone(), law.to_owned());
        Arc::new(move |negotiated| environment.config(&law, negotiated))
    }

    fn config(&self, law: &str, negotiated: Negotiated) -> Config {
        let set = Overrides {
            segment: Some(Bytes::new(negotiated.segment.into())),
            timestamps: Some(negotiated.timestamps),
            min_rto: Some(span(self.number("tcp_rto_min_us"), 1_000)),
            max_rto: Some(self.longest_rto()),
            delayed_ack: (!self.is_linux()).then_some(None),
            sack: Some(negotiated.sack),
            ecn: Some(negotiated.ecn),
            // A socket has its own buffers.
            autotuning: Some(false),
            timer_tick: Some(self.ticks[0]),
            nagle: Some(true),
            initial_window: self.initial_window,
            dupack_threshold: Some(self.number("tcp_reordering") as u32),
            restart_after_idle: Some(self.is_on("tcp_slow_start_after_idle")),
            ..Overrides::default()
        };
        let variant = match (law, negotiated.sack) {
            ("", _) if self.is_linux() => Variant::Cubic,
            ("" | "reno", false) => Variant::NewReno,
            _ => variant(law).unwrap_or(Variant::Sack),
        };
        let mut config = presets::config(variant, self.profile, &set);
        if !negotiated.sack && config.sack && !self.is_linux() {
            (config.sack, config.recovery) = (false, RecoveryKind::NewReno);
        }
        config.frto &= self.is_on("tcp_frto");
        config.tail_probes &= self.is_on("tcp_early_retrans");
        if self.is_linux() {
            config.dsack &= self.is_on("tcp_dsack");
            config.syn_linear_timeouts = self.number("tcp_syn_linear_timeouts") as u32;
            config.min_tso_segments = self.number("tcp_min_tso_segs").clamp(1, 65) as u32;
            config.sack_compression_delay = span(self.number("tcp_comp_sack_delay_ns"), 1);
            config.sack_compression_slack = span(self.number("tcp_comp_sack_slack_ns"), 1);
            if config.sack {
                config.sack_compression_count = self.number("tcp_comp_sack_nr").min(255) as u32;
            }
        }
        config
    }
}

/// Linux's names of congestion control algorithms, with their variants.
pub(super) const ALGORITHMS: &[(&str, Variant)] = &[
    ("reno", Variant::Sack),
    ("cubic", Variant::Cubic),
    ("bbr", Variant::Bbr),
    ("bic", Variant::Bic),
    ("dctcp", Variant::Dctcp),
    ("htcp", Variant::Htcp),
    ("hybla", Variant::Hybla),
    ("illinois", Variant::Illinois),
    ("vegas", Variant::Vegas),
    ("veno", Variant::Veno),
    ("westwood", Variant::WestwoodPlus),
];

/// Returns the variant for Linux's name of a congestion control algorithm.
fn variant(law: &str) -> Option<Variant> {
    ALGORITHMS.iter().find(|(name, _)| *name == law).map(|&(_, variant)| variant)
}

/// `count` times `unit` nanoseconds, at most the longest time of a script.
pub(super) fn span(count: u64, unit: u64) -> Duration {
    Duration::from_nanos(count.saturating_mul(unit).min(LONGEST))
}

/// `count` seconds, at most the longest time of a script.
pub(super) fn seconds(count: u64) -> Duration {
    span(count, 1_000_000_000)
}

/// Splits a command into words. Quoted text is one word.
fn shell_words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut depth = 0;
    for character in command.chars() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        match quote {
            Some(open) if character == open => quote = None,
            None if character == '"' || character == '\'' => quote = Some(character),
            None if character.is_whitespace() && depth == 0 => words.push(String::new()),
            _ => words.last_mut().expect("one word at least").push(character),
        }
    }
    words.retain(|word| !word.is_empty() && word != ">");
    if words.is_empty() {
        words.push(String::new());
    }
    words
}

/// A number, or a product in shell arithmetic: `$((15*1024*1024))`.
fn arithmetic(word: &str) -> u64 {
    let inside = word.trim_start_matches("$((").trim_end_matches("))");
    inside.split('*').map(|factor| factor.trim().parse::<u64>().unwrap_or(0)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_commands_set_values() {
        let mut environment = Environment::new(Profile::Rfc, None);
        environment.shell(
            3,
            "../common/defaults.sh\nsysctl -q net.ipv4.tcp_sack=0 net.ipv4.tcp_timestamps=0\n\
             ./set_sysctls.py /proc/sys/net/ipv4/tcp_window_scaling=0 \\\n \
             /proc/sys/net/ipv4/tcp_min_tso_segs=10\n\
             sysctl -q net.ipv4.tcp_rmem=\"4096 1000 $((32*1024*1024))\"\n\
             echo 7 > /proc/sys/net/ipv4/tcp_syn_retries\n\
             ip route replace default dev tun0 initcwnd 4\nnstat -n\nsysctl -q net.ipv4.tcp_mtu_probing=1",
        );
        let settings = environment.settings(None, None, None);
        assert_eq!(
            (settings.sack, settings.timestamps, settings.window_scale),
            (false, false, None)
        );
        assert_eq!((settings.syn_retries, settings.receive_buffer), ([7, 5], 1));
        assert_eq!(environment.initial_window, Some(4.0));
        assert_eq!(environment.sizes("tcp_rmem"), [4096, 1000, 33_554_432]);
        let notes: Vec<_> = environment.notes.iter().map(|note| (note.line, &*note.text)).collect();
        let expected = [(10, "the shell command \"nstat -n\" is skipped")];
        assert_eq!(notes, expected);
    }

    #[test]
    fn the_window_scale_follows_the_buffer() {
        let mut environment = Environment::new(Profile::Rfc, None);
        assert_eq!(environment.settings(None, None, None).window_scale, Some(8));
        assert_eq!(environment.settings(Some(20_000), None, None).window_scale, Some(0));
        assert_eq!(environment.settings(Some(20_000), None, None).receive_buffer, 18_980);
        environment.shell(1, "sysctl -q net.ipv4.tcp_rmem='4096 131072 33554432'");
        assert_eq!(environment.settings(None, Some(1000), None).window_scale, Some(10));
        assert_eq!(environment.settings(None, Some(1000), None).mss, 1000);
    }
}
