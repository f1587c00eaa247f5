//! The hosts of a scenario. Each is a network namespace with its name, its address, a TUN device for each of
//! its links and a route to every other host and to the name server.
//!
//! ```text
//!   host "client"                            host "server"
//!     lo        10.71.0.2, fd71::2             lo        10.71.0.1, fd71::1
//!     wireless  (without an address)           wireless
//!        |                                        |
//!        +------- TUN -- lasthop -- TUN ----------+
//! ```
//!
//! A namespace exists as long as a process in it or a file that refers to it. It has no name in the file
//! system, so that it disappears even if the run is killed.

use super::netlink::{LOOPBACK, Netlink, Network, Shape};
use super::port::Port;
use super::{Context, Fault, sys};
use crate::names;
use crate::network::{address, address6};
use crate::offload;
use lasthop_sim::scenario::{Routes, Scenario};
use lasthop_sim::sim::ids::Side;
use rustix::net::netdevice::name_to_index;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Queue length of a device in packets, large enough to avoid drops before the driver reads them.
const DEVICE_QUEUE: u32 = 10_000;

/// Queue length of a device with segmentation offload, whose packets may have 64 kB, and maximum number
/// of segments: the kernel itself segments forwarded packets with more.
const FAST_DEVICE: (u32, u32) = (4_000, 128);

/// Minimum MTU of an IPv6 link in bytes (RFC 8200, section 5).
const LEAST_MTU_6: u32 = 1_280;

/// Returns the addresses of host number `index`.
fn addresses(index: usize) -> Vec<IpAddr> {
    let second = std::fs::exists("/proc/sys/net/ipv6").unwrap_or(false);
    let first = IpAddr::from(address(index));
    std::iter::once(first).chain(second.then(|| address6(index).into())).collect()
}

/// A host.
#[derive(Debug)]
pub struct Host {
    /// Name in the scenario.
    pub name: String,
    /// Its addresses, which all its links share: IPv4, then IPv6 if the kernel supports it.
    pub addresses: Vec<IpAddr>,
    /// Whether its namespace existed before the run.
    pub is_existing: bool,
    net: OwnedFd,
    uts: OwnedFd,
    /// `/proc/net/dev` of its namespace. The content depends on the namespace in which the file was
    /// opened.
    devices: File,
}

/// Returns the name of a link's device: the name of the link if the kernel accepts it.
fn device_name(scenario: &Scenario, link: usize) -> String {
    let name = &scenario.links[link].name;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_taken = ["lo", "all", "default"].contains(&name.as_str());
    let is_own = name.len() <= 15 && name.chars().all(is_plain) && !is_taken;
    if is_own { name.clone() } else { format!("link{link}") }
}

/// Common configuration of all hosts.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Maximum packet length of each link.
    pub mtus: &'a [u32],
    /// Kernel parameters of all hosts, such as `net.ipv4.tcp_congestion_control`.
    pub sysctls: &'a [(String, String)],
    /// The host that is the machine itself, if any.
    pub outside: Option<&'a str>,
    /// Networks behind hosts.
    pub networks: &'a [(String, Network)],
    /// Hosts that are existing network namespaces.
    pub existing: &'a [(&'a str, OwnedFd)],
    /// Whether devices of fast links have segmentation offload.
    pub has_offload: bool,
}

/// Creates all hosts with their devices.
pub fn open(plan: Plan<'_>) -> Result<(Vec<Host>, Vec<Port>), Fault> {
    let names = plan.scenario.hosts();
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for index in 0..names.len() {
        let (host, own) = std::thread::scope(|scope| {
            let made = scope.spawn(|| make(plan, &names, index)).join();
            made.unwrap_or_else(|_| Err(Fault::new("a thread failed")))
        })?;
        hosts.push(host);
        ports.extend(own);
    }
    Ok((hosts, ports))
}

