//! System calls without a safe wrapper: TUN devices, packet sockets, namespaces, inherited files, the priority of
//! child processes, and waiting for files with a timeout in nanoseconds.

#![expect(
    unsafe_code,
    reason = "ioctls, socket options, unshare, inherited files, scheduling and epoll"
)]

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::ioctl::{IntegerSetter, Updater, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `struct ifreq` of `linux/if.h`, in the form required by TUNSETIFF.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// IFF_TUN and IFF_NO_PI of `linux/if_tun.h`: IP packets without a preceding header.
const TUN_WITHOUT_HEADER: u16 = 0x0001 | 0x1000;

/// IFF_VNET_HDR: a preamble before each packet, see [`crate::offload`].
const WITH_PREAMBLE: u16 = 0x4000;

/// TUNSETIFF and TUNSETOFFLOAD of `linux/if_tun.h`.
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);
const TUNSETOFFLOAD: rustix::ioctl::Opcode = opcode::write::<u32>(b'T', 208);

/// TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 and TUN_F_TSO_ECN.
const TCP_OFFLOADS: usize = 0x01 | 0x02 | 0x04 | 0x08;

/// TUN_F_USO4 and TUN_F_USO6, since Linux 6.2.
const UDP_OFFLOADS: usize = 0x20 | 0x40;

