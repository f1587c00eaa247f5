//! Addresses, routes and devices of the calling thread's network namespace, by the messages of
//! rtnetlink(7).

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

/// Types and flags of messages (`linux/netlink.h`, `linux/rtnetlink.h`).
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
const REQUEST_ACK: u16 = 0x1 | 0x4;
const CREATE_EXCL: u16 = 0x400 | 0x200;
/// Attributes of links, addresses and routes.
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;

const IFF_UP: u32 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// No duplicate address detection (`linux/if_addr.h`).
const IFA_F_NODAD: u8 = 0x02;
/// Table, origin, scope and type of a route: main, static, link, unicast.
const ROUTE: [u8; 4] = [254, 4, 253, 1];

/// A network: an address and the number of leading bits that its members share with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its first address.
    pub address: IpAddr,
    /// Length of the prefix.
    pub bits: u8,
}

impl Network {
    /// All IPv4 addresses.
    pub const DEFAULT: Self = Network { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), bits: 0 };

    /// A single host.
    pub fn host(address: IpAddr) -> Self {
        Network { address, bits: parts(address).1 }
    }

    /// Reads the notation ADDRESS/BITS.
    pub fn read(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let network = Network { address: address.parse().ok()?, bits: bits.parse().ok()? };
        (network.bits <= parts(network.address).1).then_some(network)
    }
}

/// Properties of a device.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Maximum packet length in bytes.
    pub mtu: u32,
    /// Maximum number of queued packets.
    pub queue: u32,
    /// Maximum number of segments that the host passes on together. With one, TCP sees the queue of
    /// the link like the queue of a real device.
    pub segments: u32,
}

/// Index of the loopback device in every namespace.
pub const LOOPBACK: u32 = 1;

/// Length of a message header, in bytes.
const HEADER: usize = 16;

/// An rtnetlink socket.
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens a socket in the network namespace of the calling thread.
    pub fn new() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // NETLINK_ROUTE is number 0.
            None,
        )?;
        Ok(Netlink { socket })
    }

    /// Brings a device up, with this shape.
    pub fn up(&self, device: u32, shape: Option<Shape>) -> io::Result<()> {
        let message = |flags: u32| [0, device, flags, flags].map(u32::to_ne_bytes).concat();
        if let Some(Shape { mtu, queue, segments }) = shape {
            // A queue whose length changes while the device is up can drop the first packet of the host.
            let mut message = message(0);
            attribute(&mut message, IFLA_MTU, &mtu.to_ne_bytes());
            attribute(&mut message, IFLA_TXQLEN, &queue.to_ne_bytes());
            attribute(&mut message, IFLA_GSO_MAX_SEGS, &segments.to_ne_bytes());
            self.ask(RTM_NEWLINK, 0, message)?;
        }
        self.ask(RTM_NEWLINK, 0, message(IFF_UP))
    }

    /// Assigns an address to a device.
    pub fn address(&self, device: u32, address: IpAddr) -> io::Result<()> {
        let (family, bits, octets) = parts(address);
        let flags = if address.is_ipv6() { IFA_F_NODAD } else { 0 };
        let mut message = vec![family, bits, flags, 0];
        message.extend(device.to_ne_bytes());
        attribute(&mut message, IFA_LOCAL, &octets);
        attribute(&mut message, IFA_ADDRESS, &octets);
        self.ask(RTM_NEWADDR, CREATE_EXCL, message)
    }

    /// Adds a route to the network `to` over `device`, with source address `from` of the same
    /// family.
    pub fn route(&self, to: Network, device: u32, from: IpAddr) -> io::Result<()> {
        let (family, _, source) = parts(from);
        let mut message = vec![family, to.bits, 0, 0];
        message.extend(ROUTE);
        message.extend([0; 4]);
        if to.bits > 0 {
            attribute(&mut message, RTA_DST, &parts(to.address).2);
        }
        attribute(&mut message, RTA_OIF, &device.to_ne_bytes());
        attribute(&mut message, RTA_PREFSRC, &source);
        self.ask(RTM_NEWROUTE, CREATE_EXCL, message)
    }

    fn ask(&self, kind: u16, flags: u16, body: Vec<u8>) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((REQUEST_ACK | flags).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = [0u8; 4096];
        let (length, _) = rustix::net::recv(&self.socket, &mut answer, RecvFlags::empty())?;
        let answer = &answer[..length];
        let is_error = answer.get(4..6) == Some(&NLMSG_ERROR.to_ne_bytes()[..]);
        let code = answer.get(HEADER..HEADER + 4).and_then(|code| code.try_into().ok());
        match code.map(i32::from_ne_bytes) {
            Some(0) if is_error => Ok(()),
            Some(code) if is_error => Err(io::Error::from_raw_os_error(-code)),
            _ => Err(io::Error::other("unexpected netlink response of the kernel")),
        }
    }
}

/// Returns the family of an address, its length in bits, and its bytes.
fn parts(address: IpAddr) -> (u8, u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AF_INET, 32, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, 128, address.octets().to_vec()),
    }
}

/// Appends an attribute, padded to four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}
