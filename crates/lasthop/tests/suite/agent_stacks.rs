//! Several agents on a link: each receives the packets that it would receive alone, in the order of
//! the stack.

use lasthop::run::{self, Options, Results};
use lasthop::scenario::Scenario;
use std::path::Path;

/// A transfer of 600 segments. The queue never fills, so that every segment reaches the agents.
fn results(agent: &str) -> Result<Results, String> {
    let text = format!(
        r#"
        name = "stack"
        [link.wired]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "10 ms"
        errors = {{ kind = "uniform", loss = "1 %" }}
        [link.wireless]
        between = ["ap", "client"]
        rate = "1 Mbps"
        delay = "5 ms"
        queue = "5000 packets"
        errors = {{ kind = "uniform", loss = "5 %" }}
        protocol = {{ kind = "stop-and-wait", retries = 1 }}
        {agent}
        [flow.transfer]
        from = "server"
        to = "client"
        transport = {{ kind = "tcp", variant = "newreno", profile = "rfc", segment = "500 B" }}
        app = {{ kind = "file", size = "300 kB" }}
        "#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).map_err(|error| error.to_string())?;
    let point = document.points().map_err(|error| error.to_string())?.remove(0).scenario;
    let options = Options { replications: 2, first_replication: 0, seed: 1, jobs: 1 };
    run::run(&[point], &options, &mut |_| true).map_err(|error| error.to_string())
}

fn metric(results: &Results, name: &str) -> Vec<f64> {
    let index = results.metrics.iter().position(|metric| metric == name);
    let index = index.unwrap_or_else(|| panic!("no {name} in {:?}", results.metrics));
    results.rows.iter().map(|row| row.values[index]).collect()
}

const SNOOP: &str = r#"{ kind = "snoop", at = "ap" }"#;
const PERSISTENCE: &str = r#"{ kind = "adaptive-persistence", at = "client",
    direction = "incoming", stay_good = 0.9, stay_bad = 0.5, loss_good = 0.01, loss_bad = 0.5 }"#;

#[test]
fn a_list_of_one_is_the_agent_alone() {
    let alone = results(&format!("agent = {SNOOP}")).expect("a run");
    let listed = results(&format!("agent = [{SNOOP}]")).expect("a run");
    assert_eq!(alone.metrics, listed.metrics);
    for (alone, listed) in alone.rows.iter().zip(&listed.rows) {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&alone.values), bits(&listed.values));
    }
}

#[test]
fn two_agents_work_together_and_report_apart() {
    let both = results(&format!("agent = [{SNOOP}, {PERSISTENCE}]")).expect("a run");
    assert!(metric(&both, "flow.transfer.complete").iter().all(|&complete| complete == 1.0));
    assert!(metric(&both, "agent.wireless.1.cached").iter().all(|&cached| cached >= 600.0));
    assert!(metric(&both, "agent.wireless.2.limit_mean").iter().all(|&limit| limit >= 1.0));
    // Both agents act where data enters the link: each counts the packets that the other forwards.
    let swapped = results(&format!("agent = [{PERSISTENCE}, {SNOOP}]")).expect("a run");
    assert!(metric(&swapped, "agent.wireless.1.limit_mean").iter().all(|&limit| limit >= 1.0));
    assert!(metric(&swapped, "agent.wireless.2.cached").iter().all(|&cached| cached >= 600.0));
    assert!(metric(&swapped, "flow.transfer.complete").iter().all(|&complete| complete == 1.0));
}

#[test]
fn an_agent_at_each_end_sees_its_own_side() {
    let far = r#"{ kind = "snoop", at = "client" }"#;
    let both = results(&format!("agent = [{SNOOP}, {far}]")).expect("a run");
    let alone = results(&format!("agent = {SNOOP}")).expect("a run");
    // The client sends no data: its agent caches only the handshake and repairs no loss.
    assert!(metric(&both, "agent.wireless.2.local_retransmissions").iter().all(|&n| n == 0.0));
    let repairs = metric(&alone, "agent.wireless.local_retransmissions");
    assert_eq!(metric(&both, "agent.wireless.1.local_retransmissions"), repairs);
}

#[test]
fn errors_name_the_agent_of_the_list() {
    let error = results(&format!("agent = [{SNOOP}, {{ kind = \"snoop\", at = \"server\" }}]"));
    let error = error.expect_err("a host that is not an end of the link");
    assert!(error.starts_with("link.wireless.agent[1].at: found \"server\""), "{error}");
    let error = results("agent = []").expect_err("an empty list");
    assert!(error.starts_with("link.wireless.agent: found an empty list"), "{error}");
    let error = results(&format!("agent = [{SNOOP}, {{ kind = \"snop\" }}]")).expect_err("a slip");
    assert!(error.starts_with("link.wireless.agent[1].kind: found \"snop\""), "{error}");
}
