//! Formatting of segments in the language of scripts, for messages.

use super::segments::{Options, Segment};
use lasthop_base::packet::flags;
use lasthop_base::units::Instant;
use std::fmt::Write as _;

/// Segments that were sent instead of the expected ones.
#[derive(Default)]
pub(super) struct Found(pub String);

impl Found {
    pub fn add(&mut self, at: Instant, segment: &Segment) {
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
        let _ = write!(self.0, "{} at {} s", show(segment), seconds(at));
    }

    pub fn wanted(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            let _ = write!(self.0, " (expected at {} s)", seconds(at));
        }
    }

    pub fn nothing_more(&mut self, latest: Instant) {
        let more = if self.0.is_empty() { "nothing" } else { ", then nothing" };
        self.0.push_str(more);
        if latest != Instant::NEVER {
            let _ = write!(self.0, " until {} s", seconds(latest));
        }
    }
}

/// A time in seconds, for messages.
pub(super) fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// Formats a segment that was sent, in the language of scripts.
pub(super) fn show(segment: &Segment) -> String {
    let mut text = String::from("> ");
    if let Some(ecn) = segment.ecn.filter(|&ecn| ecn > 0) {
        text.push_str(["", "[ect1] ", "[ect0] ", "[ce] "][usize::from(ecn & 3)]);
    }
    if segment.is_ect {
        text.push_str("[ect01] ");
    }
    if let Some((peer, own)) = segment.ports {
        let _ = write!(text, "{own} > {peer} ");
    }
    let letters = [
        (flags::SYN, 'S'),
        (flags::FIN, 'F'),
        (flags::RST, 'R'),
        (flags::ECE, 'E'),
        (flags::CWR, 'W'),
        (flags::ACK, '.'),
    ];
    text.extend(letters.iter().filter(|(bit, _)| segment.flags & bit != 0).map(|(_, c)| c));
    if segment.flags == 0 {
        text.push('-');
    }
    let end = segment.seq.wrapping_add(segment.payload);
    let _ = write!(text, " {}:{end}({})", segment.seq, segment.payload);
    if let Some(ack) = segment.ack {
        let _ = write!(text, " ack {ack}");
    }
    if let Some(window) = segment.window {
        let _ = write!(text, " win {window}");
    }
    let options = if segment.any_options { "...".to_owned() } else { list(&segment.options) };
    if !options.is_empty() {
        let _ = write!(text, " <{options}>");
    }
    text
}

fn list(options: &Options) -> String {
    let mut list = Vec::new();
    if let Some(mss) = options.mss {
        list.push(format!("mss {mss}"));
    }
    if options.sack_permitted {
        list.push("sackOK".to_owned());
    }
    if let Some((value, echo)) = options.timestamps {
        list.push(format!("TS val {value} ecr {echo}"));
    }
    if let Some(scale) = options.window_scale {
        list.push(format!("wscale {scale}"));
    }
    if !options.sack.is_empty() {
        let blocks: Vec<_> =
            options.sack.iter().map(|(left, right)| format!("{left}:{right}")).collect();
        list.push(format!("sack {}", blocks.join(" ")));
    }
    list.join(",")
}
