//! Valid scenarios: model, sweep, hash, schema, reference.

use lasthop::app::{FileKeys, OnOffKeys, Replay};
use lasthop::channel::clean::CleanKeys;
use lasthop::channel::two_state::TwoStateKeys;
use lasthop::link::raw::RawKeys;
use lasthop::link::selective_repeat::{RenackRule, SelectiveRepeatKeys};
use lasthop::link::{Acknowledgment, TimerMode};
use lasthop::scenario::*;
use lasthop::units::{Bytes, Duration, Probability, Rate};
use serde_json::{Map, Value, json};
use std::path::Path;

const EXAMPLE: &str = include_str!("../../../../examples/sr-file-transfer.toml");
const RADIO: &str = include_str!("../../../../examples/radio.toml");
const FIRST: &str = include_str!("../../../../examples/first.toml");

fn load(text: &str) -> Document {
    Scenario::from_toml(text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
}

/// The only point of a scenario of one link, one flow and these lines.
fn with_link(lines: &str) -> Result<Scenario, ScenarioError> {
    let text = FIRST.replacen("errors = { kind = \"uniform\", loss = \"1 %\" }", lines, 1);
    Ok(Scenario::from_toml(&text, Path::new("."))?.points()?.remove(0).scenario)
}

#[test]
fn the_example_is_read_as_written() {
    let points = load(EXAMPLE).points().unwrap();
    assert_eq!(points.len(), 8);
    assert_eq!(
        points[1].parameters,
        [
            ("link.wireless.errors.bad".to_owned(), json!("100 ms")),
            ("flow.transfer.transport.variant".to_owned(), json!("sack")),
        ]
    );
    assert_eq!(points[2].parameters[0].1, "200 ms", "the last key varies fastest");
    let scenario = &points[7].scenario;
    assert_eq!(scenario.hosts(), ["server", "ap", "client"]);
    let wireless = &scenario.links[1];
    assert_eq!((wireless.name.as_str(), wireless.header), ("wireless", Bytes::new(2)));
    assert_eq!(wireless.forward, wireless.reverse);
    assert_eq!(wireless.forward.rate, Rate::from_bps(64_000));
    assert_eq!(wireless.forward.delay, Duration::from_millis(50));
    assert_eq!(wireless.forward.queue, QueueLimit::Packets(50).into());
    assert_eq!(
        wireless.protocol,
        LinkProtocol::One(Protocol::SelectiveRepeat(SelectiveRepeatKeys {
            window: 8,
            timeout: LinkTimeout::Auto,
            timer: TimerMode::PerFrame,
            renack: RenackRule::AfterRoundTrip,
            acks: Acknowledgment::Piggyback,
            control: None,
        }))
    );
    assert_eq!(
        wireless.forward.errors,
        Errors::TwoState(TwoStateKeys {
            good: Duration::from_secs(10),
            bad: Duration::from_secs(1),
            good_ber: Probability::new(1e-6).unwrap(),
            bad_ber: Probability::new(1e-2).unwrap(),
            header: None,
        })
    );
    let [transfer, congestion] = &scenario.flows[..] else { panic!("two flows") };
    let Transport::Tcp(tcp) = &transfer.transport else { panic!("tcp") };
    assert_eq!((tcp.variant, tcp.profile), (Variant::Sack, Profile::Ns2));
    assert_eq!((tcp.segment, tcp.header), (Some(Bytes::new(250)), None));
    assert_eq!(transfer.app, App::File(FileKeys { size: Bytes::new(10_000_000) }));
    assert_eq!(
        congestion.app,
        App::OnOff(OnOffKeys {
            rate: Rate::from_bps(9_990_000),
            on: DurationDistribution::Exponential(Duration::from_secs(1)),
            off: DurationDistribution::Exponential(Duration::from_millis(1350)),
            packet: Bytes::new(250),
            replay: Replay::Lazy,
        })
    );
    assert_eq!((scenario.run.replications, scenario.run.seed), (30, 1));
    assert_eq!(scenario.run.max_time, Duration::from_secs(100_000));
}

#[test]
fn what_is_printed_reads_back_as_the_same_scenario() {
    for text in [EXAMPLE, FIRST, RADIO] {
        for point in load(text).points().unwrap() {
            let again = Scenario::from_json(point.scenario.to_json(), Path::new(".")).unwrap();
            assert_eq!(again.points().unwrap()[0].scenario, point.scenario);
        }
    }
}

#[test]
fn a_radio_becomes_a_link_for_each_station() {
    let radio = "[radio.cell]\nbase = \"b\"\nstations = [\"m\", \"n\"]\nuplink = 50\nqueue = \"9 packets\"\n\
                 protocol = { kind = \"ideal-sr\", max_transmissions = 3 }\n\
                 errors = { kind = \"slotted-gilbert-elliott\", stay_good = 0.9, stay_bad = 0.5 }\n\
                 downlink_errors = { kind = \"none\" }\n";
    let text = format!("{FIRST}{radio}")
        .replace("to = \"client\"", "to = \"n\"")
        .replace("\"client\"", "\"b\"");
    let text = |radio: &str, put: &str| text.replace(radio, put);
    let scenario = load(&text("", "")).points().unwrap().remove(0).scenario;
    let names: Vec<_> = scenario.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names[1..], ["cell.m", "cell.n"]);
    let link = &scenario.links[2];
    assert_eq!((link.radio, &link.between), (Some(0), &["n".to_owned(), "b".to_owned()]));
    // 42 B in 10 ms are 33.6 kbit/s.
    assert_eq!([&link.forward, &link.reverse].map(|side| side.rate.as_bps()), [1_680_000, 840_000]);
    assert_eq!((link.header, link.mtu), (Bytes::new(2), None));
    assert_eq!(
        (link.forward.queue.clone(), link.reverse.errors.clone()),
        (QueueLimit::Packets(9).into(), Errors::Clean(CleanKeys {}))
    );
    let Errors::SlottedGilbertElliott(chain) = &link.forward.errors else { panic!("{link:?}") };
    assert_eq!((chain.slot, chain.loss_bad.get()), (Some(Duration::from_millis(10)), 1.0));
    // An explicit default yields an equal scenario; another value does not.
    let with = |put: &str| {
        let text = text("uplink = 50", &format!("uplink = 50\n{put}"));
        load(&text).points().unwrap().remove(0).scenario.hash()
    };
    assert_eq!(with("frame = \"10 ms\"\nheader = \"2 B\""), scenario.hash());
    assert_ne!(with("slot = \"43 B\""), scenario.hash());
    // A radio's keys are swept and set like others.
    let mut document = load(&text(
        "[radio",
        "[sweep]\n\"radio.cell.protocol.max_transmissions\" = [1, \"unlimited\"]\n[radio",
    ));
    let limits = |document: &Document| -> Vec<_> {
        let points = document.points().unwrap();
        let limit = |point: &Point| match &point.scenario.links[1].protocol {
            LinkProtocol::One(Protocol::IdealSr(set)) => set.max_transmissions,
            other => panic!("{other:?}"),
        };
        points.iter().map(limit).collect()
    };
    assert_eq!(limits(&document), [Transmissions::AtMost(1), Transmissions::Unlimited]);
    document.set("radio.cell.protocol.max_transmissions", "7").unwrap();
    assert_eq!(limits(&document), [Transmissions::AtMost(7)]);
    let error = document.set("radio.sell.uplink", "7").unwrap_err().to_string();
    assert!(error.contains("no radio \"sell\" (did you mean \"cell\"?)"), "{error}");
}

