//! Separates programs from the machine: capabilities, mounts and user namespaces.
//!
//! - Unprivileged: the launcher creates a user namespace, whose root has no rights outside of it.
//! - Root: the driver makes the kernel's parameters read-only, then enters new user and mount
//!   namespaces. Mounts of a less privileged mount namespace are locked, so that no program can remove
//!   the protection. Without it, user 0 could write to `/proc/sys`, which checks the user, not
//!   capabilities. All users are mapped to themselves: files are accessible as before.
//! - `--outside`: one host is the machine, so that programs share its user namespace. Their bounding
//!   set has no capability over network, mounts or namespaces; the kernel's parameters are read-only.

use super::{Context, Fault, sys};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount,
};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};
use std::fs::{read_link, read_to_string, write};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Mount flags of kernel file systems.
const KERNEL: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Maximum time between the creation of the driver's user namespace and its table of users.
const MAPPING: Duration = Duration::from_secs(10);

/// Interval at which launcher and driver check for each other's part.
const POLL: Duration = Duration::from_millis(1);

/// Returns `true` if this process may create devices in its own network namespace.
pub fn may_administer() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN))
}

/// Moves this process into a new mount namespace, whose `/proc` has the programs of this run
/// only.
pub fn separate_mounts() -> Result<(), Fault> {
    sys::unshare(UnshareFlags::NEWNS).context("a mount namespace")?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).context("a mount namespace")?;
    // If /proc has mounts below it, as in containers, the kernel refuses. The mount is not
    // essential.
    let _ = mount("proc", "/proc", "proc", KERNEL, None);
    Ok(())
}

/// Makes the parameters and devices of the kernel in `/proc` and `/sys` read-only, apart from
/// `/proc/PID` and, if `keeps_network`, those of the program's network namespace.
pub fn protect_kernel(keeps_network: bool) -> Result<(), Fault> {
    let entries = std::fs::read_dir("/proc").context("/proc")?;
    for entry in entries.flatten() {
        let is_process = entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        // Links lead to a process.
        let Ok(about) = entry.metadata() else { continue };
        let is_writable = about.is_dir() || about.permissions().mode() & 0o222 != 0;
        if is_process || entry.path().is_symlink() || !is_writable {
            continue;
        }
        let (path, what) = (entry.path(), || format!("{} read-only", entry.path().display()));
        mount_bind(&path, &path).with_context(what)?;
        mount_remount(&path, MountFlags::BIND | MountFlags::RDONLY | KERNEL, "")
            .with_context(what)?;
    }
    if keeps_network {
        let network = "/proc/sys/net";
        mount_bind(network, network).context(network)?;
        mount_remount(network, MountFlags::BIND | KERNEL, "").context(network)?;
    }
    let mounts = read_to_string("/proc/self/mountinfo").context("the table of mounts")?;
    for path in mounts.lines().filter_map(|line| line.split(' ').nth(4)) {
        if path == "/sys" || path.starts_with("/sys/") {
            mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | KERNEL, "")
                .with_context(|| format!("{path} read-only"))?;
        }
    }
    Ok(())
}

/// Moves this process, the driver, into new user and mount namespaces, in which all mounts are locked. The launcher must call [`map_users_of`].
pub fn enter_user_namespace() -> Result<(), Fault> {
    sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).context("a user namespace")?;
    let since = Instant::now();
    // The table of users is written last.
    while read_to_string("/proc/self/uid_map").context("uid_map")?.is_empty() {
        if since.elapsed() > MAPPING {
            return Err(Fault::new("the user namespace: its table of users was not written"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Maps all users and groups of this process to themselves in the user namespace that process `driver`
/// creates. Returns without an effect if the process ends before.
pub fn map_users_of(driver: Pid) -> Result<(), Fault> {
    let process = format!("/proc/{}", driver.as_raw_nonzero());
    let own = read_link("/proc/self/ns/user").context("the user namespace")?;
    while read_link(format!("{process}/ns/user")).is_ok_and(|its| its == own) {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(driver), ended) {
            Ok(Some(_)) => return Ok(()),
            _ => std::thread::sleep(POLL),
        }
    }
    for table in ["gid_map", "uid_map"] {
        let identity = |line: &str| {
            let mut numbers = line.split_whitespace();
            let (first, count) = (numbers.next()?, numbers.nth(1)?);
            Some(format!("{first} {first} {count}\n"))
        };
        let own = read_to_string(format!("/proc/self/{table}")).context(table)?;
        let text: String = own.lines().filter_map(identity).collect();
        write(format!("{process}/{table}"), text).context(table)?;
    }
    Ok(())
}

/// Keeps what the driver needs to enter its namespaces, and leaves the programs what root has to do
/// with files and ports of its own.
pub fn drop_capabilities() -> Result<(), Fault> {
    let programs = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::NET_RAW
        | CapabilitySet::NET_BIND_SERVICE;
    for one in (CapabilitySet::all() - programs).iter() {
        match remove_capability_from_bounding_set(one) {
            // The kernel is older than the capability.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error).context("dropping capabilities"),
        }
    }
    keep_capabilities(CapabilitySet::SYS_ADMIN | CapabilitySet::KILL)
}

/// Drops all capabilities except `kept`.
pub fn keep_capabilities(kept: CapabilitySet) -> Result<(), Fault> {
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context("dropping capabilities")
}
