//! Integration tests of link protocols, queues and interfaces, one module per topic, in a single
//! binary to link only once.

mod common;
mod computed_queue;
mod driven_calls;
mod interface_on_bytes;
mod link_closed_forms;
mod link_harq;
mod link_harq_figures;
mod link_ideal_sr;
mod link_properties;
mod link_rlc;
mod link_rlc_rates;
mod link_rlc_resets;
mod link_stack;
mod link_stop_and_wait;
mod link_tables;
mod links_on_bytes;
mod rlc_properties;
mod rlp_properties;