#[test]
fn the_reverse_direction_overrides_what_it_names() {
    let link = with_link(
        "errors = { kind = \"bit\", ber = 1e-5 }\nreverse = { rate = \"64 kbps\", queue = \"2 kB\" }",
    )
    .unwrap()
    .links[0]
        .clone();
    assert_eq!(link.reverse.rate, Rate::from_bps(64_000));
    assert_eq!(link.reverse.queue, QueueLimit::Bytes(Bytes::new(2_000)).into());
    assert_eq!(link.reverse.delay, link.forward.delay);
    assert_eq!(link.reverse.errors, link.forward.errors);
    assert_eq!(link.header, Bytes::new(0));
}

#[test]
fn a_preset_gives_what_the_link_does_not() {
    let with_preset = |lines: &str| {
        let text = FIRST.replacen("rate = \"2 Mbps\"\ndelay = \"20 ms\"", lines, 1).replacen(
            "\"cubic\"",
            "\"newreno\", profile = \"rfc\", segment = \"10 B\"",
            1,
        );
        load(&text).points().unwrap().remove(0).scenario.links[0].clone()
    };
    for (name, rate, delay, payload) in
        [("cellular", 43_200, 100, 50), ("wlan", 2_000_000, 3, 1_000)]
    {
        let link = with_preset(&format!("preset = \"{name}\""));
        assert_eq!(link.forward.rate, Rate::from_bps(rate));
        assert_eq!(link.forward.delay, Duration::from_millis(delay));
        assert_eq!(link.reverse, link.forward);
        assert_eq!(link.mtu, Some(Bytes::new(payload)));
    }
    let lines = "preset = \"cellular\"\nrate = \"57.6 kbps\"\nmtu = \"90 B\"\n\
                 reverse = { delay = \"50 ms\" }";
    let link = with_preset(lines);
    assert_eq!(link.forward.rate, Rate::from_bps(57_600));
    assert_eq!(link.reverse.rate, Rate::from_bps(57_600));
    assert_eq!(link.forward.delay, Duration::from_millis(100));
    assert_eq!(link.reverse.delay, Duration::from_millis(50));
    assert_eq!(link.mtu, Some(Bytes::new(90)));
}

