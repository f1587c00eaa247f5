//! The device of a host at one end of a link, and writes of one or several packets to it.

use super::ethernet::{HEADER, Headers};
use crate::offload::{Joint, MOST_HEAD, MOST_PACKETS, PREAMBLE};
use crate::outbox::Delivery;
use lasthop_sim::sim::ids::Side;
use rustix::io::{Errno, read, write, writev};
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// A device of a host at one end of a link.
#[derive(Debug)]
pub struct Port {
    /// Index of the link in the scenario.
    pub link: usize,
    /// The end.
    pub side: Side,
    /// The device.
    pub device: OwnedFd,
    /// Whether each packet has a preamble: see [`crate::offload`].
    pub has_preamble: bool,
    /// Ethernet headers of packets from the device, if it is a network interface of the machine.
    pub headers: Option<Headers>,
}

impl Port {
    /// Returns the port of a TUN device.
    pub fn tun(link: usize, side: Side, device: OwnedFd, has_preamble: bool) -> Self {
        Port { link, side, device, has_preamble, headers: None }
    }

    /// Reads what the host sends next, with its preamble, which is zero for devices without one.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], Errno> {
        if self.has_preamble || self.headers.is_some() {
            let length = read(&self.device, &mut *buffer)?;
            return Ok(&mut buffer[..length]);
        }
        buffer[..PREAMBLE].fill(0);
        let length = read(&self.device, &mut buffer[PREAMBLE..])?;
        Ok(&mut buffer[..PREAMBLE + length])
    }

    /// Writes a packet to the host.
    pub fn write(&self, packet: &[u8]) -> Result<(), Errno> {
        if self.has_preamble {
            let parts = [IoSlice::new(&[0; PREAMBLE]), IoSlice::new(packet)];
            writev(&self.device, &parts).map(|_| ())
        } else {
            write(&self.device, packet).map(|_| ())
        }
    }

    /// Transmits a packet at a network interface. Without a header, the frame is already complete.
    pub fn transmit(&self, header: Option<&[u8; HEADER]>, packet: &[u8]) -> Result<(), Errno> {
        let header = header.map_or(&[][..], |header| header);
        let parts = [&[0; PREAMBLE], header, packet].map(IoSlice::new);
        writev(&self.device, &parts).map(|_| ())
    }

    /// Writes packets that `joint` has collected to the host, with one call.
    pub fn write_together(&self, joint: &Joint, packets: &[Delivery]) -> Result<(), Errno> {
        let (first, last) = match packets {
            [] => return Ok(()),
            [only] => return self.write(&only.packet),
            [first, .., last] => (first, last),
        };
        let mut room = [0; MOST_HEAD];
        let Some(head) = joint.head(&first.packet, &last.packet, &mut room) else {
            return Err(Errno::INVAL);
        };
        let mut parts = [IoSlice::new(&[]); 1 + MOST_PACKETS];
        parts[0] = IoSlice::new(head);
        for (part, one) in parts[1..].iter_mut().zip(packets) {
            *part = IoSlice::new(joint.data(&one.packet));
        }
        writev(&self.device, &parts[..=packets.len()]).map(|_| ())
    }
}
