//! The request of the command line to the processes of a run.

use super::super::recording::Header;
use super::programs::Order;
use super::{Fault, netlink};
use lasthop_base::rng::Streams;
use lasthop_sim::scenario::Scenario;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Request of the command line.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub header: Header,
    pub programs: Vec<Order>,
    pub sysctls: Vec<(String, String)>,
    pub outside: Option<String>,
    /// Network namespaces of existing hosts: open files of the parent, by host.
    pub netns: Vec<(String, i32)>,
    /// Network interfaces that are the ends of the only link, instead of hosts.
    pub between: Option<[String; 2]>,
    /// Networks behind hosts.
    pub networks: Vec<(String, netlink::Network)>,
    pub record: Option<String>,
    pub pcap: Option<String>,
    /// Whether the state of the links is sampled.
    pub has_samples: bool,
    /// Time before a delivery in which the driver polls instead of sleeping.
    pub spin: Duration,
    /// Whether devices of fast links have segmentation offload.
    pub has_offload: bool,
    /// Command that starts the driver, with its arguments.
    pub interpreter: Vec<String>,
}

impl Request {
    /// Parses the JSON text of the command line, which has validated it.
    pub fn read(text: &str) -> Result<Self, Fault> {
        let value: Value = serde_json::from_str(text).map_err(|error| Fault(error.to_string()))?;
        let wrong = |key: &str| Fault(format!("the request: {key}: found {}", value[key]));
        let base = value["base"].as_str().ok_or_else(|| wrong("base"))?;
        let document = Scenario::from_json_text(&value["scenario"].to_string(), Path::new(base))
            .and_then(|document| document.points())
            .map_err(|error| Fault(error.to_string()))?;
        let point = document.into_iter().next().ok_or_else(|| wrong("scenario"))?;
        let number = |key: &str| value[key].as_u64().ok_or_else(|| wrong(key));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |value: &Value| {
            value.as_array().map(|all| all.iter().filter_map(text).collect::<Vec<_>>())
        };
        let programs = value["programs"].as_array().ok_or_else(|| wrong("programs"))?;
        let programs = programs.iter().map(|program| {
            let (host, argv) = (text(&program["host"]), texts(&program["argv"]));
            host.zip(argv).map(|(host, argv)| Order { host, argv })
        });
        let sysctls = value["sysctls"].as_object().into_iter().flatten();
        let networks = value["routes"].as_array().into_iter().flatten().map(|route| {
            Some((text(&route["host"])?, netlink::Network::read(route["network"].as_str()?)?))
        });
        let netns = value["netns"].as_object().into_iter().flatten();
        Ok(Request {
            header: Header {
                scenario: point.scenario,
                base: base.to_owned(),
                streams: Streams { seed: number("seed")?, replication: number("replication")? },
                mtu: value["mtu"].as_u64().map(|mtu| mtu as u32),
            },
            programs: programs.collect::<Option<_>>().ok_or_else(|| wrong("programs"))?,
            sysctls: sysctls.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect(),
            outside: text(&value["outside"]),
            between: texts(&value["between"]).and_then(|names| names.try_into().ok()),
            networks: networks.collect::<Option<_>>().ok_or_else(|| wrong("routes"))?,
            netns: netns
                .filter_map(|(host, file)| Some((host.clone(), file.as_i64()? as i32)))
                .collect(),
            record: text(&value["record"]),
            pcap: text(&value["pcap"]),
            has_samples: value["samples"] == true,
            spin: Duration::from_nanos(value["spin_ns"].as_u64().unwrap_or_default()),
            has_offload: value["offload"] != false,
            interpreter: texts(&value["interpreter"]).ok_or_else(|| wrong("interpreter"))?,
        })
    }

    /// Returns the name of the option because of which [`Self::shares_machine`] is `true`.
    pub fn privileged_option(&self) -> &'static str {
        match (&self.outside, &self.between) {
            (Some(_), _) => "--outside",
            (_, Some(_)) => "--between",
            _ => "--netns",
        }
    }

    /// Returns `true` if a host has a network namespace of the machine, or an end of the link is an
    /// interface of it, so that the run needs privileges over it.
    pub fn shares_machine(&self) -> bool {
        self.outside.is_some() || !self.netns.is_empty() || self.between.is_some()
    }
}