#[test]
fn bits_between_errors_are_counted_in_bits_or_bytes() {
    let mean = |text: &str| {
        let link = format!("errors = {{ kind = \"exponential-bits\", mean = \"{text}\" }}");
        match with_link(&link).unwrap().links[0].forward.errors.clone() {
            Errors::ExponentialBits(errors) => errors.mean,
            other => panic!("{other:?}"),
        }
    };
    for text in ["131072 bits", "16 KiB", "16384 B"] {
        assert_eq!(mean(text), BitInterval(1 << 17));
        assert_eq!(mean(text).to_string(), "131072 bits");
    }
    assert_eq!(mean("1 bit").to_string(), "1 bit");
    assert_eq!(mean("1 GB").to_string(), "1 GB");
}

#[test]
fn mean_loss_and_burst_become_a_chain() {
    let scenario =
        with_link("errors = { kind = \"gilbert-elliott\", mean_loss = \"20 %\", mean_burst = 4 }");
    let Errors::GilbertElliott(chain) = scenario.unwrap().links[0].forward.errors.clone() else {
        panic!("gilbert-elliott")
    };
    // p / (p + r) = 0.2 with r = 1/4.
    assert_eq!(chain.p_bad_to_good.get(), 0.25);
    assert!((chain.p_good_to_bad.get() - 0.0625).abs() < 1e-15);
    assert_eq!((chain.loss_good.get(), chain.loss_bad.get()), (0.0, 1.0));
}

