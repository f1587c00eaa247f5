//! The receiver of A-MPDUs: the errors of each MPDU, the block-ack window, and delivery to the host. Part of the
//! [medium](super::medium).
//!
//! All MPDUs are passed up at the end of the PPDU. A PPDU that collides is lost as a whole.

use super::exchange::FrameExchange;
use super::medium::Medium;
use super::observe::Times;
use super::report::{AirFrame, Delivery, PairId};
use super::session::{ModeTimes, Psdu, Reception, Session};
use super::station::Waiting;
use crate::block_ack::Receipt;
use crate::phy::Signal;
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;
use lasthop_link::channel::Airtime;

impl<P: Payload + Clone> Medium<P> {
    /// Determines the MPDUs of a PPDU that its receiver reads, from the errors of each. Returns `true` if
    /// it reads none.
    pub(super) fn is_aggregate_lost(
        &mut self,
        exchange: &FrameExchange,
        [start, end]: [Instant; 2],
    ) -> bool {
        let pair = &mut self.pairs[exchange.pair as usize];
        let Some(session) = &mut pair.session else { return true };
        let channel = &mut self.channels[pair.channel as usize];
        let &ModeTimes { preamble, mode, .. } = session.times();
        let times = Times { start, end, preamble, psdu: exchange.length.get() };
        let (mut psdu, mut latest) = (Psdu::default(), Reception::default());
        let is_timeless = channel.is_timeless();
        let (signal, whole) = (Some(Signal::Mode(mode)), exchange.length.bits());
        session.originator.for_each_selected(|number, mpdu| {
            let mut airtime = Airtime { start, end, bits: whole };
            if !is_timeless {
                psdu = psdu.with(mpdu.bytes.into());
                [airtime.start, airtime.end] = times.of_last(psdu, mpdu.bytes);
                if exchange.data.mpdus() > 1 {
                    airtime.bits = u64::from(mpdu.bytes + 4) * 8;
                }
            }
            mpdu.is_received = !channel.is_lost(airtime, signal);
            mpdu.is_header_readable = mpdu.is_received || channel.is_header_readable();
            if mpdu.is_received {
                (latest.mpdus, latest.last) = (latest.mpdus + 1, number);
            } else {
                latest.has_damaged |= mpdu.is_header_readable;
            }
        });
        session.latest = latest;
        let is_lost = latest.mpdus == 0;
        if !is_lost
            && let Some(machine) = &mut session.rate_control
            && let Some(snr) = channel.snr()
        {
            machine.on_snr(snr);
        }
        is_lost
    }

    /// Counts the MPDUs of a PPDU that its receiver has read.
    pub(super) fn count_received(&mut self, pair: u32) {
        let received = self.session(pair).latest.mpdus;
        self.pairs[pair as usize].counters.data_received += received;
    }

    /// Returns `true` if the header of an MPDU, which was received with errors, is readable.
    pub(super) fn is_any_header_readable(&mut self, exchange: &FrameExchange) -> bool {
        self.session(exchange.pair).latest.has_damaged
    }

    /// Processes a PPDU or a request at its receiver.
    pub(super) fn receive_aggregate(&mut self, now: Instant, exchange: &FrameExchange) {
        let number = exchange.pair;
        let pair = &mut self.pairs[number as usize];
        let (counters, Some(session)) = (&mut pair.counters, &mut pair.session) else { return };
        let Session { originator, recipient, latest, .. } = &mut **session;
        let (queue, delays) = (&mut self.up, &mut pair.delays);
        let is_damaged = false;
        let mut up = |sequence, Waiting { arrived, packet, .. }: Waiting<P>| {
            delays.record(arrived, now);
            queue.push_back(Delivery { pair: PairId(number), sequence, packet, is_damaged });
        };
        if let AirFrame::BlockAckRequest { start } = exchange.data {
            recipient.on_request(start, up);
        } else {
            recipient.expect(latest.last);
            originator.for_each_selected(|sequence, mpdu| {
                if mpdu.is_received {
                    let receipt = recipient.on_mpdu(now, sequence, &mpdu.packets, &mut up);
                    counters.duplicates += u64::from(receipt == Receipt::Duplicate);
                    counters.reorder_held += u64::from(receipt == Receipt::Held);
                }
            });
        }
        if let Some(deadline) = recipient.deadline() {
            // If this PPDU has filled the lowest hole, the wait for the next one may be over.
            self.reorder_at = self.reorder_at.min(deadline.max(now));
        }
        if exchange.data.is_data() && self.session(number).latest.has_damaged {
            self.receive_damaged(exchange);
        }
    }

    /// Delivers the packets of MPDUs with errors and a readable header, marked as damaged.
    pub(super) fn receive_damaged(&mut self, exchange: &FrameExchange) {
        let number = exchange.pair;
        let pair = &mut self.pairs[number as usize];
        let (counters, Some(session)) = (&mut pair.counters, &mut pair.session) else { return };
        let Session { originator, recipient, .. } = &mut **session;
        let known = recipient.block_ack();
        let queue = &mut self.up;
        originator.for_each_selected(|sequence, mpdu| {
            if mpdu.is_header_readable && !mpdu.is_received {
                counters.headers_readable += 1;
                if !known.acknowledges(sequence) {
                    let deliver = |waiting: &Waiting<P>| {
                        let (pair, packet) = (PairId(number), waiting.packet.clone());
                        queue.push_back(Delivery { pair, sequence, packet, is_damaged: true });
                    };
                    mpdu.packets.iter().for_each(deliver);
                }
            }
        });
    }

    /// Ends the waits of reorder buffers that are over at `now`.
    #[cold]
    pub(super) fn release_held(&mut self, now: Instant) {
        self.reorder_at = Instant::NEVER;
        for (number, pair) in (0..).zip(&mut self.pairs) {
            let Some(session) = &mut pair.session else { continue };
            let (up, delays) = (&mut self.up, &mut pair.delays);
            let (pair, is_damaged) = (PairId(number), false);
            session.recipient.on_timeout(now, |sequence, Waiting { arrived, packet, .. }| {
                delays.record(arrived, now);
                up.push_back(Delivery { pair, sequence, packet, is_damaged });
            });
            if let Some(deadline) = session.recipient.deadline() {
                self.reorder_at = self.reorder_at.min(deadline);
            }
        }
    }
}
