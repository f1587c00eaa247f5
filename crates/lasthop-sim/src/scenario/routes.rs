//! Routes through the network of a scenario.

use super::model::Scenario;
use std::cell::RefCell;
use std::collections::HashMap;

/// A link in one direction, from one of its hosts.
#[derive(Clone, Copy, Debug)]
struct Way {
    link: usize,
    /// Whether the direction is from the link's first host to its second.
    is_forward: bool,
    to: usize,
}

/// Number of cached destinations.
const REMEMBERED: usize = 4;

/// Distances of hosts from one destination, computed as far as required.
#[derive(Clone, Debug)]
struct Distances {
    to: usize,
    /// Number of hops from each host that has been reached.
    hops: Vec<Option<usize>>,
    /// Hosts in order of distance, and the number of those whose neighbours have been visited.
    reached: Vec<usize>,
    next: usize,
    /// Next hop of each host, once computed.
    closer: Vec<Option<Way>>,
}

/// The hosts of a scenario and their connections; created once for many routes.
#[derive(Clone, Debug)]
pub struct Routes<'a> {
    /// Numbers of the hosts, in the order in which the links name them.
    hosts: HashMap<&'a str, usize>,
    /// Outgoing directions of each host, in the order of the links.
    ways: Vec<Vec<Way>>,
    /// Cached destinations, the latest last.
    distances: RefCell<Vec<Distances>>,
}

impl<'a> Routes<'a> {
    /// Creates the network of `scenario`.
    pub fn new(scenario: &'a Scenario) -> Self {
        Routes::over(scenario.links.iter().map(|link| link.between.each_ref().map(String::as_str)))
    }

    /// Creates the network of links between these hosts.
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

    /// Returns `true` if a host has this name.
    pub fn has_host(&self, name: &str) -> bool {
        self.hosts.contains_key(name)
    }

    /// Returns the route with the fewest hops. Among equal routes, each hop from `from` onwards
    /// takes the link that is first in the file. A hop is the index of a link and whether it is
    /// crossed from its first host to its second. The route is empty if it does not exist or if
    /// `from` is `to`.
    pub fn route(&self, from: &str, to: &str) -> Vec<(usize, bool)> {
        let (Some(&start), Some(&end)) = (self.hosts.get(from), self.hosts.get(to)) else {
            return Vec::new();
        };
        if start == end {
            return Vec::new();
        }
        // All routes to a host with one neighbour lead through that neighbour, so that many
        // stations share one search.
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

    /// Returns the only neighbour of a host, and the direction in which the first link is crossed
    /// from there; `None` if the host has several neighbours.
    fn last_way(&self, host: usize) -> Option<(usize, (usize, bool))> {
        let ways = &self.ways[host];
        let &Way { link, is_forward, to } = ways.first()?;
        ways.iter().all(|way| way.to == to && to != host).then_some((to, (link, !is_forward)))
    }
}

impl Distances {
    /// Creates distances in which only `to` is reached; `hosts` is the number of hosts.
    fn new(to: usize, hosts: usize) -> Self {
        let mut hops = vec![None; hosts];
        hops[to] = Some(0);
        Distances { to, hops, reached: vec![to], next: 0, closer: vec![None; hosts] }
    }

    /// Returns the number of hops from `start`. The breadth-first search begins at the destination,
    /// so that all closer hosts are known when `start` is reached.
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

    /// Advances one hop from `here`, whose distance is known: over the first link to a closer host.
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
    /// Returns the hosts, in the order in which the links name them.
    pub fn hosts(&self) -> Vec<&str> {
        let routes = Routes::new(self);
        let mut hosts = vec![""; routes.hosts.len()];
        routes.hosts.into_iter().for_each(|(name, index)| hosts[index] = name);
        hosts
    }

    /// Computes a single [`Routes::route`]; callers that need several use [`Routes`].
    pub fn route(&self, from: &str, to: &str) -> Vec<(usize, bool)> {
        Routes::new(self).route(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOSTS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    /// Computes the route by relaxing all distances until none changes.
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
            let (link, is_forward, _, next) = way.expect("another host is closer");
            route.push((link, is_forward));
            here = next;
        }
        route
    }

    proptest! {
        /// Independent of earlier requests.
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
