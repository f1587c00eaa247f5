//! Events and counters of link endpoints.

use lasthop_base::schema::metrics::metrics;

/// Declares the events of an endpoint, with their names in a trace.
macro_rules! link_events {
    ($(#[doc = $doc:literal] $event:ident = $name:literal;)+) => {
        /// Event of a link endpoint, for cross-layer agents and probes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LinkEvent {
            $(#[doc = $doc] $event {
                /// Sequence number of the frame; of a disruption, that of the last lost frame.
                sequence: u64,
            },)+
        }

        impl LinkEvent {
            /// Returns its name, and the sequence number of the frame that it concerns.
            pub fn named(self) -> (&'static str, u64) {
                match self { $(LinkEvent::$event { sequence } => ($name, sequence),)+ }
            }
        }
    };
}

link_events! {
    /// A frame was retransmitted.
    Retransmitted = "retransmitted";
    /// The retransmission timer of a frame expired.
    TimedOut = "timed_out";
    /// A negative acknowledgment for a missing frame was sent.
    NackSent = "nack_sent";
    /// A frame was discarded by its sender or receiver, for example after the retry limit.
    Abandoned = "abandoned";
    /// A lost frame was recovered from redundancy.
    Recovered = "recovered";
    /// Frames are lost entirely: the sender, which detected this, sends one at a time.
    Disrupted = "disrupted";
    /// A frame was received again at least in part; the disruption is over.
    Restored = "restored";
}

/// Declares the counters of an endpoint, and the metrics that report them.
macro_rules! link_counters {
    ($(
        #[doc = $about:literal]
        $metrics:ident {
            $(#[doc = $doc:literal] $counter:ident: $label:literal, $preferred:ident;)+
        }
    )+) => {
        /// Counters of one endpoint, which are always enabled.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LinkCounters {
            $($(#[doc = $doc] pub $counter: u64,)+)+
        }

        impl LinkCounters {
            /// Returns the sums of the counters of two endpoints.
            pub fn plus(self, other: Self) -> Self {
                LinkCounters { $($($counter: self.$counter + other.$counter,)+)+ }
            }
        }

        $(
            metrics! {
                #[doc = $about]
                pub struct $metrics {
                    $(#[doc = $doc] $counter: $label, Count, $preferred, Sum;)+
                }
            }

            impl From<&LinkCounters> for $metrics {
                fn from(link: &LinkCounters) -> Self {
                    $metrics { $($counter: link.$counter as f64,)+ }
                }
            }
        )+
    };
}

link_counters! {
    /// Counters of the sending half of a link endpoint.
    SenderMetrics {
        /// Data frames sent for the first time.
        data_frames: "Data frames", Neither;
        /// Data frames retransmitted.
        retransmissions: "Retransmissions", Lower;
        /// Separate ACKs sent.
        acks: "ACKs", Neither;
        /// Negative ACKs sent.
        nacks: "NACKs", Neither;
        /// Expiries of the retransmission timer.
        timeouts: "Timeouts", Lower;
        /// Frames discarded after the retry limit.
        abandoned: "Abandoned", Lower;
        /// Keep-alive frames sent.
        keepalives: "Keepalives", Neither;
        /// Parity frames sent.
        parities: "Parities", Neither;
    }
    /// Counters of a link endpoint that segments packets.
    PacketMetrics {
        /// Packets acknowledged or discarded.
        packets: "Packets", Neither;
        /// Packets discarded after the retry limit.
        packets_abandoned: "Packets abandoned", Lower;
        /// Requests for a status report sent.
        polls: "Polls", Neither;
        /// Status reports sent.
        statuses: "Statuses", Neither;
    }
    /// Counters of the receiving half of a link endpoint.
    ReceiverMetrics {
        /// Frames received more than once.
        duplicates: "Duplicates", Lower;
        /// Data frames dropped by the receiver: out of sequence or beyond the window.
        discarded: "Discarded", Lower;
        /// Frames recovered from redundancy.
        recovered: "Recovered", Neither;
        /// Missing frames for which the receiver no longer waits.
        skipped: "Skipped", Lower;
    }
}
