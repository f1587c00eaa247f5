//! Link layer originated explicit link status notification, LL-ELSN (Yun, "Cross-Layer Explicit Link Status
//! Notification to Improve TCP Performance in Wireless Networks", EURASIP JWCN 2009, section 3.1).
//!
//! The agent runs at the transmitter of a link layer with acknowledgments: at the base station for data to a
//! wireless host, at the wireless host for data from it. For each data segment:
//!
//! ```text
//!             first attempt failed            retry limit
//!   SENT ---------------------------> RETRYING ----------> discarded: ELN to its sender
//!    |        ERSN to its sender          |
//!    +---- acknowledged ------------------+---> removed
//! ```
//!
//! Notifications have the format of an ACK ([`Segment::notice`]) and take the path of ACKs: the wired path from
//! the base station, or none if the sender is in the same host (a call up the stack). With a
//! retry limit of 1, no ERSN is sent. The agent keeps no state of connections.
//!
//! Choices not specified by the paper: ELN and ERSN contain the sequence number of the first byte of the
//! segment. SYN and FIN are reported like data. Pure ACKs are not, as they are never retransmitted.
//!
//! On links that segment packets, the ERSN is sent at the first retransmission of any PDU of the packet.

use super::family::{AgentKeys, AgentSite, Refusal};
use super::{Agent, AgentEvent, DeliveryReport, Notice, Segment};
use lasthop_analysis::AnalysisError;
use lasthop_base::schema::keys::table;
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

table! {
    /// Explicit link status notification: the link layer notifies TCP senders when it starts to
    /// retransmit one of their segments (ERSN) and when it discards one (ELN).
    pub struct LlElsnKeys as "ll-elsn" {
        /// Host of the agent, one end of the link; the agent reports on data that its host sends
        /// over the link.
        at: String;
        /// Whether the first retransmission of a segment is reported.
        ersn: bool = "true";
        /// Whether losses are reported.
        eln: bool = "true";
    }
}

/// State machine of the agent.
pub type Machine<P> = LlElsn<P>;

/// Checks that the link layer reports the outcome of packets, for an agent that requires it.
pub(super) fn check_reports(kind: &str, site: &AgentSite<'_>) -> Result<(), Refusal> {
    if site.reports_fates {
        return Ok(());
    }
    Err(Refusal::new(
        "kind",
        format!("{kind:?} with protocol kind {:?}", site.protocol),
        "a link whose sender is notified of the outcome of its packets: a station of a WLAN, or a link \
         protocol with acknowledgments, such as \"selective-repeat\" or \"stop-and-wait\"",
    ))
}

metrics! {
    /// Notifications from the link to TCP senders.
    pub struct NotificationMetrics {
        /// Notifications of a link-layer retransmission in progress (ERSN).
        ersn_sent: "ERSN sent", Count, Neither, Sum;
        /// Notifications of a loss on the link (ELN).
        eln_sent: "ELN sent", Count, Neither, Sum;
    }
}

impl AgentKeys for LlElsnKeys {
    type Machine<P: Segment + Clone> = Machine<P>;

    const METRICS: &'static [Metric] = NotificationMetrics::METRICS;

    fn at(&self) -> Option<&str> {
        Some(&self.at)
    }

    fn check(&self, site: &AgentSite<'_>) -> Result<(), Refusal> {
        check_reports("ll-elsn", site)
    }

    fn build<P: Segment + Clone>(
        &self,
        _site: &AgentSite<'_>,
        _connections: usize,
    ) -> Result<Machine<P>, AnalysisError> {
        Ok(LlElsn::new(self.ersn, self.eln))
    }
}

/// LL-ELSN at one end of a link.
#[derive(Clone, Debug)]
pub struct LlElsn<P> {
    sends_ersn: bool,
    sends_eln: bool,
    notices: VecDeque<P>,
    events: VecDeque<AgentEvent>,
    retransmissions: u64,
    losses: u64,
}

impl<P: Segment> LlElsn<P> {
    /// Creates an agent that reports first retransmissions (ERSN), losses (ELN), or both.
    pub fn new(sends_ersn: bool, sends_eln: bool) -> Self {
        LlElsn {
            sends_ersn,
            sends_eln,
            notices: VecDeque::new(),
            events: VecDeque::new(),
            retransmissions: 0,
            losses: 0,
        }
    }
}

