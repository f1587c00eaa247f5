//! MPDUs of a PPDU for the observer: their times, outcomes and packets, and the content of BlockAcks. Part of the
//! [medium](super::medium).

use super::exchange::FrameExchange;
use super::medium::Medium;
use super::report::{AirFate, AirFrame, MediumEvent, PairId};
use super::session::Psdu;
use crate::block_ack::BlockAck;
use crate::phy::qos::AccessCategory;
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};

impl<P: Payload + Clone> Medium<P> {
    /// Reports each MPDU of a transmitted PPDU to the observer, its packets one by one.
    pub(super) fn show_aggregate(
        &mut self,
        exchange: &FrameExchange,
        [start, end]: [Instant; 2],
        fate: AirFate,
    ) {
        let (reserves, tid) = (exchange.reserves(exchange.data), self.tid_of(exchange.pair));
        let pair = PairId(exchange.pair);
        let Some(session) = &mut self.pairs[pair.index()].session else { return };
        let preamble = session.times().preamble;
        let times = Times { start, end, preamble, psdu: exchange.length.get() };
        let mpdus = match exchange.data {
            AirFrame::Aggregate { mpdus } => mpdus,
            _ => 1,
        };
        let (events, mut psdu) = (&mut self.events, Psdu::default());
        session.originator.for_each_selected(|sequence, mpdu| {
            psdu = psdu.with(mpdu.bytes.into());
            let [start, end] =
                if mpdus == 1 { [start, end] } else { times.of_last(psdu, mpdu.bytes) };
            let is_intact = fate != AirFate::Received || mpdu.is_received;
            let fate = if is_intact { fate } else { AirFate::Damaged };
            let subframes = mpdu.packets.len() as u16;
            for (subframe, packet) in (0..).zip(&mpdu.packets) {
                events.push_back(MediumEvent::Frame {
                    pair,
                    kind: AirFrame::Mpdu {
                        sequence,
                        is_retry: mpdu.attempts > 1,
                        place: psdu.mpdus as u16 - 1,
                        mpdus,
                        subframe,
                        subframes,
                    },
                    start,
                    end,
                    fate,
                    packet: Some(packet.packet.clone()),
                    bytes: mpdu.bytes,
                    reserves,
                    tid,
                    scoreboard: None,
                    signal: exchange.signal,
                });
            }
        });
    }

    /// Returns the traffic identifier of a pair.
    pub(super) fn tid_of(&self, pair: u32) -> u8 {
        let from = self.pairs[pair as usize].from;
        let priority = self.stations[usize::from(from)].category.priority;
        if self.has_categories { AccessCategory::ALL[usize::from(priority)].tid() } else { 0 }
    }

    /// Returns the content of the BlockAck that answers a PPDU or a request, including the effect of the
    /// latter on the scoreboard.
    pub(super) fn answered_scoreboard(&mut self, exchange: &FrameExchange) -> BlockAck {
        let session = self.session(exchange.pair);
        let window = session.parameters.window.into();
        let mut scoreboard = session.recipient.block_ack();
        match exchange.data {
            AirFrame::BlockAckRequest { start } => scoreboard.advance(start),
            _ => session.originator.for_each_selected(|number, mpdu| {
                if mpdu.is_received {
                    scoreboard.mark(number, window);
                }
            }),
        }
        scoreboard
    }
}

/// Times of the MPDUs of a PPDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub start: Instant,
    pub end: Instant,
    pub preamble: Duration,
    /// Length of the PSDU in bytes.
    pub psdu: u64,
}

impl Times {
    /// Returns start and end of the MPDU of `bytes` that was added to `psdu` last, delimiter included. The
    /// preamble belongs to the first one.
    pub fn of_last(&self, psdu: Psdu, bytes: u32) -> [Instant; 2] {
        let span = (self.end.saturating_since(self.start).as_nanos())
            .saturating_sub(self.preamble.as_nanos());
        let at = |offset: u64| {
            let offset = offset.min(self.psdu);
            self.start + self.preamble + Duration::from_nanos(span * offset / self.psdu.max(1))
        };
        let from = psdu.offset_of_last(bytes.into());
        let start = if psdu.mpdus == 1 { self.start } else { at(from) };
        [start, at(from + 4 + u64::from(bytes))]
    }
}
