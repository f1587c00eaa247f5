//! From a scenario's link protocol to its endpoints.

use crate::link::{
    Acknowledgment, AtLimit, GoBackN, GoBackNParameters, IdealSr, IdealSrParameters, LinkEndpoint,
    LinkError, LinkTiming, Release, Renack, Rlc, RlcParameters, Rlp, RlpParameters,
    SelectiveRepeat, SelectiveRepeatParameters, ServiceParameters, Services, ServicesParameters,
    StopAndWait, StopAndWaitParameters, TimerMode, XorFec, XorFecParameters, airtime,
};
use crate::packet::Packet;
use crate::queue::Limit;
use crate::scenario::{self, Direction, Protocol};
use crate::units::{Bytes, Duration};
use std::num::NonZeroU32;

/// A service with a tiny weight on a slow link may wait for ever; timers stop here: 11 days in ns.
const LONGEST_TURN: u128 = 1_000_000_000_000_000;

/// What crosses a link under one protocol, as far as "auto" timers depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    /// On a framed radio, its frame.
    pub radio_frame: Option<Duration>,
    /// The largest packet, in either direction.
    pub packet: Bytes,
    /// The longest time between the packets of a constant-rate flow in the endpoint's own
    /// direction.
    pub interval: Option<Duration>,
    /// Frame header of the protocol.
    pub header: Bytes,
    /// What each frame carries besides, to name its service.
    pub identifier: Bytes,
    /// How long frames of the other direction may have to wait for those of other services.
    pub wait: Duration,
    /// By how much two of them in a row may be kept apart by those of other services.
    pub turn: Duration,
}

