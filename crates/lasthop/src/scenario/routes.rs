//! Routes through the network of a scenario.

use super::model::Scenario;
use std::collections::HashMap;

/// A link as seen from one of its hosts.
#[derive(Clone, Copy, Debug)]
struct Way {
    link: usize,
    /// From the link's first host to its second?
    is_forward: bool,
    to: usize,
}

/// The hosts of a scenario and what connects them; made once, asked for many routes.
#[derive(Clone, Debug)]
pub struct Routes<'a> {
    /// Numbers of the hosts, in the order in which the links name them.
    hosts: HashMap<&'a str, usize>,
    /// Ways out of each host, in the order of the links.
    ways: Vec<Vec<Way>>,
}

impl<'a> Routes<'a> {
    /// The network of `scenario`.
    pub fn new(scenario: &'a Scenario) -> Self {
        let mut hosts = HashMap::new();
        let mut ways: Vec<Vec<Way>> = Vec::new();
        for (link, known) in scenario.links.iter().enumerate() {
            let [a, b] = [0, 1].map(|end| {
                *hosts.entry(known.between[end].as_str()).or_insert_with(|| {
                    ways.push(Vec::new());
                    ways.len() - 1
                })
            });
            ways[a].push(Way { link, is_forward: true, to: b });
            ways[b].push(Way { link, is_forward: false, to: a });
        }
        Routes { hosts, ways }
    }

    /// Is there a host of this name?
    pub fn has_host(&self, name: &str) -> bool {
        self.hosts.contains_key(name)
    }

    /// The route with the fewest hops; among equals, at each hop from `from` on, the link that
    /// stands first in the file. Each hop is the index of a link and whether it is crossed from its
    /// first host to its second. Empty if there is none, or if `from` is `to`.
    pub fn route(&self, from: &str, to: &str) -> Vec<(usize, bool)> {
        let (Some(&start), Some(&end)) = (self.hosts.get(from), self.hosts.get(to)) else {
            return Vec::new();
        };
        // Breadth first from the far end gives the hosts their distance to it, nearest first, so
        // that those closer than the start are all known when the start is.
        let mut distance = vec![None; self.ways.len()];
        distance[end] = Some(0);
        let mut reached = vec![end];
        let mut next = 0;
        while let Some(&host) = reached.get(next)
            && distance[start].is_none()
        {
            next += 1;
            for way in &self.ways[host] {
                if distance[way.to].is_none() {
                    distance[way.to] = distance[host].map(|hops: usize| hops + 1);
                    reached.push(way.to);
                }
            }
        }
        let Some(hops) = distance[start] else { return Vec::new() };
        let mut here = start;
        let closer = |left: usize| {
            let closer = |way: &&Way| distance[way.to] == Some(left);
            let way = self.ways[here].iter().find(closer);
            let way = *way.expect("a host at a finite distance has a neighbour closer by one");
            here = way.to;
            (way.link, way.is_forward)
        };
        (0..hops).rev().map(closer).collect()
    }
}

impl Scenario {
    /// The hosts, in the order in which the links name them.
    pub fn hosts(&self) -> Vec<&str> {
        let routes = Routes::new(self);
        let mut hosts = vec![""; routes.hosts.len()];
        routes.hosts.into_iter().for_each(|(name, index)| hosts[index] = name);
        hosts
    }

    /// One [`Routes::route`]; who asks for several keeps the [`Routes`].
    pub fn route(&self, from: &str, to: &str) -> Vec<(usize, bool)> {
        Routes::new(self).route(from, to)
    }
}