#[test]
fn routes_take_the_fewest_hops_then_the_earliest_link() {
    let link = |name: &str, a: &str, b: &str| {
        format!(
            "[link.{name}]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1 Mbps\"\ndelay = \"1 ms\"\n"
        )
    };
    let flow = "[flow.f]\nfrom = \"a\"\nto = \"d\"\n\
                transport = { kind = \"udp\" }\n\
                app = { kind = \"on-off\", rate = \"1 Mbps\", on = \"1 s\", off = \"0 s\", \
                packet = \"1 kB\" }\n[run]\nduration = \"1 s\"\n";
    let text = [
        "name = \"diamond\"\n".to_owned(),
        link("z-long", "a", "x"),
        link("down", "c", "a"),
        link("up", "a", "b"),
        link("up2", "b", "d"),
        link("down2", "c", "d"),
        link("down2-twin", "c", "d"),
        flow.to_owned(),
    ]
    .concat();
    let scenario = load(&text).points().unwrap().remove(0).scenario;
    assert_eq!(scenario.route("a", "d"), [(1, false), (4, true)]);
    assert_eq!(scenario.route("d", "a"), [(3, false), (2, false)]);
    assert_eq!(scenario.route("x", "d"), [(0, false), (1, false), (4, true)]);
    assert!(scenario.route("a", "a").is_empty());
    assert!(scenario.route("a", "nowhere").is_empty());
    assert_eq!(scenario.hosts(), ["a", "x", "c", "b", "d"]);
}

#[test]
fn set_takes_toml_values_and_plain_text_and_ends_a_sweep() {
    let mut document = load(EXAMPLE);
    document.set("link.wireless.errors.bad", "2 s").unwrap();
    document.set("link.wireless.protocol", "{ kind = \"raw\" }").unwrap();
    document.set("run.replications", "5").unwrap();
    document.set("flow.transfer.transport.dupack_threshold", "4").unwrap();
    let points = document.points().unwrap();
    assert_eq!(points.len(), 2, "only the variant is still swept");
    let scenario = &points[0].scenario;
    assert_eq!(scenario.links[1].protocol, LinkProtocol::One(Protocol::Raw(RawKeys {})));
    assert_eq!(scenario.run.replications, 5);
    let Errors::TwoState(errors) = &scenario.links[1].forward.errors else { panic!("two-state") };
    assert_eq!(errors.bad, Duration::from_secs(2));
}

#[test]
fn tables_and_keys_that_the_file_leaves_out_can_be_swept() {
    let sweep = "\n[sweep]\n\"link.wireless.errors\" = [{ kind = \"none\" }, { kind = \"bit\", \
                 ber = 1e-5 }]\n\"run.duration\" = [\"10 s\", \"20 s\", \"30 s\"]\n";
    let points = load(&format!("{FIRST}{sweep}")).points().unwrap();
    assert_eq!(points.len(), 6);
    assert_eq!(points[0].scenario.links[0].forward.errors, Errors::Clean(CleanKeys {}));
    assert_eq!(points[5].scenario.run.duration, Some(Duration::from_secs(30)));
    // A required key may occur in the sweep only.
    let text = FIRST.replacen("rate = \"2 Mbps\"\n", "", 1);
    let sweep = "\n[sweep]\n\"link.wireless.rate\" = [\"1 Mbps\", \"2 Mbps\"]\n";
    assert_eq!(load(&format!("{text}{sweep}")).points().unwrap().len(), 2);
    assert!(Scenario::from_toml(&text, Path::new(".")).is_err());
}

