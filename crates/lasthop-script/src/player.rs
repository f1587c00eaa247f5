//! Runs the events of a script: advances the clock, delivers segments, and compares the segments
//! sent.

use super::calls::{Blocked, Descriptor};
use super::endpoints::Endpoints;
use super::environment::{Environment, INITIAL_SEQUENCE, Offer, PEER_SEQUENCE, span};
use super::parser::{Event, Script, Time, What};
use super::readiness::Watched;
use super::segments::{Options, Segment};
use super::show::{Found, show};
use super::statements::Value;
use super::{Note, Played, ScriptError};
use lasthop_base::packet::{
    Ecn, MAX_SACK_BLOCKS, MAX_SACK_BLOCKS_WITH_TIMESTAMPS, TcpHeader, flags,
};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::Profile;
use lasthop_tcp::host::{self, SynOptions};
use std::collections::BTreeMap;

/// Period of the timestamp clock of all profiles, microseconds.
const TIMESTAMP_TICK_MICROS: u64 = 1000;

/// Options of a script that are supported, or that configure devices, addresses and processes,
/// which do not exist here.
const OPTIONS: &[&str] = &[
    "tolerance_usecs",
    "tcp_ts_tick_usecs",
    "timer_hz",
    "timer_phase",
    "mtu",
    "ip_version",
    "mss",
    "timeout",
    "bind_port",
    "connect_port",
    "connect_ip",
    "code_command",
    "code_format",
    "code_sockopt",
    "debug",
    "dry_run",
    "fm",
    "gateway_ip",
    "init_scripts",
    "ip_family",
    "is_anyip",
    "local_ip",
    "local_linux_ip",
    "netmask_ip",
    "no_cleanup",
    "persistent_tun_dev",
    "remote_ip",
    "send_omit_free",
    "socket_domain",
    "so_filename",
    "speed",
    "tun_dev",
    "verbose",
    "wire_client",
    "wire_client_dev",
    "wire_protocol",
    "wire_server",
    "wire_server_dev",
    "wire_server_ip",
    "wire_server_port",
];

/// Supported values of `--ip_version`, which determine the size of the headers.
const IP_VERSIONS: &str = "--ip_version=ipv4, ipv6 or ipv4-mapped-ipv6";

/// Runs `script` against a connection of `profile`.
pub(super) fn play(script: &Script, profile: Profile, tolerance: Duration) -> Played {
    let mut player = match Player::new(script, profile, tolerance) {
        Ok(player) => player,
        Err(error) => return Played { outcome: Err(error), notes: Vec::new() },
    };
    let mut outcome = script.events.iter().try_for_each(|event| player.event(event));
    if outcome.is_ok() {
        outcome = player.finish();
    }
    Played { outcome, notes: player.environment.notes }
}

pub(super) struct Player {
    pub environment: Environment,
    pub ends: Endpoints,
    /// Open files of the application.
    pub descriptors: BTreeMap<i64, Descriptor>,
    /// Files watched by each `epoll` descriptor.
    pub watched: BTreeMap<i64, Watched>,
    /// A system call that has not returned.
    pub blocked: Option<Blocked>,
    /// Variables defined by statements.
    pub variables: BTreeMap<String, Value>,
    pub now: Instant,
    /// Scheduled time of the previous event.
    last: Instant,
    pub tolerance: Duration,
    /// Period of the script's timestamp clock in microseconds, if its values are compared.
    tick: Option<u64>,
}

