//! The integration tests, one module per subject, in one binary that is linked once. Tests that
//! need a separate process (`allocations`, `extending`, `interrupt`) are in the parent folder.

#[allow(dead_code, reason = "the tests of lasthop-link use all of it")]
#[path = "../../../lasthop-link/tests/suite/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the tests of lasthop-tcp use all of it")]
#[path = "../../../lasthop-tcp/tests/suite/tcp_pipe/mod.rs"]
mod tcp_pipe;

mod agent_stacks;
mod air;
mod architecture;
mod changing_delays;
mod changing_rates;
mod counted_by_time;
mod dcf_machine;
mod dcf_properties;
mod dcf_saturation;
mod dcf_spread;
mod determinism;
mod flight_size;
mod fuzz_corpus;
mod golden_cells;
mod harq_hops;
mod held_back;
mod lazy_background;
mod link_fates;
mod link_fec;
mod live_network;
mod live_wlan;
mod loss_notification;
mod media;
mod media_statistics;
mod ns2_traces;
mod on_off_sources;
mod passive_ends;
mod persistence;
mod queue_contract;
mod queue_disciplines;
mod queueing_delay;
mod radio;
mod radio_properties;
mod receptions;
mod repetition;
mod runs;
mod scenario_errors;
mod scenario_model;
mod scenario_values;
mod scenarios;
mod senders;
mod services;
mod shared_queues;
mod snoop_machine;
mod snoop_runs;
mod split_connections;
mod stacks;
mod tcp_edges;
mod tcp_spurious;
mod theory;
mod wifi;
mod wifi_edca;
mod wifi_queues;
mod wifi_snr;
mod windows;
mod wired_loss;
mod wlan;