#[test]
fn a_kind_alone_stands_for_its_table() {
    let table = "{ kind = \"selective-repeat\" }";
    let long =
        FIRST.replacen("[link.wireless]\n", &format!("[link.wireless]\nprotocol = {table}\n"), 1);
    let short = long.replacen(table, "\"selective-repeat\"", 1);
    let point = |document: &Document| document.points().unwrap()[0].scenario.clone();
    let expected = point(&load(&long));
    assert_eq!(point(&load(&short)), expected);
    assert!(matches!(expected.links[0].protocol, LinkProtocol::One(Protocol::SelectiveRepeat(_))));
    let json = load(&short).to_json().clone();
    assert_eq!(point(&Scenario::from_json(json, Path::new(".")).unwrap()), expected);

    let mut document = load(FIRST);
    document.set("link.wireless.protocol", "selective-repeat").unwrap();
    assert_eq!(point(&document), expected);
    // Keys of the table may follow.
    document.set("link.wireless.protocol.window", "8").unwrap();
    let LinkProtocol::One(Protocol::SelectiveRepeat(arq)) = &point(&document).links[0].protocol
    else {
        panic!("selective repeat")
    };
    assert_eq!(arq.window, 8);
    let sweep = "\n[sweep]\n\"link.wireless.protocol.window\" = [4, 8]\n";
    let points = load(&format!("{short}{sweep}")).points().unwrap();
    assert_eq!(points[1].scenario, point(&document));
    let sweep = "\n[sweep]\n\"link.wireless.protocol\" = [\"raw\", \"selective-repeat\"]\n";
    assert_eq!(load(&format!("{FIRST}{sweep}")).points().unwrap()[1].scenario, expected);

    let mut document = load(FIRST);
    document.set("link.wireless.errors", "uniform").unwrap();
    let error = document.points().unwrap_err();
    assert_eq!(error.path, "link.wireless.errors.loss");
    assert!(error.found.contains("missing"), "{error}");
    // Other words hold no keys.
    let error = load(FIRST).set("link.wireless.rate.kind", "raw").unwrap_err();
    assert_eq!(error.allowed, "a key of a table");
}

#[test]
fn ranges_zipped_lists_and_cases_are_axes_of_the_grid() {
    let sweep = r#"
[sweep]
"link.wireless.queue" = { from = "10 packets", to = "30 packets", step = "10 packets" }
[[sweep.zip]]
"link.wireless.rate" = ["1 Mbps", "2 Mbps"]
"link.wireless.delay" = { from = "1 ms", to = "2 ms", count = 2 }
[sweep.case.plain]
[sweep.case.lossy]
"link.wireless.errors" = { kind = "uniform", loss = "20 %" }
"link.wireless.header" = "7 B"
"#;
    let mut document = load(&format!("{FIRST}{sweep}"));
    let points = document.points().unwrap();
    let label = |point: &Point| {
        let print = |(key, value): &(String, Value)| format!("{key}={value}");
        point.parameters.iter().map(print).collect::<Vec<_>>().join(" ").replace('"', "")
    };
    let labels: Vec<_> = points.iter().map(label).collect();
    assert_eq!(labels.len(), 3 * 2 * 2);
    let zip =
        |rate: &str, delay: &str| format!("link.wireless.rate={rate} link.wireless.delay={delay}");
    let (slow, fast) = (zip("1 Mbps", "1 ms"), zip("2 Mbps", "2 ms"));
    assert_eq!(labels[0], format!("link.wireless.queue=10 packets {slow} case=plain"));
    assert_eq!(labels[1], format!("link.wireless.queue=10 packets {slow} case=lossy"));
    assert_eq!(labels[2], format!("link.wireless.queue=10 packets {fast} case=plain"));
    assert_eq!(labels[11], format!("link.wireless.queue=30 packets {fast} case=lossy"));
    let (plain, lossy) = (&points[10].scenario.links[0], &points[11].scenario.links[0]);
    assert_eq!(plain.forward.delay, Duration::from_millis(2));
    assert_eq!(plain.header, Bytes::new(0));
    assert_eq!(lossy.header, Bytes::new(7));
    assert_ne!(plain.forward.errors, lossy.forward.errors);
    // Setting a key removes it from the sweep, at any position.
    document.set("link.wireless.rate", "5 Mbps").unwrap();
    document.set("link.wireless.errors", "{ kind = \"none\" }").unwrap();
    let points = document.points().unwrap();
    assert_eq!(points.len(), 3 * 2 * 2);
    assert!(points.iter().all(|point| !label(point).contains("rate")));
    let links = || points.iter().map(|point| &point.scenario.links[0]);
    assert!(links().all(|link| link.forward.errors == Errors::Clean(CleanKeys {})));
    document.set("link.wireless.header", "1 B").unwrap();
    document.set("link.wireless.delay", "1 ms").unwrap();
    assert_eq!(document.points().unwrap().len(), 3);
}

