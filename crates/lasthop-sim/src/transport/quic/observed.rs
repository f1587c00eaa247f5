//! Events of a QUIC connection for observers.

use super::frames::{Frame, Space, packets};
use super::ledger::Ledger;
use super::{Quic, single};
use crate::transport::{End, Losses, Moment, Numbers, Observed, STATE_NAMES, TransportEvent};
use lasthop_base::packet::{MAX_SACK_BLOCKS, Packet};
use lasthop_base::units::Instant;
use std::collections::HashMap;

/// Names of events, by packet number space, and of 0-RTT packets.
const SENT: [&str; 4] = ["initial_sent", "handshake_sent", "packet_sent", "early_sent"];
const RECEIVED: [&str; 4] =
    ["initial_received", "handshake_received", "packet_received", "early_received"];

impl Quic {
    /// Reports the packets of a datagram, with a name for each packet number space and for 0-RTT
    /// packets, and their ACK and STREAM frames. Numbers of 0-RTT and 1-RTT packets are those of
    /// `ledger`.
    fn describe(
        &self,
        packet: &Packet,
        ledger: &Ledger,
        names: [&'static str; 4],
        tell: &mut dyn FnMut(TransportEvent),
    ) {
        let Some(kept) = self.kept.as_ref().and_then(|kept| kept.get(&packet.datagram_number()))
        else {
            return;
        };
        let contents = kept.contents();
        for packet in packets(&contents) {
            let is_data = packet.space == Space::Data;
            let number = packet.number(if is_data { ledger.next() } else { 0 });
            let name = names[if packet.is_early { 3 } else { packet.space as usize }];
            tell(TransportEvent::numbered(name, number, packet.length as f64));
            for frame in packet.frames() {
                match frame {
                    Frame::Ack(ack) => ack.ranges().for_each(|(low, high)| {
                        let count = (high - low + 1) as f64;
                        tell(TransportEvent::numbered("ack_range", low, count));
                    }),
                    Frame::Stream { id, offset, length } => {
                        if id > 0 {
                            tell(single("stream_id", id));
                        }
                        tell(TransportEvent::numbered("stream_frame", offset, length as f64));
                    }
                    Frame::Padding | Frame::Close | Frame::Other => {}
                }
            }
        }
    }
}

impl Observed for Quic {
    fn losses(&self, end: End) -> Losses {
        let stats = self.host(end).connection().map(|one| one.stats().path).unwrap_or_default();
        Losses { sent: stats.sent_packets, lost: stats.lost_packets }
    }

    fn start_observation(&mut self) {
        self.kept = Some(HashMap::new());
    }

    fn observe(&self, end: End, moment: Moment<'_>, tell: &mut dyn FnMut(TransportEvent)) {
        let [own, peer] = [end, end.other()].map(|end| &self.ledgers[end.index()]);
        match moment {
            Moment::Sent(packet) => {
                self.describe(packet, own, SENT, tell);
            }
            Moment::Received(packet) => {
                self.describe(packet, peer, RECEIVED, tell);
            }
            Moment::TimedOut => {
                tell(TransportEvent::Single { name: "timeout", number: None, value: None });
            }
            Moment::Settled => {
                if let Some(connection) = self.host(end).connection() {
                    let metrics = connection.congestion_state().metrics();
                    let size = self.keys.datagram.get() as f64;
                    let cwnd = metrics.congestion_window as f64 / size;
                    let ssthresh = match metrics.ssthresh {
                        Some(bytes) if bytes < u64::MAX => bytes as f64 / size,
                        _ => f64::INFINITY,
                    };
                    let mut values = [f64::NAN; STATE_NAMES.len()];
                    values[..2].copy_from_slice(&[cwnd, ssthresh]);
                    values[2] = metrics.pacing_rate.map_or(f64::NAN, |bits| bits as f64);
                    let shared = &self.host(end).shared;
                    if let Some(latest) = shared.latest_rtt() {
                        values[4] = connection.min_rtt().as_secs_f64();
                        values[9..11].copy_from_slice(&[connection.rtt().as_secs_f64(), latest]);
                    }
                    values[11] = shared.in_flight() as f64;
                    tell(TransportEvent::State { values, phase: None });
                }
            }
        }
    }

    fn observe_past(&mut self, tell: &mut dyn FnMut(Instant, End, TransportEvent)) {
        for (at, end, event) in self.losses.drain(..) {
            tell(at, end, event);
        }
    }

    /// Returns the number of a 1-RTT packet if it elicits an acknowledgment, the largest number
    /// that it acknowledges, and the ranges of its ACK frame. Handshake packets have no numbers.
    fn numbers(&self, packet: &Packet) -> Option<Numbers> {
        let kept = self.kept.as_ref()?.get(&packet.datagram_number())?;
        let contents = kept.contents();
        // The last packet is the 1-RTT packet, if any.
        let last = packets(&contents).last()?;
        let mut numbers = Numbers {
            instance: packet.plain_incarnation(),
            sequence: kept.number.map(|number| number as u32),
            ack: None,
            blocks: [None; MAX_SACK_BLOCKS],
        };
        if last.space != Space::Data {
            return Some(numbers);
        }
        let mut free = numbers.blocks.iter_mut();
        for frame in last.frames() {
            if let Frame::Ack(ack) = frame {
                ack.ranges().for_each(|(low, high)| {
                    numbers.ack = numbers.ack.or(Some(high as u32));
                    if let Some(block) = free.next() {
                        *block = Some((low as u32, high as u32 + 1));
                    }
                });
            }
        }
        Some(numbers)
    }

    fn payload(&self, packet: &Packet) -> Option<Vec<u8>> {
        let kept = self.kept.as_ref()?.get(&packet.datagram_number())?;
        Some(kept.contents())
    }
}