/// Creates one host in a separate thread, which enters the namespaces of the host.
fn make(plan: Plan<'_>, names: &[&str], index: usize) -> Result<(Host, Vec<Port>), Fault> {
    let (name, own) = (names[index], addresses(index));
    let existing = plan.existing.iter().find(|(host, _)| *host == name);
    let is_outside = plan.outside == Some(name) || existing.is_some();
    if let Some((_, namespace)) = existing {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("--netns {name}"))?;
    }
    if !is_outside {
        let namespaces = UnshareFlags::NEWNET | UnshareFlags::NEWUTS;
        sys::unshare(namespaces).context("a network namespace")?;
        rustix::system::sethostname(name.as_bytes()).context("the name of a host")?;
        configure(plan.sysctls)?;
    }
    let netlink = Netlink::new().context("a netlink socket")?;
    if !is_outside {
        netlink.up(LOOPBACK, None).context("the loopback device")?;
    }
    let give_address = |device| {
        let what = || format!("the address of host {name:?}");
        let needed = |one: &&IpAddr| !is_outside || one.is_ipv4();
        // An existing host may have IPv6 disabled.
        own.iter().filter(|one| !needed(one)).for_each(|&one| {
            let _ = netlink.address(device, one);
        });
        own.iter()
            .filter(needed)
            .try_for_each(|&one| netlink.address(device, one))
            .with_context(what)
    };
    if !is_outside {
        give_address(LOOPBACK)?;
    }
    let mut ports = Vec::new();
    let mut numbers = vec![0; plan.scenario.links.len()];
    for (link, keys) in plan.scenario.links.iter().enumerate() {
        let Some(end) = keys.between.iter().position(|host| host == name) else { continue };
        let device = device_name(plan.scenario, link);
        let what = || format!("the TUN device {device:?} of host {name:?}");
        let offload = plan.has_offload && offload::suits(keys);
        let file = sys::tun(&device, offload).map_err(|error| Fault::of_device(&what(), &error))?;
        numbers[link] = number_of(&device).with_context(what)?;
        let (queue, segments) = if offload { FAST_DEVICE } else { (DEVICE_QUEUE, 1) };
        let shape = Shape { mtu: plan.mtus[link], queue, segments };
        netlink.up(numbers[link], Some(shape)).with_context(what)?;
        if is_outside {
            // The address is removed with the device, so that the machine is unchanged after the
            // run.
            give_address(numbers[link])?;
        }
        ports.push(Port::tun(link, Side::BOTH[end], file, offload));
    }
    let routes = Routes::new(plan.scenario);
    for (other, to) in names.iter().enumerate() {
        let Some(&(link, _)) = routes.route(name, to).first() else { continue };
        for (to_address, from) in addresses(other).into_iter().zip(&own) {
            if from.is_ipv6() && plan.mtus[link] < LEAST_MTU_6 {
                continue;
            }
            let added = netlink.route(Network::host(to_address), numbers[link], *from);
            if is_outside && from.is_ipv6() {
                continue;
            }
            added.with_context(|| format!("the route from {name:?} to {to:?}"))?;
        }
    }
    if plan.outside != Some(name)
        && let Some(port) = ports.first()
    {
        let server = Network::host(names::SERVER.into());
        let added = netlink.route(server, numbers[port.link], own[0]);
        if !is_outside {
            added.context("the route to the name server")?;
        }
    }
    if let Some(outside) = plan.outside.filter(|_| !is_outside)
        && let Some(&(link, _)) = routes.route(name, outside).first()
    {
        netlink
            .route(Network::DEFAULT, numbers[link], own[0])
            .context("the route to the outside")?;
    }
    for (to, network) in plan.networks.iter().filter(|(to, _)| to != name) {
        let Some(&(link, _)) = routes.route(name, to).first() else { continue };
        if let Some(from) = own.iter().find(|from| from.is_ipv4() == network.address.is_ipv4()) {
            netlink.route(*network, numbers[link], *from).with_context(|| {
                format!("--route {to}={}/{} at {name:?}", network.address, network.bits)
            })?;
        }
    }
    let open = |kind: &str| File::open(format!("/proc/thread-self/ns/{kind}"));
    let net = open("net").context("the network namespace")?.into();
    let uts = open("uts").context("the namespace of names")?.into();
    let devices = File::open("/proc/thread-self/net/dev").context("the devices")?;
    let host =
        Host { name: name.to_owned(), addresses: own, is_existing: is_outside, net, uts, devices };
    Ok((host, ports))
}

fn number_of(device: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    Ok(name_to_index(&socket, device)?)
}

/// Sets the kernel parameters of a new network namespace. Only packets of programs may cross the
/// links, so that error processes affect the same frames as in a simulation: devices have no
/// link-local IPv6 address, which would be announced. Hosts do not cache metrics of earlier
/// connections.
fn configure(asked: &[(String, String)]) -> Result<(), Fault> {
    let own = [
        ("net.ipv6.conf.default.addr_gen_mode", "1", true),
        ("net.ipv6.conf.default.accept_ra", "0", true),
        ("net.ipv6.conf.all.forwarding", "1", true),
        ("net.ipv4.ip_forward", "1", false),
        ("net.ipv4.conf.all.rp_filter", "0", true),
        ("net.ipv4.conf.default.rp_filter", "0", true),
        ("net.ipv4.conf.all.send_redirects", "0", true),
        ("net.ipv4.conf.default.send_redirects", "0", true),
        ("net.ipv4.tcp_no_metrics_save", "1", true),
    ];
    for (key, value, may_miss) in own {
        match set(key, value) {
            Err(error) if !may_miss => return Err(error).with_context(|| key.to_owned()),
            _ => {}
        }
    }
    for (key, value) in asked {
        set(key, value)
            .with_context(|| format!("--sysctl {key}={value}"))
            .map_err(|fault| Fault::new(format!("{fault}{}", remedy(key, value))))?;
    }
    Ok(())
}

