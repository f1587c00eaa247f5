//! Retransmissions and timeouts that were not needed, counted by who knows what arrives.
//!
//! Of the transmissions of a byte, in the order of sending, let *k* be the first that ever arrives. Those behind *k* are
//! spurious, since the byte had not been lost, whether or not they arrive themselves; those up to *k* are not, and if none
//! arrives, none is. A retransmission is judged by its first byte; a timeout as a retransmission of the oldest byte outstanding
//! that leaves when the timer fires (RFC 3522, section 1: a timeout or fast retransmit is spurious if the original was not lost).
//!
//! ```text
//!   sent while its first byte is there                    spurious
//!   else UNDECIDED; an earlier transmission arrives   --> spurious
//!                   it or a later one arrives         --> needed, unless an earlier one comes yet
//! ```
//!
//! Each retransmission carries its ordinal among those of its bytes; what has none is an original. An original that comes
//! in its order is not looked at: it has come if the byte is there and no retransmission brought it.
//!
//! Not modelled: copies told apart beyond the 255th of the same bytes; arrivals more than `LIFETIME` after a copy was sent, or
//! `SETTLED` after one whose byte is there, may not be looked at for it.

use lasthop_base::units::{Duration, Instant};

/// No transmission is under way for longer: twice the maximum segment lifetime (RFC 9293, section 3.4.2).
const LIFETIME: Duration = Duration::from_secs(240);

/// Once a byte has come, nor is its original for longer than this.
const SETTLED: Duration = Duration::from_secs(10);

/// So many are remembered before the first look for what can be forgotten, and room is made for so many at first.
const FEW: usize = 256;
const FIRST: usize = 32;

/// So many are looked at one by one.
const NEAR: usize = 8;

/// What can turn out not to have been needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A segment all of which had been sent before.
    Retransmission,
    /// An expiry of the retransmission timer.
    Timeout,
}

/// A retransmission or a timeout that was not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spurious {
    /// Which of them.
    pub cause: Cause,
    /// Its first byte, or the oldest one outstanding.
    pub sequence: u64,
    /// Sequence space from there on; 0 of a timeout.
    pub length: u32,
    /// When it was sent, or fired.
    pub at: Instant,
}

/// How many of a sender's retransmissions and timeouts were not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpuriousCounts {
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
}

/// A segment that had left before, in part or as a whole, or a timeout.
#[derive(Clone, Copy, Debug)]
struct Copy {
    first: u64,
    length: u32,
    ordinal: u8,
    /// `None`: it has bytes besides that were never sent, so that it is no retransmission.
    cause: Option<Cause>,
    is_spurious: bool,
    /// It or another copy has brought its first byte.
    is_reached: bool,
    sent: Instant,
}

impl Copy {
    fn end(&self) -> u64 {
        self.first + u64::from(self.length)
    }
}

/// The copies that one end of a connection sends, kept at the other end.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// By first byte; of equal ones in the order of sending.
    log: Vec<Copy>,
    /// When so many are there, old ones are forgotten.
    full_at: usize,
    /// Length of the longest, and one past the highest byte of all.
    longest: u64,
    highest: u64,
    findings: Findings,
}

/// What was found spurious.
#[derive(Clone, Debug, Default)]
struct Findings {
    /// Over all incarnations.
    counts: SpuriousCounts,
    /// One by one, where somebody observes.
    list: Option<Vec<Spurious>>,
}

impl Findings {
    /// `copy` is spurious, if that is not known yet.
    fn add(&mut self, copy: &mut Copy) {
        let is_new = !std::mem::replace(&mut copy.is_spurious, true);
        let Some(cause) = copy.cause.filter(|_| is_new) else { return };
        match cause {
            Cause::Retransmission => self.counts.retransmissions += 1,
            Cause::Timeout => self.counts.timeouts += 1,
        }
        if let Some(list) = &mut self.list {
            let Copy { first: sequence, length, sent: at, .. } = *copy;
            list.push(Spurious { cause, sequence, length, at });
        }
    }

    /// Finds out whether the original of `copy` has come, of which nothing may have told. `has`: what has arrived.
    fn settle(&mut self, copy: &mut Copy, has: impl Fn(u64) -> bool) {
        if !copy.is_reached && has(copy.first) {
            self.add(copy);
        }
    }
}

