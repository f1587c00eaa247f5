//! Routes through the network of a scenario.

use super::model::Scenario;
use std::cell::RefCell;
use std::collections::HashMap;

/// A link as seen from one of its hosts.
#[derive(Clone, Copy, Debug)]
struct Way {
    link: usize,
    /// From the link's first host to its second?
    is_forward: bool,
    to: usize,
}

/// Routes to that many hosts are remembered.
const REMEMBERED: usize = 4;

/// How far hosts are from one of them, as far as somebody has asked.
#[derive(Clone, Debug)]
struct Distances {
    to: usize,
    /// Of each host in hops, once it is reached.
    hops: Vec<Option<usize>>,
    /// Hosts, nearest first, and how many of them have been looked around from.
    reached: Vec<usize>,
    next: usize,
    /// Each host's way to the next one, once somebody has gone it.
    closer: Vec<Option<Way>>,
}

/// The hosts of a scenario and what connects them; made once, asked for many routes.
#[derive(Clone, Debug)]
pub struct Routes<'a> {
    /// Numbers of the hosts, in the order in which the links name them.
    hosts: HashMap<&'a str, usize>,
    /// Ways out of each host, in the order of the links.
    ways: Vec<Vec<Way>>,
    /// To the hosts that were asked for, the latest last.
    distances: RefCell<Vec<Distances>>,
}

impl<'a> Routes<'a> {
    /// The network of `scenario`.
    pub fn new(scenario: &'a Scenario) -> Self {
        Routes::over(scenario.links.iter().map(|link| link.between.each_ref().map(String::as_str)))
    }

    /// The network of links between these hosts.
    fn over(links: impl Iterator<Item = [&'a str; 2]>) -> Self {
        let mut hosts = HashMap::new();
        let mut ways: Vec<Vec<Way>> = Vec::new();
        for (link, between) in links.enumerate() {
            let [a, b] = between.map(|host| {
                *hosts.entry(host).or_insert_with(|| {
                    ways.push(Vec::new());
                    ways.len() - 1
                })
            });
            ways[a].push(Way { link, is_forward: true, to: b });
            ways[b].push(Way { link, is_forward: false, to: a });
        }
        Routes { hosts, ways, distances: RefCell::default() }
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
        if start == end {
            return Vec::new();
        }
        // All ways to a host with one neighbour go over that one: those of many stations share one search.
        let last = self.last_way(end);
        let target = last.map_or(end, |(neighbour, _)| neighbour);
        let mut remembered = self.distances.borrow_mut();
        match remembered.iter().position(|known| known.to == target) {
            Some(place) => remembered[place..].rotate_left(1),
            None => {
                if remembered.len() == REMEMBERED {
                    remembered.remove(0);
                }
                remembered.push(Distances::new(target, self.ways.len()));
            }
        }
        let Some(distances) = remembered.last_mut() else { return Vec::new() };
        let Some(hops) = distances.hops_from(start, &self.ways) else { return Vec::new() };
        let mut here = start;
        let mut route: Vec<_> = (0..hops).map(|_| distances.step(&mut here, &self.ways)).collect();
        route.extend(last.map(|(_, way)| way));
        route
    }

    /// Where all links of a host lead to the same other one: that one, and how the first link is crossed from there.
    fn last_way(&self, host: usize) -> Option<(usize, (usize, bool))> {
        let ways = &self.ways[host];
        let &Way { link, is_forward, to } = ways.first()?;
        ways.iter().all(|way| way.to == to && to != host).then_some((to, (link, !is_forward)))
    }
}

impl Distances {
    /// Only `to` is reached, of so many `hosts`.
    fn new(to: usize, hosts: usize) -> Self {
        let mut hops = vec![None; hosts];
        hops[to] = Some(0);
        Distances { to, hops, reached: vec![to], next: 0, closer: vec![None; hosts] }
    }

    /// Hops from `start`; breadth first from the far end reaches the nearest first, so that all hosts that are closer
    /// are known when it is.
    fn hops_from(&mut self, start: usize, ways: &[Vec<Way>]) -> Option<usize> {
        while let Some(&host) = self.reached.get(self.next)
            && self.hops[start].is_none()
        {
            self.next += 1;
            for way in &ways[host] {
                if self.hops[way.to].is_none() {
                    self.hops[way.to] = self.hops[host].map(|hops| hops + 1);
                    self.reached.push(way.to);
                }
            }
        }
        self.hops[start]
    }

    /// Goes one hop from `here`, whose distance is known: the first link to a host that is closer.
    fn step(&mut self, here: &mut usize, ways: &[Vec<Way>]) -> (usize, bool) {
        let hops = &self.hops;
        let way = *self.closer[*here].get_or_insert_with(|| {
            let left = hops[*here].map(|hops| hops - 1);
            let way = ways[*here].iter().find(|way| hops[way.to] == left);
            *way.expect("a host at a finite distance has a neighbour closer by one")
        });
        *here = way.to;
        (way.link, way.is_forward)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOSTS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    /// The route by relaxing all distances until none changes.
    fn plain(links: &[[usize; 2]], from: usize, to: usize) -> Vec<(usize, bool)> {
        let mut hops = [usize::MAX; HOSTS.len()];
        hops[to] = 0;
        for _ in HOSTS {
            for &[a, b] in links {
                hops[a] = hops[a].min(hops[b].saturating_add(1));
                hops[b] = hops[b].min(hops[a].saturating_add(1));
            }
        }
        let (mut here, mut route) = (from, Vec::new());
        while hops[here] != 0 && hops[here] != usize::MAX {
            let mut out = links
                .iter()
                .enumerate()
                .flat_map(|(link, &[a, b])| [(link, true, a, b), (link, false, b, a)]);
            let way =
                out.find(|&(_, _, a, b)| a == here && hops[b].saturating_add(1) == hops[here]);
            let (link, is_forward, _, next) = way.expect("somebody is closer");
            route.push((link, is_forward));
            here = next;
        }
        route
    }

    proptest! {
        /// Whatever was asked for before.
        #[test]
        fn routes_are_those_of_a_plain_search(
            links in prop::collection::vec((0..HOSTS.len(), 1..HOSTS.len()), 1..14),
            asked in prop::collection::vec((0..HOSTS.len(), 0..HOSTS.len()), 1..40),
        ) {
            let links: Vec<_> =
                links.into_iter().map(|(a, apart)| [a, (a + apart) % HOSTS.len()]).collect();
            let routes = Routes::over(links.iter().map(|link| link.map(|host| HOSTS[host])));
            for (from, to) in asked {
                let found = routes.route(HOSTS[from], HOSTS[to]);
                prop_assert_eq!(found, plain(&links, from, to), "{} to {}", from, to);
            }
        }
    }
}