/// Returns what permits a congestion control algorithm; nothing for other keys.
fn remedy(key: &str, value: &str) -> String {
    if key != "net.ipv4.tcp_congestion_control" {
        return String::new();
    }
    let list = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        text.unwrap_or_default().trim().to_owned()
    };
    let allowed = list("tcp_allowed_congestion_control");
    let available = list("tcp_available_congestion_control");
    if available.split_whitespace().any(|one| one == value) {
        format!(
            "; allowed are {allowed}: run `sysctl -w net.ipv4.tcp_allowed_congestion_control='{allowed} \
             {value}'` as root of this machine"
        )
    } else {
        format!("; available are {available}: load the kernel module with `modprobe tcp_{value}`")
    }
}

/// Sets a parameter of the calling thread's network namespace.
fn set(key: &str, value: &str) -> io::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !key.starts_with("net.") || !key.chars().all(is_plain) || key.contains("..") {
        return Err(io::Error::other("a key of the network, net.…, is allowed"));
    }
    // /proc/sys refers to the namespace of the calling thread.
    std::fs::write(format!("/proc/sys/{}", key.replace('.', "/")), value)
}

impl Host {
    /// Runs `work` in the namespaces of the host, in a separate thread.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let enter = || {
            move_into_link_name_space(self.net.as_fd(), Some(LinkNameSpaceType::Network))?;
            move_into_link_name_space(
                self.uts.as_fd(),
                Some(LinkNameSpaceType::HostNameAndNISDomainName),
            )?;
            work()
        };
        std::thread::scope(|scope| {
            scope.spawn(enter).join().unwrap_or_else(|_| Err(io::Error::other("a thread failed")))
        })
    }

    /// Returns the number of packets dropped by the devices of the host because the driver was too
    /// slow to read them.
    pub fn overflows(&self) -> u64 {
        let mut text = String::new();
        let mut devices = &self.devices;
        if devices.rewind().and_then(|()| devices.read_to_string(&mut text)).is_err() {
            return 0;
        }
        // After the name, eight numbers of received packets, followed by bytes, packets, errors and
        // drops sent.
        let drops = |line: &str| {
            let (name, numbers) = line.split_once(':')?;
            let dropped = numbers.split_whitespace().nth(11)?.parse::<u64>().ok()?;
            (name.trim() != "lo").then_some(dropped)
        };
        text.lines().filter_map(drops).sum()
    }

    /// Returns `true` if a program listens at this host on a TCP or UDP port.
    pub fn has_listener(&self) -> bool {
        let listens = || {
            // The state of a socket is the fourth field: 0A for a listening TCP socket, 07 for a
            // UDP socket.
            let has = |table: &str, state: &str| {
                let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
                let text = text.unwrap_or_default();
                text.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some(state))
            };
            Ok([("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")]
                .into_iter()
                .any(|(table, state)| has(table, state)))
        };
        self.inside(listens).unwrap_or(false)
    }
}

/// Publishes the names of all hosts to all programs: mounts a file over `/etc/hosts`, in this mount
/// namespace only.
pub fn publish(hosts: &[Host]) -> Result<(), Fault> {
    let mut text = String::new();
    for host in hosts {
        for address in &host.addresses {
            text.push_str(&format!("{address} {}\n", host.name));
        }
    }
    let known = std::fs::read_to_string("/etc/hosts");
    let known = known.unwrap_or_else(|_| "127.0.0.1 localhost\n".to_owned());
    let is_free = |line: &&str| {
        !line.split_whitespace().skip(1).any(|name| hosts.iter().any(|host| host.name == name))
    };
    known.lines().filter(is_free).for_each(|line| text.push_str(&format!("{line}\n")));
    mount_text("/etc/hosts", &text)
}

/// Makes the name server known to programs, in this mount namespace only. Without the file of the
/// machine, programs know the hosts by `/etc/hosts` only.
pub fn publish_server() -> Result<(), Fault> {
    const TABLE: &str = "/etc/resolv.conf";
    match std::fs::exists(TABLE) {
        Ok(true) => mount_text(TABLE, &format!("nameserver {}\n", names::SERVER)),
        _ => Ok(()),
    }
}

/// Mounts a file with this text over an existing file.
fn mount_text(over: &str, text: &str) -> Result<(), Fault> {
    use std::io::Write;
    let path = std::env::temp_dir().join(format!("lasthop-hosts-{}", own_name()));
    let mut file = File::create_new(&path).with_context(|| path.display().to_string())?;
    let mounted = file
        .write_all(text.as_bytes())
        .and_then(|()| Ok(rustix::mount::mount_bind(&path, over)?))
        .with_context(|| format!("a file over {over}"));
    // The mount persists after the name of the file is removed.
    let removed = std::fs::remove_file(&path).with_context(|| path.display().to_string());
    mounted.and(removed)
}

/// Returns a name that no other process uses at the same time.
fn own_name() -> String {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{}", std::process::id(), time.map_or(0, |time| time.as_nanos()))
}
