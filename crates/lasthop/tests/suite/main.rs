//! The integration tests, one module a subject, in one binary: it is linked once. Tests that need a process of
//! their own (`allocations`, `extending`, `interrupt`) stand beside this folder.

mod air;
mod analysis_models;
mod analysis_tables;
mod common;
mod determinism;
mod lazy_background;
mod link_closed_forms;
mod link_fec;
mod link_ideal_sr;
mod link_properties;
mod link_rlc;
mod link_stop_and_wait;
mod link_tables;
mod links_on_bytes;
mod media;
mod media_statistics;
mod ns2_traces;
mod persistence;
mod radio;
mod radio_properties;
mod rlc_properties;
mod rlp_properties;
mod runs;
mod scenario_errors;
mod scenario_model;
mod services;
mod snoop_machine;
mod snoop_runs;
mod tcp_edges;
mod tcp_pipe;
mod tcp_properties;
mod tcp_scripts;
mod tcp_traces;
mod theory;
mod wired_loss;
