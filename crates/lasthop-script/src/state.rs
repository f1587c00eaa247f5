//! State of the connection under the names of Linux's `tcp_info`, and the statements that check it.

use super::ScriptError;
use super::constants;
use super::player::Player;
use super::statements::{self, Outside, Trouble};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::host::State;
use lasthop_tcp::{Limit, RecoveryState, TcpInfo};
use std::fmt::Write as _;

/// `tcpi_snd_ssthresh` before the first reduction (Linux's `TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: f64 = 2_147_483_647.0;

/// A rate without limit (`~0`).
const UNLIMITED: f64 = u64::MAX as f64;

impl Player {
    /// Runs a block of statements.
    pub(super) fn run_code(&mut self, line: u32, text: &str) -> Result<(), ScriptError> {
        // Names defined by blocks take precedence.
        let mut variables = std::mem::take(&mut self.variables);
        let look_up = |name: &str| {
            constants::number(name).map(|value| value as f64).or_else(|| self.state(name))
        };
        let mut outside = Outside { look_up: &look_up, variables: &mut variables };
        let result = statements::run(text, line, &mut outside);
        self.variables = variables;
        result.map_err(|(line, trouble)| self.trouble(line, trouble))
    }

    fn trouble(&self, line: u32, trouble: Trouble) -> ScriptError {
        const EXPECTED: &str = "statements on tcpi_* names and numbers";
        match trouble {
            Trouble::Unknown(what) => ScriptError::NotModelled { line, what },
            Trouble::Syntax(found) => {
                let found = format!("\"{found}\"");
                ScriptError::Syntax { line, found, expected: EXPECTED }
            }
            Trouble::Failed(found) => {
                let expected = "an operation with a result".to_owned();
                ScriptError::Differs { line, expected, found }
            }
            Trouble::Asserted(condition, said) => {
                let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
                let found = format!("{}{said}", self.describe(&condition));
                ScriptError::Differs { line, expected: condition, found }
            }
        }
    }

