//! Tests of TCP connections through their public interface, one module per subject. They form one
//! binary, so that it is linked only once.

mod host_keys;
mod lt_tcp;
mod sender_traces;
mod short_segments;
mod tcp_ecn;
mod tcp_pipe;
mod tcp_properties;
mod tcp_traces;
mod unused_windows;
mod usage;