impl Player {
    fn new(script: &Script, profile: Profile, tolerance: Duration) -> Result<Self, ScriptError> {
        let number = |name: &str, expected| {
            let Some(value) = script.options.get(name) else { return Ok(None) };
            let found = || format!("\"--{name}={value}\"");
            value.parse::<u64>().map(Some).map_err(|_| ScriptError::Syntax {
                line: 1,
                found: found(),
                expected,
            })
        };
        let tolerance_micros = number("tolerance_usecs", "--tolerance_usecs=MICROSECONDS")?;
        let phase = number("timer_phase", "--timer_phase=TICKS")?;
        let outgoing = script.events.iter().filter_map(|event| match &event.what {
            What::Outgoing(segment) => Some(segment),
            _ => None,
        });
        let mut syns = outgoing.filter(|segment| segment.flags & flags::SYN != 0);
        let offer = syns.next().filter(|syn| !syn.any_options).map(Offer::of);
        let mut environment = Environment::new(profile, offer);
        for name in script.options.keys().filter(|name| !OPTIONS.contains(&name.as_str())) {
            let text = format!("the option --{name} is skipped");
            environment.notes.push(Note { line: 1, text });
        }
        let is_ipv6 = match script.options.get("ip_version").map(String::as_str) {
            None | Some("ipv4" | "ipv4-mapped-ipv6") => false,
            Some("ipv6") => true,
            Some(other) => {
                let found = format!("\"--ip_version={other}\"");
                return Err(ScriptError::Syntax { line: 1, found, expected: IP_VERSIONS });
            }
        };
        environment.set_path(number("mtu", "--mtu=BYTES")?, is_ipv6);
        if let Some(hz) =
            number("timer_hz", "--timer_hz=TICKS")?.filter(|hz| (1..=1_000_000).contains(hz))
        {
            environment.set_ticks(hz, phase.unwrap_or(0));
        }
        Ok(Player {
            environment,
            ends: Endpoints::new(),
            descriptors: BTreeMap::new(),
            watched: BTreeMap::new(),
            blocked: None,
            variables: BTreeMap::new(),
            now: Instant::ZERO,
            last: Instant::ZERO,
            tolerance: tolerance_micros.map_or(tolerance, |micros| span(micros, 1_000)),
            tick: number("tcp_ts_tick_usecs", "--tcp_ts_tick_usecs=MICROSECONDS")?
                .filter(|&tick| tick > 0),
        })
    }

    fn event(&mut self, event: &Event) -> Result<(), ScriptError> {
        let at = match event.time {
            Time::At(nanos) => Some(Instant::from_nanos(nanos)),
            Time::After(nanos) => Some(self.last + Duration::from_nanos(nanos)),
            Time::Any => None,
        };
        let span = Duration::from_nanos(event.span);
        self.ends.focus_on_tested();
        if let What::Outgoing(segment) = &event.what {
            self.route(segment.ports, false);
            self.last = self.expect(event.line, at, span, segment)?;
            return Ok(());
        }
        let at = at.unwrap_or(self.now);
        self.last = at;
        self.run_until(at)?;
        match &event.what {
            What::Incoming(segment) => {
                let ports = segment.ports;
                // Its sequence numbers are relative to those of its connection.
                let is_syn = segment.flags & (flags::SYN | flags::ACK | flags::RST) == flags::SYN;
                self.route(ports, is_syn);
                let segment = self.incoming(segment);
                self.deliver(&segment)?;
            }
            What::Message(message) => {
                let (now, seq) = (self.now, message.seq.wrapping_add(INITIAL_SEQUENCE));
                if let Some(socket) = &mut self.ends.socket {
                    socket.on_unreachable(now, seq, message.what);
                }
                self.ends.happened += 1;
            }
            What::Call { name, arguments, result } => {
                let blocks = event.blocks.map(Duration::from_nanos);
                self.call(event.line, name, arguments, result, blocks)?;
            }
            What::Code(text) => self.run_code(event.line, text)?,
            What::Shell(text) => self.environment.shell(event.line, text),
            What::Outgoing(_) => unreachable!("handled above"),
        }
        self.pump()
    }

    /// Lets a blocked call return after the last event.
    fn finish(&mut self) -> Result<(), ScriptError> {
        if let Some(latest) = self.blocked.as_ref().map(|blocked| blocked.end + self.tolerance) {
            self.run_until(latest)?;
            self.check_blocked(true)?;
        }
        Ok(())
    }

