//! Records the behaviour of a simulated host as a conformance script. The script can be run against
//! a socket or a kernel.

use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::Instant;
use lasthop_tcp::Config;
use std::fmt::Write as _;

/// Bytes of the timestamps option with its padding.
const TIMESTAMPS: u64 = 12;
/// Window scale of a host whose buffers grow.
const SHIFT: u32 = 10;

/// The script of one host.
#[derive(Clone, Debug)]
pub struct Recorder {
    text: String,
    config: Config,
}

impl Recorder {
    /// Starts the script of a host with profile `linux` that opens a connection. `name` is Linux's
    /// name of the congestion control algorithm. `phase`: number of timer ticks of the host before
    /// the script, of `hz` per second.
    pub fn opener(config: &Config, name: &str, hz: u64, phase: u64) -> Self {
        let mut text = format!("--timer_hz={hz}\n--timer_phase={phase}\n`../common/defaults.sh\n");
        for (key, value) in [
            ("congestion_control", name.to_owned()),
            ("rmem", "\"4096 131072 33554432\"".to_owned()),
            ("wmem", "\"4096 16384 4194304\"".to_owned()),
            ("timestamps", u8::from(config.timestamps).to_string()),
            ("sack", u8::from(config.sack).to_string()),
            ("slow_start_after_idle", u8::from(config.restart_after_idle).to_string()),
            ("rto_max_ms", (config.max_rto.as_nanos() / 1_000_000).to_string()),
        ] {
            let _ = writeln!(text, "sysctl -q net.ipv4.tcp_{key}={value}");
        }
        text.truncate(text.trim_end().len());
        text.push_str("`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n");
        text.push_str("0 setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4) = 0\n");
        text.push_str("0 connect(3, ..., ...) = -1 EINPROGRESS (...)\n");
        Recorder { text, config: *config }
    }

    fn at(&mut self, now: Instant) {
        let micros = now.as_nanos() / 1_000;
        let _ = write!(self.text, "{}.{:06} ", micros / 1_000_000, micros % 1_000_000);
    }

    /// Records that the application writes `bytes`.
    pub fn written(&mut self, now: Instant, bytes: u64) {
        self.at(now);
        let _ = writeln!(self.text, "write(3, ..., {bytes}) = {bytes}");
    }

    /// Records that the application reads `bytes`, all available ones.
    pub fn read(&mut self, now: Instant, bytes: u64) {
        self.at(now);
        let _ = writeln!(self.text, "read(3, ..., {bytes}) = {bytes}");
    }

    /// Records that the application closes.
    pub fn closed(&mut self, now: Instant) {
        self.at(now);
        self.text.push_str("shutdown(3, SHUT_WR) = 0\n");
    }

    /// Records that the host sends a segment.
    pub fn sent(&mut self, now: Instant, header: &TcpHeader) {
        self.segment(now, '>', header);
    }

    /// Records that the host receives a segment.
    pub fn received(&mut self, now: Instant, header: &TcpHeader) {
        self.segment(now, '<', header);
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

    fn options(&self, header: &TcpHeader, is_syn: bool) -> Vec<String> {
        let mut options = Vec::new();
        if is_syn {
            let stamps = if self.config.timestamps { TIMESTAMPS } else { 0 };
            options.push(format!("mss {}", self.config.segment.get() + stamps));
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

    /// The script so far.
    pub fn script(&self) -> &str {
        &self.text
    }
}
