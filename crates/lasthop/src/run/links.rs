//! From a scenario's link protocol to its endpoints.

use crate::link::{
    Acknowledgment, GoBackN, GoBackNParameters, LinkEndpoint, LinkError, LinkTiming, Release,
    Renack, Rlp, RlpParameters, SelectiveRepeat, SelectiveRepeatParameters, StopAndWait,
    StopAndWaitParameters, TimerMode, XorFec, XorFecParameters,
};
use crate::packet::Packet;
use crate::scenario::{self, Direction, Link, Protocol};
use crate::units::{Bytes, Duration};

/// What crosses a link, as far as "auto" timers depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    /// The largest packet, in either direction.
    pub packet: Bytes,
    /// The longest time between the packets of a constant-rate flow in the endpoint's own
    /// direction.
    pub interval: Option<Duration>,
}

/// The endpoint that transmits on `own` and receives on `other`.
pub(super) fn endpoint(
    link: &Link,
    own: &Direction,
    other: &Direction,
    crossing: Crossing,
) -> Result<LinkEndpoint<Packet>, LinkError> {
    let timing = |control: Bytes| LinkTiming {
        rate: own.rate,
        delay: own.delay,
        back_rate: other.rate,
        back_delay: other.delay,
        data_frame: Bytes::new(crossing.packet.get() + link.header.get()),
        control_frame: control,
    };
    match &link.protocol {
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
                header: link.header,
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
                header: link.header,
                control: set.control,
                ..auto
            };
            GoBackN::new(parameters).map(LinkEndpoint::GoBackN)
        }
        Protocol::KarnRlp(set) => {
            rlp(set, link.header, &timing(set.control), Release::InSequence).map(LinkEndpoint::Rlp)
        }
        Protocol::OosRlp(set) => {
            rlp(set, link.header, &timing(set.control), Release::Immediate).map(LinkEndpoint::Rlp)
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
                header: link.header,
                control: set.control,
            };
            StopAndWait::new(parameters).map(LinkEndpoint::StopAndWait)
        }
        Protocol::XorFec(set) => {
            let auto = XorFecParameters::for_link(&timing(Bytes::default()), crossing.interval);
            let parameters = XorFecParameters {
                block: set.block,
                parity_timeout: match set.parity_timeout {
                    scenario::LinkTimeout::Auto => auto.parity_timeout,
                    scenario::LinkTimeout::After(timeout) => timeout,
                },
                header: link.header,
            };
            XorFec::new(parameters).map(LinkEndpoint::XorFec)
        }
    }
}

fn rlp(
    set: &scenario::Rlp,
    header: Bytes,
    timing: &LinkTiming,
    release: Release,
) -> Result<Rlp<Packet>, LinkError> {
    let auto = RlpParameters::for_link(timing, release);
    let parameters = RlpParameters {
        retransmissions: set.retransmissions,
        nack_timeout: match set.nack_timeout {
            scenario::LinkTimeout::Auto => auto.nack_timeout,
            scenario::LinkTimeout::After(timeout) => timeout,
        },
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
