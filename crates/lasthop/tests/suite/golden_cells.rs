//! The scenarios of the golden file: small combinations of links, errors, senders, queues and
//! media.

const UNIFORM: &str = r#"{ kind = "uniform", loss = "2.5 %" }"#;
const TWO_STATE: &str =
    r#"{ kind = "two-state", good = "10 s", bad = "200 ms", good_ber = 1e-6, bad_ber = 1e-2 }"#;
const BITS: &str = r#"{ kind = "bit", ber = 1e-5 }"#;
const GILBERT: &str = r#"{ kind = "gilbert-elliott", mean_loss = 0.05, mean_burst = 2.5 }"#;
const CHAIN: &str = r#"{ kind = "markov-chain", transitions = [[0.99, 0.007, 0.003], [0.24, 0.7, 0.06], [0.009, 0.021, 0.97]], loss = [0.001, 0.95, "40 %"] }"#;
const RAW: &str = r#"{ kind = "raw" }"#;
const SR: &str = r#"{ kind = "selective-repeat", window = 8 }"#;
const GBN: &str = r#"{ kind = "go-back-n", window = 8 }"#;
const SNOOP: &str = "{ kind = \"raw\" }\n        agent = { kind = \"snoop\", at = \"ap\" }";
const SNOOP_NS2: &str =
    "{ kind = \"raw\" }\n        agent = { kind = \"snoop\", at = \"ap\", quirks = \"ns-2\" }";
const SNOOP_SR: &str = "{ kind = \"selective-repeat\", window = 8 }\n        \
    agent = { kind = \"snoop\", at = \"ap\" }";
const NS2: &str = r#"profile = "ns-2", segment = "250 B""#;
const RFC: &str = r#"profile = "rfc", segment = "536 B""#;
const RFC_TIMESTAMPS: &str = r#"profile = "rfc", segment = "536 B", timestamps = true"#;

