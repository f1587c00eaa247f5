//! The tests of conformance scripts from outside, one module a subject, in one binary: it is linked once.

mod recorded;
mod tcp_scripts;
