//! The error queue: send and acknowledgment times of written data (`SO_TIMESTAMPING`), and writes
//! whose memory the kernel no longer needs (`MSG_ZEROCOPY`).
//!
//! ```text
//!   WRITTEN --last byte is sent--> SCHED and SND are reported
//!           --last byte is acknowledged--> ACK is reported, memory is free
//! ```
//!
//! A write that is merged with an unsent one replaces it for timestamping. Consecutive writes
//! without copies are reported as one range. *Not modelled*: times of arrivals, times from
//! hardware, separate times of the driver and the queue; reports of devices that require no copy.

use super::ScriptError;
use super::calls::Returned;
use super::constants::{number, value};
use super::player::Player;
use super::show::seconds;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// Kinds of reports: the flag of the option that requests it, its name, and its number.
const KINDS: [(&str, &str, i64); 3] = [
    ("SOF_TIMESTAMPING_TX_SCHED", "SCM_TSTAMP_SCHED", 1),
    ("SOF_TIMESTAMPING_TX_SOFTWARE", "SCM_TSTAMP_SND", 0),
    ("SOF_TIMESTAMPING_TX_ACK", "SCM_TSTAMP_ACK", 2),
];

/// Origin of timestamps: `SO_EE_ORIGIN_TIMESTAMPING`.
const TIMES: i64 = 4;
/// Origin of reports on zero copy: `SO_EE_ORIGIN_ZEROCOPY`.
const COPIES: i64 = 5;

/// A write for which times are requested.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Bytes written up to and including this write.
    end: u64,
    has_left: bool,
}

/// A report on the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    /// A time, its kind, and the offset of the last byte since the option was set.
    Stamp { kind: i64, at: Instant, place: u64 },
    /// Writes without copies whose memory is free: numbers of the first and the last.
    Free { first: u64, last: u64 },
}

/// `SO_EE_CODE_ZEROCOPY_COPIED`: a TUN device copies the data nevertheless.
const COPIED: i64 = 1;

/// Timestamps and reports of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    flags: i64,
    /// Bytes written so far.
    written: u64,
    /// Bytes written before the option was set.
    base: u64,
    wanted: VecDeque<Wanted>,
    /// Number of writes without copies so far.
    uncopied: u64,
    /// End and number of each write without copy whose memory is in use.
    in_use: VecDeque<(u64, u64)>,
    reports: VecDeque<Report>,
}

impl Stamps {
    /// Sets the option.
    pub fn set(&mut self, flags: i64) {
        (self.flags, self.base) = (flags, self.written);
    }

    /// Records a write of `bytes`. `unsent`: bytes not yet sent, including earlier writes.
    pub fn on_written(&mut self, bytes: u64, unsent: u64) {
        self.written += bytes;
        if self.flags == 0 || bytes == 0 {
            return;
        }
        // Unsent data may be merged.
        if unsent > bytes && self.wanted.back().is_some_and(|last| !last.has_left) {
            self.wanted.pop_back();
        }
        self.wanted.push_back(Wanted { end: self.written, has_left: false });
    }

    /// Marks the latest write as not copied.
    pub fn on_uncopied(&mut self) {
        self.in_use.push_back((self.written, self.uncopied));
        self.uncopied += 1;
    }

    fn free(&mut self, number: u64) {
        match self.reports.back_mut() {
            Some(Report::Free { last, .. }) if *last + 1 == number => *last = number,
            _ => self.reports.push_back(Report::Free { first: number, last: number }),
        }
    }

    /// Updates the reports: `unacknowledged` written bytes are not acknowledged, and `unsent` of
    /// them not sent.
    pub fn look(&mut self, now: Instant, unacknowledged: u64, unsent: u64) {
        let sent = self.written.saturating_sub(unsent);
        let acked = self.written.saturating_sub(unacknowledged);
        let flags = self.flags;
        let asks = |flag: &str| number(flag).is_some_and(|bit| flags & bit != 0);
        for wanted in &mut self.wanted {
            let place = wanted.end - 1 - self.base.min(wanted.end - 1);
            let leaves = !wanted.has_left && wanted.end <= sent;
            wanted.has_left |= leaves;
            let happened = [leaves, leaves, wanted.has_left && wanted.end <= acked];
            for ((flag, _, kind), _) in KINDS.into_iter().zip(happened).filter(|(_, does)| *does) {
                if asks(flag) {
                    self.reports.push_back(Report::Stamp { kind, at: now, place });
                }
            }
        }
        self.wanted.retain(|wanted| wanted.end > acked);
        while let Some(&(_, number)) = self.in_use.front().filter(|(end, _)| *end <= acked) {
            self.in_use.pop_front();
            self.free(number);
        }
    }

