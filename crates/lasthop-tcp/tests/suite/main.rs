//! The tests of TCP connections from outside, one module a subject, in one binary: it is linked once.

mod lt_tcp;
mod sender_traces;
mod tcp_ecn;
mod tcp_pipe;
mod tcp_properties;
mod tcp_traces;