/// Name, link protocol, errors, TCP variant, profile, whether with web traffic, whether with
/// congestion.
pub type Cell = (&'static str, &'static str, &'static str, &'static str, &'static str, bool, bool);

const LINUX: &str = r#"profile = "linux", segment = "536 B""#;
const LINUX_WITHOUT_SACK: &str = r#"profile = "linux", sack = false, segment = "536 B""#;

pub const CELLS: [Cell; 15] = [
    ("reno-raw-uniform", RAW, UNIFORM, "reno", NS2, false, false),
    ("reno-raw-uniform-congested", RAW, UNIFORM, "reno", NS2, false, true),
    ("sack-sr-two-state-congested", SR, TWO_STATE, "sack", NS2, false, true),
    ("newreno-gbn-bits", GBN, BITS, "newreno", NS2, false, false),
    ("sack-raw-two-state-web", RAW, TWO_STATE, "sack", NS2, true, false),
    ("reno-sr-uniform-web-congested", SR, UNIFORM, "reno", NS2, true, true),
    ("sack-raw-gilbert-rfc", RAW, GILBERT, "sack", RFC, false, true),
    ("newreno-raw-gilbert-rfc", RAW, GILBERT, "newreno", RFC_TIMESTAMPS, false, false),
    ("sack-gbn-uniform-web-rfc", GBN, UNIFORM, "sack", RFC, true, false),
    ("reno-snoop-uniform-congested", SNOOP, UNIFORM, "reno", NS2, false, true),
    ("reno-snoop-ns2-two-state-web", SNOOP_NS2, TWO_STATE, "reno", NS2, true, false),
    ("newreno-snoop-sr-uniform-web-rfc", SNOOP_SR, UNIFORM, "newreno", RFC, true, false),
    ("cubic-raw-uniform-linux", RAW, UNIFORM, "cubic", LINUX, false, true),
    ("reno-raw-gilbert-linux-no-sack", RAW, GILBERT, "reno", LINUX_WITHOUT_SACK, false, false),
    ("cubic-gbn-bits-web-linux", GBN, BITS, "cubic", LINUX, true, false),
];

const SPLIT: &str = "{ kind = \"raw\" }\n        agent = { kind = \"split-connection\", at = \"ap\", buffer = \"64 kB\" }";
const SPLIT_HYBLA: &str = "{ kind = \"selective-repeat\", window = 8 }\n        \
    agent = { kind = \"split-connection\", at = \"ap\", variant = \"hybla\" }";

/// Cells with proxies on the path.
const SPLIT_CELLS: [Cell; 2] = [
    ("split-newreno-uniform-rfc", SPLIT, UNIFORM, "newreno", RFC, false, true),
    ("split-hybla-sr-cubic-web-linux", SPLIT_HYBLA, UNIFORM, "cubic", LINUX, true, false),
];

/// A cell with an error process that was added later, so that the rows above keep their positions.
const CHAIN_CELL: [Cell; 1] = [("sack-sr-markov-chain-rfc", SR, CHAIN, "sack", RFC, false, false)];

/// The other link protocols, each with its defaults.
const LINK_CELLS: [Cell; 5] = [
    ("sack-stop-and-wait", r#"{ kind = "stop-and-wait" }"#, UNIFORM, "sack", NS2, false, false),
    ("reno-ideal-sr", r#"{ kind = "ideal-sr" }"#, TWO_STATE, "reno", NS2, false, true),
    ("newreno-xor-fec", r#"{ kind = "xor-fec" }"#, UNIFORM, "newreno", RFC, false, true),
    ("sack-karn-rlp", r#"{ kind = "karn-rlp" }"#, TWO_STATE, "sack", NS2, false, false),
    ("reno-oos-rlp-web", r#"{ kind = "oos-rlp" }"#, GILBERT, "reno", NS2, true, false),
];

/// A TCP variant for each congestion control algorithm, with congestion.
const LAW_CELLS: [Cell; 12] = [
    ("westwood-plus", RAW, UNIFORM, "westwood-plus", RFC, false, true),
    ("westwood", RAW, UNIFORM, "westwood", RFC, false, true),
    ("veno", RAW, UNIFORM, "veno", RFC, false, true),
    ("vegas", RAW, UNIFORM, "vegas", RFC, false, true),
    ("hybla", RAW, UNIFORM, "hybla", RFC, false, true),
    ("bic", RAW, UNIFORM, "bic", RFC, false, true),
    ("htcp", RAW, UNIFORM, "htcp", RFC, false, true),
    ("illinois", RAW, UNIFORM, "illinois", RFC, false, true),
    ("tibet", RAW, UNIFORM, "tibet", RFC, false, true),
    ("jersey", RAW, UNIFORM, "jersey", RFC, false, true),
    ("newreno-ff", RAW, UNIFORM, "newreno-ff", RFC, false, true),
    ("bbr", RAW, UNIFORM, "bbr", RFC, false, true),
];

/// Further TCP variants, with congestion.
const SENDER_CELLS: [Cell; 9] = [
    ("tahoe", RAW, UNIFORM, "tahoe", NS2, false, true),
    ("tcp-dcr", r#"{ kind = "oos-rlp" }"#, UNIFORM, "tcp-dcr", RFC, false, true),
    ("ncr", r#"{ kind = "oos-rlp" }"#, UNIFORM, "ncr", RFC, false, true),
    ("jtcp", RAW, UNIFORM, "jtcp", RFC, false, true),
    ("santa-cruz", RAW, UNIFORM, "santa-cruz", RFC, false, true),
    ("ideal-bandwidth", RAW, UNIFORM, "ideal-bandwidth", NS2, false, true),
    ("dctcp", RAW, UNIFORM, "dctcp", RFC, false, true),
    ("prague", RAW, UNIFORM, "prague", RFC, false, true),
    ("bbr3", RAW, UNIFORM, "bbr3", RFC, false, true),
];

/// Name, protocol and errors of both wireless links, talk and silence times.
const MEDIA_CELLS: [[&str; 4]; 2] = [
    ["media-raw-two-state", RAW, TWO_STATE, r#"talk = "exp 1 s", silence = "exp 1.35 s""#],
    ["media-sr-uniform", SR, UNIFORM, r#"talk = "2 s", silence = "0 s", deadline = "150 ms""#],
];

fn media_cell([name, protocol, errors, talk]: &[&str; 4]) -> String {
    let link = |name: &str, from: &str, to: &str| {
        format!(
            r#"
            [link.{name}]
            between = ["{from}", "{to}"]
            rate = "43.2 kbps"
            delay = "100 ms"
            protocol = {protocol}
            errors = {errors}
            "#
        )
    };
    let (up, down) = (link("up", "talker", "base"), link("down", "base", "listener"));
    format!(
        r#"
        name = "{name}"
        {up}
        {down}
        [flow.speech]
        from = "talker"
        to = "listener"
        transport = {{ kind = "udp" }}
        app = {{ kind = "media", rate = "14.4 kbps", packet = "50 B", {talk} }}
        [run]
        duration = "100 s"
        "#
    )
}

/// A file, web pages and speech, each with a service, and measured shares. The file requests no
/// service and uses the first.
const SERVICES_CELL: (&str, &str) = (
    "services-measured",
    r#"
    name = "services-measured"
    [link.air]
    between = ["server", "client"]
    rate = "64 kbps"
    delay = "50 ms"
    errors = { kind = "two-state", good = "10 s", bad = "200 ms", good_ber = 1e-6, bad_ber = 1e-2 }
    [link.air.protocol]
    kind = "services"
    shares = "measured"
    interval = "2 s"
    service.rest = { weight = 3, protocol = { kind = "selective-repeat" } }
    service.pages = { protocol = { kind = "go-back-n", reject = true }, queue = "4 kB" }
    service.speech = { protocol = { kind = "oos-rlp" }, queue = "5 packets" }
    [flow.transfer]
    from = "server"
    to = "client"
    transport = { kind = "tcp", variant = "sack", profile = "ns-2", segment = "250 B" }
    app = { kind = "file", size = "200 kB" }
    [flow.web]
    from = "server"
    to = "client"
    service = "pages"
    transport = { kind = "tcp", variant = "newreno", profile = "rfc", segment = "536 B" }
    app = { kind = "web" }
    [flow.call]
    from = "server"
    to = "client"
    service = "speech"
    transport = { kind = "udp" }
    app = { kind = "media", rate = "9.6 kbps", packet = "60 B" }
    [run]
    duration = "100 s"
    "#,
);

/// Bursts of Pareto-distributed lengths, replayed by a queue that they share with a file.
const PARETO_CELL: (&str, &str) = (
    "pareto-background",
    r#"
    name = "pareto-background"
    [link.wire]
    between = ["server", "client"]
    rate = "10 Mbps"
    delay = "10 ms"
    [flow.transfer]
    from = "server"
    to = "client"
    transport = { kind = "tcp", variant = "sack", profile = "ns-2", segment = "1000 B" }
    app = { kind = "file", size = "2 MB" }
    [flow.background]
    from = "server"
    to = "client"
    transport = { kind = "udp" }
    app = { kind = "on-off", rate = "16 Mbps", on = "pareto 50 ms shape 2", off = "pareto 50 ms", packet = "1000 B" }
    [run]
    max_time = "1000 s"
    "#,
);

/// Two stations of 802.11 that collide, noise, RTS before long frames, and a station that leaves for
/// 1 s.
const WLAN_CELL: (&str, &str) = (
    "wlan-collisions-noise",
    r#"
    name = "wlan-collisions-noise"
    [link.wire]
    between = ["server", "ap"]
    rate = "10 Mbps"
    delay = "5 ms"
    [wlan.cell]
    access_point = "ap"
    stations = ["laptop", "phone"]
    rts_threshold = "1300 B"
    short_retry_limit = 3
    errors = { kind = "bit", ber = 2e-5 }
    station.phone = { rate = "2 Mbps", leaves = "2 s", returns = "3 s" }
    [flow.download]
    from = "server"
    to = "laptop"
    transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }
    app = { kind = "file", size = "2 MB" }
    [flow.upload]
    from = "phone"
    to = "server"
    transport = { kind = "tcp", variant = "newreno", profile = "rfc", segment = "1400 B" }
    app = { kind = "file", size = "500 kB" }
    [run]
    max_time = "1000 s"
    "#,
);

/// Two cells of 802.11b on one channel, with positions of stations: hidden stations, RTS, noise,
/// capture.
const SPREAD_CELL: (&str, &str) = (
    "wlan-two-cells-in-space",
    r#"
    name = "wlan-two-cells-in-space"
    [wlan.one]
    access_point = "base"
    stations = ["node"]
    channel = "1"
    x = "240 m"
    capture = "strongest"
    rts_threshold = "1300 B"
    errors = { kind = "bit", ber = 1e-5 }
    station.node = { x = "0 m" }
    [wlan.two]
    access_point = "base2"
    stations = ["near", "far"]
    channel = "1"
    x = "640 m"
    capture = "strongest"
    station.near = { x = "600 m", y = "20 m" }
    station.far = { x = "840 m", leaves = "2 s", returns = "3 s" }
    [flow.upload]
    from = "node"
    to = "base"
    transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "1460 B" }
    app = { kind = "file", size = "2 MB" }
    [flow.download]
    from = "base2"
    to = "far"
    transport = { kind = "tcp", variant = "newreno", profile = "rfc", segment = "1000 B" }
    app = { kind = "file", size = "1 MB" }
    [flow.beside]
    from = "near"
    to = "base2"
    transport = { kind = "udp" }
    app = { kind = "on-off", rate = "2 Mbps", on = "exp 250 ms", off = "exp 1 s", packet = "1000 B" }
    [run]
    max_time = "1000 s"
    "#,
);

/// A file over acknowledged mode with all options: loss bursts in both directions, a retransmission
/// limit, timers.
const RLC_CELL: (&str, &str) = (
    "rlc-am-bursts",
    r#"
    name = "rlc-am-bursts"
    [link.air]
    between = ["mobile", "server"]
    rate = "384 kbps"
    delay = "20 ms"
    errors = { kind = "gilbert-elliott", mean_loss = 0.2, mean_burst = 20 }
    [link.air.protocol]
    kind = "rlc-am"
    window = 256
    max_transmissions = 3
    discard_timer = "1500 ms"
    poll_pdu = 32
    timer_status_prohibit = "40 ms"
    [flow.upload]
    from = "mobile"
    to = "server"
    transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }
    app = { kind = "file", size = "300 kB" }
    [run]
    max_time = "1000 s"
    "#,
);

/// A file over coded blocks during disruptions of the link in both directions.
const HARQ_CELL: (&str, &str) = (
    "harq-disruption",
    r#"
    name = "harq-disruption"
    [link.air]
    between = ["mobile", "server"]
    rate = "10 Mbps"
    delay = "10 ms"
    protocol = { kind = "harq", deviation = "samples", reactive = "needed" }
    [link.air.errors]
    kind = "product"
    first = { kind = "uniform", loss = "20 %" }
    second = { kind = "on-off", up = "uniform 90 ms to 110 ms", down = "uniform 90 ms to 110 ms" }
    after = "1 s"
    [flow.upload]
    from = "mobile"
    to = "server"
    transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }
    app = { kind = "file", size = "300 kB" }
    [run]
    max_time = "1000 s"
    "#,
);

/// Like the HARQ cell, with an interleaving depth of 4 and short outages.
fn turns_cell() -> (&'static str, String) {
    let long =
        r#"{ kind = "on-off", up = "uniform 90 ms to 110 ms", down = "uniform 90 ms to 110 ms" }"#;
    let short = r#"{ kind = "on-off", up = "exp 20 ms", down = "500 us" }"#;
    let text = HARQ_CELL.1.replace(long, short).replace("harq-disruption", "harq-turns");
    ("harq-turns", text.replace(r#"kind = "harq","#, r#"kind = "harq", interleave = 4,"#))
}

/// Name, queue, rate: a file and bursts that share a slow link.
const QUEUE_CELLS: [[&str; 3]; 6] = [
    ["queue-codel", r#"{ kind = "codel", limit = "100 packets" }"#, "\"1 Mbps\""],
    ["queue-dualpi2", r#"{ kind = "dualpi2", limit = "100 packets" }"#, "\"1 Mbps\""],
    ["queue-fq-codel", r#"{ kind = "fq-codel", limit = "100 packets" }"#, "\"1 Mbps\""],
    ["queue-pie", r#"{ kind = "pie", limit = "100 packets" }"#, "\"1 Mbps\""],
    ["queue-red", r#"{ kind = "red", limit = "30 packets", min = "4 packets" }"#, "\"1 Mbps\""],
    [
        "rate-steps",
        "\"30 packets\"",
        r#"{ kind = "steps", at = [["0 s", "1 Mbps"], ["3 s", "200 kbps"], ["4 s", "0 bps"]], repeat = "4.3 s" }"#,
    ],
];

fn queue_cell([name, queue, rate]: &[&str; 3]) -> String {
    format!(
        r#"
        name = "{name}"
        [link.narrow]
        between = ["server", "client"]
        rate = {rate}
        delay = "20 ms"
        queue = {queue}
        errors = {{ kind = "uniform", loss = "0.5 %" }}
        [flow.transfer]
        from = "server"
        to = "client"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }}
        app = {{ kind = "file", size = "1 MB" }}
        [flow.bursts]
        from = "server"
        to = "client"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "1.2 Mbps", on = "exp 300 ms", off = "exp 1 s", packet = "500 B" }}
        [run]
        max_time = "1000 s"
        "#
    )
}

pub fn cell(cell: &Cell) -> String {
    let (name, protocol, errors, variant, profile, is_web, is_congested) = cell;
    let (app, end) = if *is_web {
        (r#"{ kind = "web" }"#, r#"duration = "60 s""#)
    } else {
        (r#"{ kind = "file", size = "100 kB" }"#, r#"max_time = "1000 s""#)
    };
    let mut text = format!(
        r#"
        name = "{name}"
        [link.wired]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "1 ms"
        [link.wireless]
        between = ["ap", "client"]
        rate = "64 kbps"
        delay = "50 ms"
        header = "2 B"
        protocol = {protocol}
        errors = {errors}
        [flow.transfer]
        from = "server"
        to = "client"
        transport = {{ kind = "tcp", variant = "{variant}", {profile} }}
        app = {app}
        [run]
        {end}
        "#
    );
    if *is_congested {
        text += r#"
        [flow.congestion]
        from = "server"
        to = "ap"
        transport = { kind = "udp" }
        app = { kind = "on-off", rate = "9.99 Mbps", on = "exp 1 s", off = "exp 1.35 s", packet = "250 B" }
        "#;
    }
    text
}

/// Returns the name and text of each cell.
pub fn cells() -> impl Iterator<Item = (&'static str, String)> {
    let media = MEDIA_CELLS.iter().map(|known| (known[0], media_cell(known)));
    let services = (SERVICES_CELL.0, SERVICES_CELL.1.to_owned());
    let rlc = (RLC_CELL.0, RLC_CELL.1.to_owned());
    let wlan = (WLAN_CELL.0, WLAN_CELL.1.to_owned());
    let pareto = (PARETO_CELL.0, PARETO_CELL.1.to_owned());
    let queues = QUEUE_CELLS.iter().map(|known| (known[0], queue_cell(known)));
    let tcps = |cells: &'static [Cell]| cells.iter().map(|known| (known.0, cell(known)));
    tcps(&CELLS)
        .chain(media)
        .chain([services, rlc])
        .chain(queues)
        .chain(tcps(&CHAIN_CELL))
        .chain(tcps(&LAW_CELLS))
        .chain(tcps(&LINK_CELLS))
        .chain([wlan, (SPREAD_CELL.0, SPREAD_CELL.1.to_owned())])
        .chain([pareto])
        .chain([(HARQ_CELL.0, HARQ_CELL.1.to_owned())])
        .chain(tcps(&SENDER_CELLS))
        .chain(tcps(&SPLIT_CELLS))
        .chain([turns_cell()])
}
