//! System calls without a safe wrapper: TUN devices, namespaces, inherited files, and the priority
//! of child processes.

#![expect(
    unsafe_code,
    reason = "an ioctl, unshare, inherited files and scheduling, each with its argument"
)]

use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// `struct ifreq` of `linux/if.h`, in the form required by TUNSETIFF.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// IFF_TUN and IFF_NO_PI of `linux/if_tun.h`: IP packets without a preceding header.
const TUN_WITHOUT_HEADER: u16 = 0x0001 | 0x1000;

/// TUNSETIFF of `linux/if_tun.h`.
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

/// Creates a TUN device with this name in the network namespace of the calling thread. The device
/// exists until the file is closed. Reads and writes do not block.
pub fn tun(name: &str) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = InterfaceRequest { name: [0; 16], flags: TUN_WITHOUT_HEADER, rest: [0; 22] };
    // The last byte stays zero and terminates the name.
    for (place, byte) in request.name[..15].iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq` of 40 bytes, the layout of
    // `InterfaceRequest`.
    unsafe { ioctl(&device, Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request)) }?;
    Ok(device)
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