#[test]
fn the_hash_sees_the_experiment_and_not_its_wording() {
    let hash = |document: &Document| document.points().unwrap()[0].scenario.hash();
    let first = load(FIRST);
    let plain = hash(&first);
    for (key, value) in [
        ("name", "other"),
        ("description", "why"),
        ("run.seed", "7"),
        ("run.replications", "2"),
        ("link.wireless.rate", "2000 kbps"),
        ("link.wireless.queue", "50 packets"),
        ("link.wireless.errors.loss", "0.01"),
    ] {
        let mut document = first.clone();
        document.set(key, value).unwrap();
        assert_eq!(hash(&document), plain, "{key}");
    }
    for (key, value) in [
        ("link.wireless.rate", "2001 kbps"),
        ("run.duration", "10 s"),
        ("flow.transfer.transport.variant", "sack"),
        ("link.wireless.reverse", "{ delay = \"1 ms\" }"),
    ] {
        let mut document = first.clone();
        document.set(key, value).unwrap();
        assert_ne!(hash(&document), plain, "{key}");
    }
    // Stored results are identified by these hashes: change them only intentionally.
    assert_eq!(plain, 4_414_609_274_517_069_132);
    let mut named = first.clone();
    named.set("flow.transfer.transport.variant", "newreno").unwrap();
    named.set("flow.transfer.transport.profile", "rfc").unwrap();
    assert_eq!(hash(&named), 1_368_030_451_658_126_127);
}

/// Checks a value against the keywords that `schema` uses, `pattern` excepted.
fn accepts(schema: &Value, value: &Value) -> Result<(), String> {
    let no = |why: &str| Err(format!("{value}: {why}"));
    if let Some(kind) = schema["type"].as_str() {
        let right = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            _ => panic!("type {kind}"),
        };
        if !right {
            return no(kind);
        }
    }
    if schema.get("const").is_some_and(|constant| constant != value) {
        return no("const");
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return no("enum");
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[keyword].as_array() {
            let right = choices.iter().filter(|choice| accepts(choice, value).is_ok()).count();
            if right == 0 || (keyword == "oneOf" && right > 1) {
                return no(keyword);
            }
        }
    }
    let outside = |limit: &str, wrong: fn(f64, f64) -> bool| {
        let limit = schema[limit].as_f64();
        limit.zip(value.as_f64()).is_some_and(|(limit, value)| wrong(value, limit))
    };
    if outside("minimum", |v, l| v < l) || outside("maximum", |v, l| v > l) {
        return no("limits");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return no(&format!("required {name}"));
        }
    }
    for (name, item) in value.as_object().into_iter().flatten() {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => return no(&format!("unknown {name}")),
            (Value::Null, Value::Null) => {}
            (Value::Null, others) => accepts(others, item)?,
            (property, _) => accepts(property, item)?,
        }
    }
    Ok(())
}