    /// Collects the segments that the connection sends now, and lets a blocked call return.
    pub fn pump(&mut self) -> Result<(), ScriptError> {
        self.ends.pump(self.now);
        if self.blocked.is_some() {
            self.check_blocked(false)?;
        }
        Ok(())
    }

    /// Advances the clock to `at` and handles all deadlines until then.
    fn run_until(&mut self, at: Instant) -> Result<(), ScriptError> {
        while self.ends.next_timeout() <= at {
            self.now = self.now.max(self.ends.next_timeout());
            self.ends.handle_timeouts(self.now);
            self.pump()?;
        }
        self.now = self.now.max(at);
        Ok(())
    }

    /// Waits for the connection to send `expected`, as one segment or several in a row. Returns the
    /// time to which the next event is relative.
    fn expect(
        &mut self,
        line: u32,
        at: Option<Instant>,
        span: Duration,
        expected: &Segment,
    ) -> Result<Instant, ScriptError> {
        let latest = at.map_or(Instant::NEVER, |at| at + span + self.tolerance);
        let differs =
            |found: Found| ScriptError::Differs { line, expected: show(expected), found: found.0 };
        let mut seq = expected.seq;
        let mut left = expected.payload;
        let mut found = Found::default();
        loop {
            while self.ends.sent.is_empty() && self.ends.next_timeout() <= latest {
                let next = self.ends.next_timeout();
                if next == Instant::NEVER {
                    break;
                }
                self.run_until(next)?;
            }
            let Some((sent, segment)) = self.ends.sent.pop_front() else {
                found.nothing_more(latest);
                return Err(differs(found));
            };
            let segment = self.outgoing(&segment);
            let is_last = segment.payload >= left;
            found.add(sent, &segment);
            let in_time = at.is_none_or(|at| sent + self.tolerance >= at && sent <= latest);
            let fits = segment.seq == seq && segment.payload <= left;
            if !in_time || !fits || !self.has_fields(&segment, expected, is_last) {
                found.wanted(at);
                return Err(differs(found));
            }
            if is_last {
                // An event with a specified time determines the time of those that follow.
                return Ok(at.unwrap_or(sent));
            }
            seq = seq.wrapping_add(segment.payload);
            left -= segment.payload;
        }
    }

    /// Returns `true` if flags, acknowledgment, window and options agree. Of several segments, only
    /// the last one has the FIN.
    fn has_fields(&mut self, found: &Segment, expected: &Segment, is_last: bool) -> bool {
        let flags = if is_last { expected.flags } else { expected.flags & !flags::FIN };
        let options = &expected.options;
        let has_options = expected.any_options
            || found.options.mss == options.mss
                && found.options.sack_permitted == options.sack_permitted
                && found.options.window_scale == options.window_scale
                && found.options.sack == options.sack
                && self.has_stamps(found.options.timestamps, options.timestamps);
        found.flags == flags
            && expected.ack.is_none_or(|ack| found.ack == Some(ack))
            && expected.window.is_none_or(|window| found.window == Some(window))
            && expected.ecn.is_none_or(|ecn| found.ecn.unwrap_or(0) == ecn)
            && (!expected.is_ect || matches!(found.ecn, Some(1 | 2)))
            && has_options
    }

    /// Returns `true` if the timestamps agree, and stores the value that corresponds to that of the
    /// script.
    fn has_stamps(&mut self, found: Option<(u32, u32)>, expected: Option<(u32, u32)>) -> bool {
        let (Some((found, found_echo)), Some((value, echo))) = (found, expected) else {
            return found == expected;
        };
        let first = self.ends.stamps.first().copied();
        self.ends.stamps.push((value, found));
        let is_near = match (self.tick, first) {
            (Some(tick), Some((first, first_found))) => {
                let micros = |ticks: u32, tick: u64| i64::from(ticks as i32) * tick as i64;
                let script = micros(value.wrapping_sub(first), tick);
                let live = micros(found.wrapping_sub(first_found), TIMESTAMP_TICK_MICROS);
                script.abs_diff(live) <= self.tolerance.as_nanos() / 1000
            }
            _ => true,
        };
        is_near && found_echo == echo
    }

