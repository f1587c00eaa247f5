//! Integration tests of conformance scripts, one module per subject, in one binary that is linked
//! once.

mod recorded;
mod tcp_scripts;