    /// Value of the state with this name in Linux's `tcp_info`.
    fn state(&self, name: &str) -> Option<f64> {
        let socket = self.ends.socket.as_ref()?;
        let info: TcpInfo = socket.info();
        let open = Some(socket).filter(|socket| socket.is_open());
        let counters = socket.counters();
        let millis = |at: Instant| (self.now - at).as_nanos() as f64 / 1e6;
        let micros = |duration: Duration| (duration.as_nanos() / 1_000) as f64;
        Some(match name {
            // Linux reports a socket in TIME-WAIT as closed.
            "tcpi_state" => match (self.environment.is_linux(), socket.state()) {
                (true, State::TimeWait) => f64::from(number(State::Closed)),
                (_, state) => f64::from(number(state)),
            },
            "tcpi_ca_state" => match info.recovery {
                RecoveryState::Open => 0.0,
                RecoveryState::Disorder => 1.0,
                RecoveryState::CongestionWindowReduced => 2.0,
                RecoveryState::Recovery => 3.0,
                RecoveryState::Loss => 4.0,
            },
            "tcpi_snd_cwnd" => info.congestion_window.floor(),
            "tcpi_snd_ssthresh" => info.slow_start_threshold.floor().min(INFINITE_SSTHRESH),
            "tcpi_unacked" => info.unacked as f64,
            "tcpi_sacked" => info.outstanding.sacked as f64,
            "tcpi_lost" => info.outstanding.lost as f64,
            "tcpi_retrans" => info.outstanding.retransmitted as f64,
            "tcpi_reordering" => f64::from(info.reordering),
            "tcpi_pacing_rate" => info.pacing_rate.map_or(UNLIMITED, f64::floor),
            "tcpi_max_pacing_rate" => info.pacing_limit.unwrap_or(UNLIMITED),
            "tcpi_delivery_rate" => info.delivery_rate.map_or(0.0, |(rate, _)| rate.floor()),
            "tcpi_delivery_rate_app_limited" => {
                f64::from(u8::from(info.delivery_rate.is_some_and(|(_, is_limited)| is_limited)))
            }
            "tcpi_fackets" => 0.0,
            "tcpi_rtt" => micros(info.rtt),
            "tcpi_rttvar" => micros(info.rtt_variation),
            "tcpi_rto" => micros(open.map_or(info.rto, |data| data.sender().rto())),
            "tcpi_backoff" | "tcpi_retransmits" => f64::from(info.back_off),
            "tcpi_busy_time" => micros(socket.usage_at(self.now).busy()),
            "tcpi_rwnd_limited" => {
                micros(socket.usage_at(self.now).limited_by(Limit::ReceiveWindow))
            }
            "tcpi_sndbuf_limited" => {
                micros(socket.usage_at(self.now).limited_by(Limit::SendBuffer))
            }
            "tcpi_last_data_sent" => millis(socket.last_data_sent()),
            "tcpi_last_data_recv" => millis(socket.last_data_received()),
            "tcpi_last_ack_recv" => millis(socket.last_ack_received()),
            "tcpi_pmtu" => f64::from(socket.path_mtu()),
            "tcpi_probes" => f64::from(info.probes),
            "tcpi_snd_mss" => info.segment as f64,
            "tcpi_advmss" => {
                let stamps = open.is_some_and(|data| data.config().timestamps);
                f64::from(socket.settings().mss) - if stamps { 12.0 } else { 0.0 }
            }
            "tcpi_snd_wnd" => info.peer_window as f64,
            "tcpi_rcv_wnd" => info.receive_window as f64,
            "tcpi_total_retrans" => counters.retransmissions as f64,
            // The SYN of the active opener counts, since Linux has a record of it.
            "tcpi_bytes_acked" => {
                let syn = self.environment.is_linux() && !socket.is_passive();
                open?.acked_bytes() as f64 + f64::from(u8::from(syn))
            }
            // A FIN counts as a byte.
            "tcpi_bytes_received" => open?.delivered_bytes() as f64,
            "tcpi_notsent_bytes" => socket.unacknowledged_numbers().1 as f64,
            "tcpi_snd_wscale" => f64::from(socket.window_scales().0),
            "tcpi_rcv_wscale" => f64::from(socket.window_scales().1),
            "tcpi_segs_out" => socket.traffic().segments_sent as f64,
            "tcpi_segs_in" => socket.traffic().segments_received as f64,
            "tcpi_data_segs_out" => socket.traffic().data_segments_sent as f64,
            "tcpi_data_segs_in" => socket.traffic().data_segments_received as f64,
            "tcpi_bytes_sent" => socket.traffic().bytes_sent as f64,
            "tcpi_bytes_retrans" => socket.traffic().bytes_sent_again as f64,
            // Linux counts the SYN.
            "tcpi_delivered" => info.delivered as f64 + f64::from(u8::from(open.is_some())),
            "tcpi_dsack_dups" => info.duplicates_reported as f64,
            "tcpi_delivered_ce" => info.delivered_marked as f64,
            "tcpi_reord_seen" => info.reorderings as f64,
            "tcpi_rcv_ooopack" => info.out_of_order as f64,
            "tcpi_min_rtt" => micros(info.min_rtt.unwrap_or(info.rtt)),
            "tcpi_last_ack_sent" | "tcpi_rehash" | "tcpi_fastopen_client_fail" => 0.0,
            "tcpi_rcv_space" => match socket.most_read() {
                Some(bytes) => bytes as f64,
                None => f64::from(socket.settings().receive_buffer),
            },
            "tcpi_rcv_rtt" => micros(socket.receiver_rtt().unwrap_or_default()),
            "tcpi_rcv_mss" => socket.peer_segment()? as f64,
            "tcpi_rcv_ssthresh" => socket.window_limit()? as f64,
            "tcpi_ato" => micros(socket.ack_delay()),
            "tcpi_total_rto" => counters.timeouts as f64,
            "tcpi_options" => f64::from(self.options()),
            _ => return None,
        })
    }

    /// `TCPI_OPT_*` of the negotiated options.
    fn options(&self) -> u8 {
        let Some(socket) = &self.ends.socket else { return 0 };
        if !socket.is_open() {
            return 0;
        }
        let config = socket.config();
        let (ecn, has_seen) = socket.ecn_state();
        let has_scale = socket.window_scales() != (0, 0);
        u8::from(config.timestamps)
            | u8::from(config.sack) << 1
            | u8::from(has_scale) << 2
            | u8::from(ecn) << 3
            | u8::from(has_seen) << 4
    }

    /// Values of the names in a condition.
    fn describe(&self, condition: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut text = String::new();
        for word in condition.split(|c| !is_word(c)) {
            let variable = self.variables.get(word).map(ToString::to_string);
            let value = variable.or_else(|| self.state(word).map(|value| value.to_string()));
            if let Some(value) = value {
                let _ = write!(text, "{}{word} = {value}", if text.is_empty() { "" } else { ", " });
            }
        }
        if text.is_empty() { "false".to_owned() } else { text }
    }
}

/// Number of a state in Linux.
fn number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Listen => 10,
        State::Closing => 11,
    }
}