impl<P: Segment + Clone> Agent<P> for LlElsn<P> {
    fn inspects_sent(&self) -> bool {
        false
    }

    fn inspects_received(&self) -> bool {
        false
    }

    fn wants_link_reports(&self) -> bool {
        true
    }

    fn on_link(&mut self, _now: Instant, _: Option<usize>, fate: DeliveryReport, packet: &P) {
        let notice = match fate {
            DeliveryReport::Retrying if self.sends_ersn => Notice::RetransmissionStarted,
            DeliveryReport::Abandoned if self.sends_eln => Notice::Loss,
            DeliveryReport::Retrying | DeliveryReport::Abandoned | DeliveryReport::Acknowledged => {
                return;
            }
        };
        let Some(view) = packet.segment().filter(|view| view.length > 0) else { return };
        let Some(message) = packet.notice(notice) else { return };
        match notice {
            Notice::RetransmissionStarted => self.retransmissions += 1,
            Notice::Loss => self.losses += 1,
        }
        self.notices.push_back(message);
        self.events.push_back(AgentEvent::Notified { notice, sequence: view.seq });
    }

    fn poll_up(&mut self) -> Option<P> {
        self.notices.pop_front()
    }

    fn poll_event(&mut self) -> Option<AgentEvent> {
        self.events.pop_front()
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let metrics = NotificationMetrics {
            ersn_sent: self.retransmissions as f64,
            eln_sent: self.losses as f64,
        };
        metrics.report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::{Packet, TcpHeader, flags};

    fn data(seq: u32, payload: u32) -> Packet {
        let tcp = TcpHeader { seq, payload, flags: flags::ACK, ack: 1, ..TcpHeader::default() };
        Packet { hop: 3, incarnation: 2, bytes: 40 + payload, tcp }
    }

    fn notified(
        agent: &mut LlElsn<Packet>,
        fate: DeliveryReport,
        packet: Packet,
    ) -> Option<Packet> {
        agent.on_link(Instant::ZERO, Some(0), fate, &packet);
        agent.poll_up()
    }

    #[test]
    fn a_discard_is_an_eln_and_a_first_retransmission_an_ersn() {
        let mut agent = LlElsn::new(true, true);
        let message =
            notified(&mut agent, DeliveryReport::Retrying, data(1001, 1000)).expect("an ERSN");
        let Packet { hop, incarnation, bytes, tcp } = message;
        assert_eq!((hop, incarnation, bytes), (3, 2, 40));
        assert_eq!((tcp.ack, tcp.flags), (1001, flags::ACK | flags::ERSN));
        let message =
            notified(&mut agent, DeliveryReport::Abandoned, data(1001, 1000)).expect("an ELN");
        assert_eq!((message.tcp.ack, message.tcp.flags), (1001, flags::ACK | flags::ELN));
        assert_eq!(message.segment().expect("a segment").ack, None, "it acknowledges nothing");
        assert_eq!(notified(&mut agent, DeliveryReport::Acknowledged, data(1001, 1000)), None);
        // The loss of a pure ACK is not reported.
        assert_eq!(notified(&mut agent, DeliveryReport::Abandoned, data(1, 0)), None);
        let mut counted = Vec::new();
        Agent::<Packet>::metrics(&agent, &mut |metric, value| {
            counted.push((metric.name, value.value()))
        });
        assert_eq!(counted, [("ersn_sent", 1.0), ("eln_sent", 1.0)]);
    }

    #[test]
    fn each_kind_can_be_left_out() {
        let mut agent = LlElsn::new(false, true);
        assert_eq!(notified(&mut agent, DeliveryReport::Retrying, data(1, 10)), None);
        assert!(notified(&mut agent, DeliveryReport::Abandoned, data(1, 10)).is_some());
        let mut agent = LlElsn::new(true, false);
        assert!(notified(&mut agent, DeliveryReport::Retrying, data(1, 10)).is_some());
        assert_eq!(notified(&mut agent, DeliveryReport::Abandoned, data(1, 10)), None);
    }
}