    /// Returns `true` if the error queue has a report.
    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }
}

/// Text of a field of a structure such as `{a=1,b={c=2}}`.
fn field<'a>(structure: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = structure.split_once(name)?;
    let rest = rest.trim_start().strip_prefix('=')?;
    rest.split([',', '}', ']']).next().map(str::trim)
}

impl Player {
    /// Takes the oldest report from the error queue and compares it with the script.
    pub(super) fn read_report(&mut self, line: u32, wanted: &str) -> Result<Returned, ScriptError> {
        let Some(report) = self.ends.stamps_of_writes.reports.pop_front() else {
            return Ok(Returned::Error("EAGAIN"));
        };
        let (origin, code, info, data) = match report {
            Report::Stamp { kind, place, .. } => (TIMES, 0, kind, place as i64),
            Report::Free { first, last } => (COPIES, COPIED, first as i64, last as i64),
        };
        for (name, found) in
            [("ee_origin", origin), ("ee_code", code), ("ee_info", info), ("ee_data", data)]
        {
            let Some(text) = field(wanted, name) else { continue };
            let kind = KINDS.iter().find(|(_, known, _)| *known == text).map(|kind| kind.2);
            if kind.or_else(|| value(text)) != Some(found) {
                return Self::differs(line, format!("{name}={text}"), found.to_string());
            }
        }
        let part = |name| field(wanted, name).and_then(value);
        if let (Report::Stamp { at: found, .. }, Some(whole), Some(nanos)) =
            (report, part("scm_sec"), part("scm_nsec"))
        {
            let at = Instant::from_nanos((whole * 1_000_000_000 + nanos).max(0) as u64);
            if found > at + self.tolerance || at > found + self.tolerance {
                let expected = format!("a timestamp of {} s", seconds(at));
                return Self::differs(line, expected, format!("{} s", seconds(found)));
            }
        }
        Ok(Returned::Value(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_follow_the_last_byte_of_each_write() {
        let flags = KINDS.iter().filter_map(|(flag, ..)| number(flag)).sum();
        let mut stamps = Stamps::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        stamps.on_written(100, 100);
        stamps.set(flags);
        // Two writes: half of the second is sent, then the rest; then the first is acknowledged.
        stamps.on_written(1000, 1000);
        stamps.look(at(1), 1000, 0);
        stamps.on_written(2000, 2000);
        stamps.look(at(2), 3000, 1000);
        stamps.look(at(3), 2000, 0);
        stamps.look(at(4), 0, 0);
        let found: Vec<_> = stamps.reports.iter().copied().collect();
        let expected =
            [(1, 1, 999), (1, 0, 999), (3, 1, 2999), (3, 0, 2999), (3, 2, 999), (4, 2, 2999)];
        let mut expected =
            expected.map(|(seconds, kind, place)| Report::Stamp { kind, at: at(seconds), place });
        // Reports of the same time are in order of the writes.
        expected[2..5].rotate_right(1);
        assert_eq!(found, expected);
    }

    #[test]
    fn writes_without_copies_are_reported_in_ranges() {
        let mut stamps = Stamps::default();
        for _ in 0..3 {
            stamps.on_written(1000, 1000);
            stamps.on_uncopied();
        }
        stamps.look(Instant::ZERO, 1000, 0);
        assert_eq!(stamps.reports, [Report::Free { first: 0, last: 1 }]);
        stamps.reports.clear();
        stamps.look(Instant::ZERO, 0, 0);
        assert_eq!(stamps.reports, [Report::Free { first: 2, last: 2 }]);
    }

    #[test]
    fn fields_of_a_structure() {
        let text = "{msg_control=[{cmsg_data={scm_sec=0,scm_nsec=10}},{cmsg_data={ee_info=SCM_TSTAMP_ACK, ee_data=9}}]}";
        assert_eq!(field(text, "scm_nsec"), Some("10"));
        assert_eq!(field(text, "ee_info"), Some("SCM_TSTAMP_ACK"));
        assert_eq!(field(text, "ee_data"), Some("9"));
        assert_eq!(field(text, "ee_type"), None);
    }
}