/// Creates a TUN device with this name in the network namespace of the calling thread. The device
/// exists until the file is closed. Reads and writes do not block. With `offload`, each packet has
/// a preamble, and hosts may leave checksums and segmentation to the reader of the device.
pub fn tun(name: &str, offload: bool) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let flags = TUN_WITHOUT_HEADER | if offload { WITH_PREAMBLE } else { 0 };
    let mut request = InterfaceRequest { name: [0; 16], flags, rest: [0; 22] };
    // The last byte stays zero and terminates the name.
    for (place, byte) in request.name[..15].iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq` of 40 bytes, the layout of
    // `InterfaceRequest`.
    unsafe { ioctl(&device, Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request)) }?;
    if offload {
        let set = |offloads| {
            // SAFETY: the argument of TUNSETOFFLOAD is a number.
            unsafe { ioctl(&device, IntegerSetter::<TUNSETOFFLOAD>::new_usize(offloads)) }
        };
        set(TCP_OFFLOADS | UDP_OFFLOADS).or_else(|_| set(TCP_OFFLOADS))?;
    }
    Ok(device)
}

/// Type of Ethernet interfaces (`linux/if_arp.h`), and the flag of those that are up (`linux/if.h`).
const ARPHRD_ETHER: u16 = 1;
const IFF_UP: u16 = 1;

/// SIOCGIFFLAGS and SIOCGIFHWADDR of `linux/sockios.h`.
const SIOCGIFFLAGS: rustix::ioctl::Opcode = 0x8913;
const SIOCGIFHWADDR: rustix::ioctl::Opcode = 0x8927;

/// Receive buffer of a packet socket in bytes: 8 ms of packets of 1500 B at 1 Gbps, with the kernel's share.
const PACKET_BUFFER: usize = 4 << 20;

/// Opens a packet socket (packet(7)) for all frames that an Ethernet interface receives, not only those with
/// its own address. Each frame has a preamble, as with [`tun`]. Reads and writes do not block.
pub fn packet_socket(name: &str) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with, sockopt};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let index = {
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        let index = netdevice::name_to_index(&any, name)?;
        if interface_number::<SIOCGIFHWADDR>(&any, name)? != ARPHRD_ETHER {
            return Err(io::Error::other("not an Ethernet interface"));
        }
        if interface_number::<SIOCGIFFLAGS>(&any, name)? & IFF_UP == 0 {
            return Err(io::Error::other(format!(
                "the interface is down: `ip link set {name} up`"
            )));
        }
        index as libc::c_int
    };
    // Without a protocol, it receives nothing before it is bound to the interface.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    set_packet_option(&socket, libc::PACKET_VNET_HDR, &1_i32)?;
    set_packet_option(&socket, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
    let all = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_packet_option(&socket, libc::PACKET_ADD_MEMBERSHIP, &all)?;
    // Without CAP_NET_ADMIN, the limit of the machine applies.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, PACKET_BUFFER);
    let place = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads one `sockaddr_ll`.
    let bound = unsafe {
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const place).cast(), length)
    };
    if bound == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Returns the first number that a request about an interface writes to its `struct ifreq`.
fn interface_number<const CODE: rustix::ioctl::Opcode>(
    socket: &OwnedFd,
    name: &str,
) -> io::Result<u16> {
    let mut request = InterfaceRequest { name: [0; 16], flags: 0, rest: [0; 22] };
    for (place, byte) in request.name[..15].iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    // SAFETY: the requests read and write one `struct ifreq` of 40 bytes, the layout of
    // `InterfaceRequest`.
    unsafe { ioctl(socket, Updater::<CODE, InterfaceRequest>::new(&mut request)) }?;
    Ok(request.flags)
}

/// Sets an option of a packet socket.
fn set_packet_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads one value of this size.
    let done = unsafe {
        let (value, length) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of frames that a packet socket had no room for since the last call.
pub fn packet_drops(socket: &OwnedFd) -> u64 {
    let mut numbers = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `numbers`, and their number to `length`.
    let done = unsafe {
        let (option, to) = (libc::PACKET_STATISTICS, (&raw mut numbers).cast());
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, to, &raw mut length)
    };
    if done == 0 { numbers.tp_drops.into() } else { 0 }
}

/// Moves the calling thread into new namespaces.
pub fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    debug_assert!(!namespaces.contains(UnshareFlags::FILES), "files stay shared");
    // SAFETY: only FILES affects files of other threads; no caller sets it.
    unsafe { unshare_unsafe(namespaces) }.map_err(io::Error::from)
}

/// Sets SCHED_OTHER and a nice value of at least 0 for processes and threads started by this
/// thread, even if it has a real-time priority or a negative nice value (sched(7), reset-on-fork).
pub fn reset_priority_on_fork() -> io::Result<()> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    let own = &raw mut parameters;
    // Direct system calls, as the functions of musl are not implemented. SAFETY: each call reads or
    // writes one `sched_param`, of the calling thread (0).
    let is_set = unsafe {
        let policy = libc::syscall(libc::SYS_sched_getscheduler, 0);
        let policy = policy | libc::c_long::from(libc::SCHED_RESET_ON_FORK);
        libc::syscall(libc::SYS_sched_getparam, 0, own) == 0
            && libc::syscall(libc::SYS_sched_setscheduler, 0, policy, own) == 0
    };
    if is_set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes over an open file of the parent process. Programs started by this process do not inherit
/// it. Each number may be taken once.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::Error::other("standard input and output belong to the program"));
    }
    // SAFETY: called once for each number before other files are opened, so the descriptor has no
    // other owner; the next call checks that it is open.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    match rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC) {
        Ok(()) => Ok(file),
        Err(error) => {
            // The descriptor is not open and must not be closed.
            std::mem::forget(file);
            Err(error.into())
        }
    }
}

/// `struct __kernel_timespec` of `linux/time_types.h`.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

/// Replaces `events` by those of the files that are ready; waits up to `nap` for one. `epoll_wait`
/// rounds the time up to a whole millisecond. `epoll_pwait2`, which does not, requires Linux 5.11;
/// older kernels need two calls.
pub fn wait(
    files: &OwnedFd,
    events: &mut Vec<epoll::Event>,
    nap: Duration,
) -> rustix::io::Result<()> {
    static IS_OLD: AtomicBool = AtomicBool::new(false);
    events.clear();
    if !IS_OLD.load(Ordering::Relaxed) {
        let nap = KernelTimespec {
            seconds: nap.as_secs() as i64,
            nanoseconds: nap.subsec_nanos().into(),
        };
        // SAFETY: the kernel writes at most `capacity` events, with the layout of
        // `struct epoll_event`, to memory of this vector; it reads the time; there is no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                files.as_raw_fd(),
                events.as_mut_ptr(),
                events.capacity() as libc::c_int,
                &raw const nap,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        if count >= 0 {
            // SAFETY: the kernel has written this number of events.
            unsafe { events.set_len(count as usize) };
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match rustix::io::Errno::from_io_error(&error) {
            // Sandboxes for older programs answer PERM.
            Some(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                IS_OLD.store(true, Ordering::Relaxed);
            }
            error => return Err(error.unwrap_or(rustix::io::Errno::IO)),
        }
    }
    if !nap.is_zero() {
        let nap = Timespec { tv_sec: nap.as_secs() as _, tv_nsec: nap.subsec_nanos().into() };
        poll(&mut [PollFd::new(files, PollFlags::IN)], Some(&nap))?;
    }
    epoll::wait(files, rustix::buffer::spare_capacity(events), Some(&Timespec::default()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Instant;

    #[test]
    fn a_wait_ends_in_time_and_names_readable_files() {
        let files = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let token = epoll::EventData::new_u64(7);
        epoll::add(&files, &reader, token, epoll::EventFlags::IN).expect("epoll");
        let mut events = Vec::with_capacity(4);
        let nap = Duration::from_micros(300);
        let since = Instant::now();
        wait(&files, &mut events, nap).expect("a wait");
        assert!(since.elapsed() >= nap);
        assert_eq!(events.len(), 0);
        writer.write_all(b"a").expect("a pipe");
        wait(&files, &mut events, Duration::from_secs(60)).expect("a wait");
        assert!(since.elapsed() < Duration::from_secs(30));
        assert_eq!(events.iter().map(|event| event.data.u64()).collect::<Vec<_>>(), [7]);
    }
}