    /// Returns the timestamp of the connection that corresponds to one of the script.
    fn live_stamp(&self, echo: u32) -> u32 {
        let known = self.ends.stamps.iter().rev().find(|(script, _)| *script == echo);
        match (known, self.ends.stamps.first()) {
            (Some(&(_, live)), _) => live,
            (None, Some(&(script, live))) if echo != 0 => {
                live.wrapping_add(echo.wrapping_sub(script))
            }
            _ => echo,
        }
    }

    /// Converts a segment of the connection to that of a script.
    fn outgoing(&self, segment: &host::Segment) -> Segment {
        let header = &segment.header;
        let has_ack = header.flags & flags::ACK != 0;
        let is_syn = header.flags & flags::SYN != 0;
        let shift = match &self.ends.socket {
            Some(socket) if !is_syn => socket.window_scales().1,
            _ => 0,
        };
        let relative = |number: u32| number.wrapping_sub(PEER_SEQUENCE);
        let blocks = &header.sack_blocks()[..usize::from(header.sack_blocks)];
        let is_bare_reset = header.flags == flags::RST | flags::ACK && header.seq == 0;
        let base = if is_bare_reset { 0 } else { INITIAL_SEQUENCE };
        Segment {
            flags: header.flags & !flags::PSH,
            seq: header.seq.wrapping_sub(base),
            payload: header.payload,
            ack: has_ack.then(|| relative(header.ack)),
            window: (header.flags & flags::RST == 0).then_some(header.window >> shift),
            options: Options {
                mss: segment.options.mss,
                sack_permitted: segment.options.sack_permitted,
                window_scale: segment.options.window_scale.map(u32::from),
                timestamps: header.has_timestamps.then_some(header.options.timestamps),
                sack: blocks.iter().map(|block| (relative(block.0), relative(block.1))).collect(),
            },
            any_options: false,
            ecn: Some(header.ecn as u8),
            is_ect: false,
            is_pushed: false,
            ports: None,
        }
    }

    /// Converts an incoming segment of a script to one for the connection.
    fn incoming(&self, segment: &Segment) -> host::Segment {
        let has_ack = segment.flags & flags::ACK != 0;
        let mut header = TcpHeader {
            seq: segment.seq.wrapping_add(PEER_SEQUENCE),
            ack: if has_ack { segment.ack.unwrap_or(0).wrapping_add(INITIAL_SEQUENCE) } else { 0 },
            payload: segment.payload,
            window: segment.window.unwrap_or(0),
            flags: segment.flags,
            ecn: Ecn::from_bits(segment.ecn.unwrap_or(0)),
            ..TcpHeader::default()
        };
        if segment.is_pushed && segment.payload > 0 {
            header.flags |= flags::PSH;
        }
        let options = &segment.options;
        if let Some((value, echo)) = options.timestamps {
            header.has_timestamps = true;
            header.options.timestamps = (value, self.live_stamp(echo));
        }
        let most = match header.has_timestamps {
            true => MAX_SACK_BLOCKS_WITH_TIMESTAMPS,
            false => MAX_SACK_BLOCKS,
        };
        let ours = |number: u32| number.wrapping_add(INITIAL_SEQUENCE);
        let blocks: Vec<_> =
            options.sack.iter().take(most).map(|block| (ours(block.0), ours(block.1))).collect();
        header.set_sack_blocks(&blocks);
        let options = SynOptions {
            mss: options.mss,
            window_scale: options.window_scale.map(|scale| scale.min(255) as u8),
            sack_permitted: options.sack_permitted,
        };
        host::Segment { header, options }
    }
}
