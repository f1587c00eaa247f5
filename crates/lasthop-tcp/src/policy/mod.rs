//! Rules in which the profiles differ and that are not keys of a scenario. Each policy is a small
//! `Copy` type in a separate file. [`Policies::of`] is the table of the profiles.

/// Declares a policy of independent rules. The RFCs have none of them, Linux has all.
macro_rules! rules {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $rule:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name {
            $($(#[$doc])* pub $rule: bool,)+
        }

        impl $name {
            /// The RFCs without additional rules.
            pub const RFC9293: Self = $name { $($rule: false,)+ };
            /// Linux.
            pub const LINUX: Self = $name { $($rule: true,)+ };
        }
    };
}
mod abort;
mod admission;
mod handshake;
mod rack;
mod receive;
mod rtt;
mod send;

use crate::config::Profile;
pub(crate) use abort::AbortPolicy;
pub(crate) use admission::AdmissionPolicy;
pub(crate) use handshake::HandshakePolicy;
pub(crate) use rack::RackPolicy;
pub(crate) use receive::ReceivePolicy;
pub(crate) use rtt::RttPolicy;
pub(crate) use send::SendPolicy;

/// The policies of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policies {
    pub handshake: HandshakePolicy,
    pub admission: AdmissionPolicy,
    pub receive: ReceivePolicy,
    pub send: SendPolicy,
    pub rack: RackPolicy,
    pub rtt: RttPolicy,
    pub abort: AbortPolicy,
}

impl Policies {
    /// Returns the policies of a profile.
    pub const fn of(profile: Profile) -> Self {
        let rtt = match profile {
            Profile::Ns2 => RttPolicy::Ns2,
            Profile::Rfc => RttPolicy::Rfc6298,
            Profile::Linux => RttPolicy::Linux,
        };
        match profile {
            Profile::Ns2 | Profile::Rfc => Policies {
                handshake: HandshakePolicy::RFC9293,
                admission: AdmissionPolicy::RFC9293,
                receive: ReceivePolicy::Rfc9293,
                send: SendPolicy::RFC9293,
                rack: RackPolicy::RFC9293,
                rtt,
                abort: AbortPolicy::ByCount,
            },
            Profile::Linux => Policies {
                handshake: HandshakePolicy::LINUX,
                admission: AdmissionPolicy::LINUX,
                receive: ReceivePolicy::Linux,
                send: SendPolicy::LINUX,
                rack: RackPolicy::LINUX,
                rtt,
                abort: AbortPolicy::ByTime,
            },
        }
    }
}
