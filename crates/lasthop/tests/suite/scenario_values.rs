//! Values of scenarios: equality of notations, and conversion to numbers.

use lasthop::scenario::Scenario;
use lasthop::schema::numbers::numbers;
use serde_json::json;
use std::path::Path;

#[test]
fn the_order_of_the_list_says_nothing() {
    let errors = |lose: &str| {
        let text = format!(
            r#"
            name = "n"
            [link.l]
            between = ["a", "b"]
            rate = "64 kbps"
            delay = "50 ms"
            protocol = "raw"
            errors = {{ kind = "listed", lose = {lose} }}
            reverse = {{ errors = "none" }}
            [flow.f]
            from = "a"
            to = "b"
            transport = {{ kind = "udp" }}
            app = {{ kind = "media", rate = "8 kbps", packet = "100 B" }}
            [run]
            duration = "1 min"
            "#
        );
        let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
        document.points().expect("a point").remove(0).scenario.links[0].forward.errors.clone()
    };
    assert_eq!(errors("[25, 27]"), errors("[27, 25]"));
    assert_ne!(errors("[25, 27]"), errors("[25]"));
}

#[test]
fn quantities_lose_their_units_and_words_stay() {
    let text = r#"
        name = "n"
        [link.l]
        between = ["a", "b"]
        rate = "64 kbps"
        delay = "50 ms"
        protocol = { kind = "stop-and-wait", retries = 3 }
        errors = { kind = "two-state", good = "10 s", bad = "100 ms", good_ber = 1e-6, bad_ber = "1 %" }
        reverse = { errors = { kind = "exponential-bits", mean = "16 KiB" } }
        [flow.f]
        from = "a"
        to = "b"
        transport = { kind = "udp" }
        app = { kind = "media", rate = "8 kbps", packet = "100 B", silence = "0 s" }
        [run]
        duration = "1 min"
    "#;
    let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
    let scenario = document.points().expect("a point").remove(0).scenario;
    let link = &scenario.links[0];
    let two_state = json!({
        "kind": "two-state", "good": 10.0, "bad": 0.1, "good_ber": 1e-6, "bad_ber": 0.01,
    });
    assert_eq!(numbers(&link.forward.errors), two_state);
    let intervals = json!({"kind": "exponential-bits", "mean": 131_072});
    assert_eq!(numbers(&link.reverse.errors), intervals);
    let protocol = json!({
        "kind": "stop-and-wait", "retries": 3, "timeout": "auto", "control": 2,
    });
    assert_eq!(numbers(&link.protocol), protocol);
    let media = json!({
        "kind": "media", "rate": 8000, "packet": 100,
        "talk": {"distribution": "exp", "mean": 1.0}, "silence": {"distribution": "constant", "mean": 0.0},
        "deadline": 0.4,
    });
    assert_eq!(numbers(&scenario.flows[0].app), media);
}