impl Copies {
    /// `[seq, end)` leaves at `now`, with bytes that have left before; `is_whole`: all of them. `has`: what has arrived.
    /// Returns its ordinal, 255 from the 255th copy on.
    pub fn on_sent(
        &mut self,
        now: Instant,
        (seq, end): (u64, u64),
        is_whole: bool,
        has: impl Fn(u64) -> bool,
    ) -> u8 {
        if self.log.len() >= self.full_at.max(FEW) {
            self.forget_old(now, &has);
        }
        let ordinal = self.next_ordinal(seq, end);
        let cause = is_whole.then_some(Cause::Retransmission);
        self.longest = self.longest.max(end - seq);
        self.highest = self.highest.max(end);
        self.add(now, (seq, (end - seq) as u32), ordinal, cause, has);
        ordinal
    }

    /// The timer fires for the byte at `seq`.
    pub fn on_timeout(&mut self, now: Instant, seq: u64, has: impl Fn(u64) -> bool) {
        let ordinal = self.next_ordinal(seq, seq + 1);
        self.highest = self.highest.max(seq + 1);
        self.add(now, (seq, 0), ordinal, Some(Cause::Timeout), has);
    }

    /// The ordinal of what leaves next of `[seq, end)`.
    fn next_ordinal(&self, seq: u64, end: u64) -> u8 {
        if seq >= self.highest {
            return 1;
        }
        let from = self.place((seq + 1).saturating_sub(self.longest));
        let near = self.log[from..].iter().take_while(|copy| copy.first < end);
        let before = near.filter(|copy| copy.end() > seq).map(|copy| copy.ordinal).max();
        before.unwrap_or(0).saturating_add(1)
    }

    #[inline]
    fn add(
        &mut self,
        sent: Instant,
        (first, length): (u64, u32),
        ordinal: u8,
        cause: Option<Cause>,
        has: impl Fn(u64) -> bool,
    ) {
        let mut copy =
            Copy { first, length, ordinal, cause, is_spurious: false, is_reached: false, sent };
        if has(first) {
            self.findings.add(&mut copy);
        }
        let place = self.place(first + 1);
        if self.log.capacity() == 0 {
            self.log.reserve_exact(FIRST);
        }
        if place == self.log.len() {
            self.log.push(copy);
        } else {
            self.log.insert(place, copy);
        }
    }

    /// Where the copies stand whose first byte is `seq` or later: mostly it is one of the last.
    #[inline]
    fn place(&self, seq: u64) -> usize {
        let all = self.log.len();
        let least = all.saturating_sub(NEAR);
        let mut place = all;
        while place > least && self.log[place - 1].first >= seq {
            place -= 1;
        }
        if place > least || place == 0 {
            place
        } else {
            self.log.partition_point(|copy| copy.first < seq)
        }
    }

    /// The transmission of that ordinal of `[seq, end)` arrives; 0: the original. `has`: what had arrived before.
    pub fn on_arrival(&mut self, seq: u64, end: u64, ordinal: u8, has: impl Fn(u64) -> bool) {
        let from = self.place(seq);
        for copy in self.log[from..].iter_mut().take_while(|copy| copy.first < end) {
            if copy.ordinal > ordinal || !copy.is_reached && has(copy.first) {
                self.findings.add(copy);
            }
            copy.is_reached |= ordinal > 0;
        }
    }

    /// Forgets copies of which nothing more can be learned.
    #[cold]
    fn forget_old(&mut self, now: Instant, has: impl Fn(u64) -> bool) {
        let findings = &mut self.findings;
        self.log.retain_mut(|copy| {
            let lifetime = if has(copy.first) { SETTLED } else { LIFETIME };
            let is_old = now.saturating_since(copy.sent) >= lifetime;
            if is_old {
                findings.settle(copy, &has);
            }
            !is_old
        });
        self.full_at = 2 * self.log.len();
    }

    /// One past the highest byte that was sent again.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Those found spurious so far, originals included that nothing has told of.
    pub fn counts(&self, has: impl Fn(u64) -> bool) -> SpuriousCounts {
        let mut all = Findings { counts: self.findings.counts, list: None };
        for copy in &self.log {
            all.settle(&mut { *copy }, &has);
        }
        all.counts
    }

    /// Nothing more arrives of what was sent so far.
    pub fn end_incarnation(&mut self, has: impl Fn(u64) -> bool) {
        for mut copy in self.log.drain(..) {
            self.findings.settle(&mut copy, &has);
        }
        self.highest = 0;
    }

    /// Keeps from now on what is found, for [`Self::take_found`].
    pub fn observe(&mut self) {
        self.findings.list.get_or_insert_default();
    }

    /// What has been found since the last call.
    pub fn take_found(&mut self, has: impl Fn(u64) -> bool) -> Vec<Spurious> {
        for copy in &mut self.log {
            self.findings.settle(copy, &has);
        }
        self.findings.list.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