/// The endpoint that transmits on `own` and receives on `other`.
pub(super) fn endpoint(
    protocol: &Protocol,
    own: &Direction,
    other: &Direction,
    crossing: Crossing,
) -> Result<LinkEndpoint<Packet>, LinkError> {
    let Crossing { radio_frame, packet, interval, header, identifier, wait, turn } = crossing;
    let timing = |control: Bytes| LinkTiming {
        rate: own.rate,
        delay: own.delay,
        back_rate: other.rate,
        back_delay: other.delay + wait,
        data_frame: Bytes::new(packet.get() + header.get() + identifier.get()),
        control_frame: Bytes::new(control.get() + identifier.get()),
    };
    match protocol {
        Protocol::Raw => Ok(LinkEndpoint::Raw(Default::default())),
        Protocol::SelectiveRepeat(set) => {
            let timing = timing(set.control);
            let auto = SelectiveRepeatParameters::for_link(&timing);
            let parameters = SelectiveRepeatParameters {
                window: set.window,
                timeout: match set.timeout {
                    scenario::LinkTimeout::Auto => auto.timeout,
                    scenario::LinkTimeout::After(timeout) => timeout,
                },
                renack: match set.renack {
                    scenario::Renack::OncePerGap => Renack::OncePerGap,
                    scenario::Renack::EveryArrival => Renack::EveryArrival,
                    scenario::Renack::AfterRoundTrip => {
                        Renack::AfterRoundTrip(timing.repair_time())
                    }
                },
                timer: match set.timer {
                    scenario::Timer::PerFrame => TimerMode::PerFrame,
                    scenario::Timer::BaseOnly => TimerMode::BaseOnly,
                },
                acknowledgment: match set.acks {
                    scenario::Acks::Piggybacked => Acknowledgment::Piggyback,
                    scenario::Acks::StandAlone => Acknowledgment::StandAlone,
                },
                header,
                control: set.control,
                ..auto
            };
            SelectiveRepeat::new(parameters).map(LinkEndpoint::SelectiveRepeat)
        }
        Protocol::GoBackN(set) => {
            let auto = GoBackNParameters::for_link(&timing(set.control));
            let parameters = GoBackNParameters {
                window: set.window,
                timeout: match set.timeout {
                    scenario::LinkTimeout::Auto => auto.timeout,
                    scenario::LinkTimeout::After(timeout) => timeout,
                },
                reject: set.reject,
                header,
                control: set.control,
                ..auto
            };
            GoBackN::new(parameters).map(LinkEndpoint::GoBackN)
        }
        Protocol::KarnRlp(set) => {
            rlp(set, header, &timing(set.control), turn, Release::InSequence).map(LinkEndpoint::Rlp)
        }
        Protocol::OosRlp(set) => {
            rlp(set, header, &timing(set.control), turn, Release::Immediate).map(LinkEndpoint::Rlp)
        }
        Protocol::StopAndWait(set) => {
            let auto = StopAndWaitParameters::for_link(&timing(set.control));
            let parameters = StopAndWaitParameters {
                retries: match set.retries {
                    scenario::Retries::Unlimited => None,
                    scenario::Retries::AtMost(retries) => Some(retries),
                },
                timeout: match set.timeout {
                    scenario::LinkTimeout::Auto => auto.timeout,
                    scenario::LinkTimeout::After(timeout) => timeout,
                },
                header,
                control: set.control,
            };
            StopAndWait::new(parameters).map(LinkEndpoint::StopAndWait)
        }
        Protocol::IdealSr(set) => {
            let parameters = IdealSrParameters {
                max_transmissions: set.max_transmissions.limit(),
                payload: set.payload,
                header,
            };
            IdealSr::new(parameters).map(|end| LinkEndpoint::IdealSr(Box::new(end)))
        }
        Protocol::XorFec(set) => {
            let auto = XorFecParameters::for_link(&timing(Bytes::default()), interval);
            let parameters = XorFecParameters {
                block: set.block,
                parity_timeout: match set.parity_timeout {
                    scenario::LinkTimeout::Auto => auto.parity_timeout,
                    scenario::LinkTimeout::After(timeout) => timeout,
                },
                header,
            };
            XorFec::new(parameters).map(LinkEndpoint::XorFec)
        }
        Protocol::RlcAm(set) => {
            let pdu = Bytes::new(set.payload.get() + header.get() + identifier.get());
            let timing =
                LinkTiming { data_frame: pdu, control_frame: pdu, ..timing(Bytes::default()) };
            // A report does not wait once it is made, so the guard counts no other services.
            let alone = LinkTiming { back_delay: other.delay, ..timing };
            let guard = radio_frame.map_or(alone.round_trip(), |frame| {
                // A PDU arrives one frame and the delay after the start of its frame, and the
                // report leaves at the start of the next one.
                let nanos = (frame + own.delay).as_nanos();
                let answer = nanos.next_multiple_of(frame.as_nanos().max(1));
                Duration::from_nanos(answer) + frame + other.delay
            });
            let parameters = rlc(set, header, &timing, guard);
            Rlc::new(parameters).map(|end| LinkEndpoint::Rlc(Box::new(end)))
        }
    }
}

/// `timing` is that of a PDU; what comes back sooner than `guard` after a PDU knows nothing of it.
fn rlc(
    set: &scenario::RlcAm,
    header: Bytes,
    timing: &LinkTiming,
    guard: Duration,
) -> RlcParameters {
    let auto = RlcParameters::for_link(timing, set.payload);
    // On a framed radio the round trip is longer than the rate says.
    let longest = auto.poll_timeout.max(guard * 2);
    let prohibit = set.timer_status_prohibit.get();
    // A report that is asked for may have to wait for the one before it.
    let answer = longest + prohibit.unwrap_or_default();
    let timer = |timer, auto| match timer {
        scenario::LinkTimeout::Auto => auto,
        scenario::LinkTimeout::After(timeout) => timeout,
    };
    RlcParameters {
        header,
        window: set.window,
        max_transmissions: set.max_transmissions.limit(),
        at_limit: match set.at_limit {
            scenario::AtLimit::Discard => AtLimit::Discard,
            scenario::AtLimit::Reset => AtLimit::Reset,
        },
        discard_after: set.discard_timer.get(),
        poll_sdu: set.poll_sdu.get(),
        poll_pdu: set.poll_pdu.get(),
        poll_window: set.poll_window.get(),
        poll_timeout: timer(set.timer_poll, answer),
        poll_prohibit: set.timer_poll_prohibit.get(),
        poll_periodic: set.timer_poll_periodic.get(),
        status_on_gap: set.status_on_gap,
        status_prohibit: prohibit,
        status_periodic: set.timer_status_periodic.get(),
        skip_timeout: timer(set.timer_mrw, longest),
        max_skips: set.max_mrw,
        reset_timeout: timer(set.timer_rst, longest),
        nack_guard: guard,
        ..auto
    }
}