#[test]
fn the_schema_accepts_the_examples_and_refuses_slips() {
    let schema = schema();
    for text in [EXAMPLE, FIRST] {
        accepts(&schema, load(text).to_json()).unwrap();
        for point in load(text).points().unwrap() {
            accepts(&schema, &point.scenario.to_json()).unwrap();
        }
    }
    for (pointer, value) in [
        ("/link/wireless/protocol", json!("selective-repeat")),
        ("/link/wireless/errors", json!("none")),
        ("/flow/congestion/transport", json!("udp")),
    ] {
        let mut value_tree = load(EXAMPLE).to_json().clone();
        *value_tree.pointer_mut(pointer).unwrap() = value;
        accepts(&schema, &value_tree).unwrap();
    }
    for (pointer, value) in [
        // It needs a rate of loss.
        ("/link/wireless/errors", json!("uniform")),
        ("/link/wireless/protocol/window", json!(32_769)),
        ("/link/wireless/protocol/kind", json!("sr")),
        ("/link/wireless/rate", json!(64)),
        ("/flow/transfer/transport/variant", json!("westwod")),
        ("/run/replications", json!(0)),
        ("/link", json!([])),
    ] {
        let mut value_tree = load(EXAMPLE).to_json().clone();
        *value_tree.pointer_mut(pointer).unwrap() = value;
        assert!(accepts(&schema, &value_tree).is_err(), "{pointer}");
    }
}

/// Returns every table of the schema: its place in the first example, and its properties.
fn tables(schema: &Value) -> Vec<(String, Value)> {
    let named = |map: &str| schema["properties"][map]["additionalProperties"].clone();
    let mut tables = vec![
        ("".to_owned(), schema.clone()),
        ("run".to_owned(), schema["properties"]["run"].clone()),
        ("link.wireless".to_owned(), named("link")),
        ("flow.transfer".to_owned(), named("flow")),
    ];
    let mut index = 0;
    while index < tables.len() {
        let (path, table) = tables[index].clone();
        for (name, property) in table["properties"].as_object().unwrap() {
            let below = format!("{path}.{name}");
            let forms = property["oneOf"].as_array().into_iter().flatten();
            // The kinds without keys are words.
            for variant in forms.filter(|form| form["properties"].is_object()) {
                tables.push((below.clone(), variant.clone()));
            }
            if !path.is_empty() && property["properties"].is_object() {
                tables.push((below, property.clone()));
            }
        }
        index += 1;
    }
    tables
}

#[test]
fn the_reader_knows_the_keys_of_the_schema_and_no_others() {
    let tables = tables(&schema());
    assert!(tables.len() > 20, "{}", tables.len());
    for (path, table) in tables {
        let names: Vec<_> = table["properties"].as_object().unwrap().keys().cloned().collect();
        // A table of this kind with an unknown key: the message lists the allowed keys.
        let mut json = load(FIRST).to_json().clone();
        // The error path of a part of a product needs the other part, too.
        if let Some((product, _)) = path.rsplit_once(".errors.") {
            let whole = json!({ "kind": "product", "first": "none", "second": "none" });
            let link = product.split('.').fold(&mut json, |place, part| &mut place[part]);
            link["errors"] = whole;
        }
        // Only QUIC has this key.
        if path.ends_with(".transport.congestion_control") {
            json["flow"]["transfer"]["transport"] = json!({ "kind": "quic" });
        }
        let place = path
            .split('.')
            .filter(|part| !part.is_empty())
            .fold(&mut json, |place, part| &mut place[part]);
        if place.is_null() || table["properties"]["kind"].is_object() {
            *place = Value::Object(Map::new());
        }
        if let Some(kind) = table["properties"]["kind"].get("const") {
            place["kind"] = kind.clone();
        }
        place["zzzzzzzz"] = 1.into();
        let error = Scenario::from_json(json, Path::new(".")).unwrap_err();
        assert!(error.path.ends_with("zzzzzzzz"), "{error}");
        assert_eq!(error.allowed, names.join(", "), "{path}");
    }
}

#[test]
fn the_reference_names_every_key() {
    let page = reference_markdown();
    for (path, table) in tables(&schema()) {
        for name in table["properties"].as_object().unwrap().keys() {
            assert!(name == "kind" || page.contains(&format!("| `{name}` |")), "{path}.{name}");
        }
        if let Some(kind) = table["properties"]["kind"]["const"].as_str() {
            assert!(page.contains(&format!("### `kind = \"{kind}\"`")), "{kind}");
        }
    }
    assert!(!page.contains("  "), "doc comments join into single lines");
}