fn rlp(
    set: &scenario::Rlp,
    header: Bytes,
    timing: &LinkTiming,
    turn: Duration,
    release: Release,
) -> Result<Rlp<Packet>, LinkError> {
    let auto = RlpParameters::for_link(timing, release);
    let parameters = RlpParameters {
        retransmissions: set.retransmissions,
        nack_timeout: match set.nack_timeout {
            scenario::LinkTimeout::Auto => auto.nack_timeout,
            scenario::LinkTimeout::After(timeout) => timeout,
        },
        copy_time: auto.copy_time + turn,
        keepalive: match set.keepalive {
            scenario::KeepaliveInterval::Auto => auto.keepalive,
            scenario::KeepaliveInterval::Off => None,
            scenario::KeepaliveInterval::Every(interval) => Some(interval),
        },
        keepalives: match set.keepalives {
            scenario::KeepaliveLimit::Unlimited => None,
            scenario::KeepaliveLimit::Frames(count) => Some(count),
        },
        header,
        control: set.control,
        ..auto
    };
    Rlp::new(parameters)
}

/// What a queue holds.
pub(super) fn limit(queue: scenario::QueueLimit) -> Limit {
    match queue {
        scenario::QueueLimit::Packets(packets) => Limit::Packets(packets.into()),
        scenario::QueueLimit::Bytes(bytes) => Limit::Bytes(bytes),
    }
}

/// The endpoint of several services that transmits on `own`; `crossings` say what crosses the link
/// for each: packets of no length where nothing asks for the service.
pub(super) fn services(
    set: &scenario::Services,
    own: &Direction,
    other: &Direction,
    crossings: &[Crossing],
) -> Result<LinkEndpoint<Packet>, LinkError> {
    let frame = |index: usize| {
        let service: &scenario::Service = &set.services[index];
        Bytes::new(crossings[index].packet.get() + service.header.get() + set.identifier.get())
    };
    let used =
        || (0..set.services.len()).filter(|&index| crossings[index].packet > Bytes::default());
    let weights: u64 = used().map(|index| u64::from(set.services[index].weight)).sum();
    let service = |(index, service): (usize, &scenario::Service)| {
        // Fair queueing lets a frame wait until its own service's turn comes, which is one frame
        // at the service's share of the rate, and for one frame of each other service.
        let weight = u64::from(service.weight);
        let own_frame = airtime(frame(index), other.rate).as_nanos();
        let others = u128::from(weights.saturating_sub(weight));
        let turn = u128::from(own_frame) * others / u128::from(weight);
        let turn = Duration::from_nanos(turn.min(LONGEST_TURN) as u64);
        let busy = used().filter(|&other| other != index);
        let wait = busy.map(|busy| airtime(frame(busy), other.rate)).fold(turn, |a, b| a + b);
        let (header, identifier) = (service.header, set.identifier);
        let crossing = Crossing { header, identifier, wait, turn, ..crossings[index] };
        Ok(ServiceParameters {
            endpoint: endpoint(&service.protocol, own, other, crossing)?,
            weight: NonZeroU32::new(service.weight).unwrap_or(NonZeroU32::MIN),
            limit: limit(service.queue.unwrap_or(own.queue)),
            header: Bytes::new(header.get() + identifier.get()),
        })
    };
    let parameters = ServicesParameters {
        services: set.services.iter().enumerate().map(service).collect::<Result<_, _>>()?,
        classes: Vec::new(),
        identifier: set.identifier,
        measure: set.measure,
    };
    Ok(LinkEndpoint::Services(Box::new(Services::new(parameters)?)))
}
