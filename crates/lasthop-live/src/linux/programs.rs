//! The programs of a live run, each in the namespaces of its host.

use super::hosts::Host;
use super::{Context, Fault};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A program to run at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The host.
    pub host: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
}

/// A started program.
#[derive(Debug)]
pub struct Program {
    /// The program and its host.
    pub order: Order,
    pid: Pid,
    /// Becomes readable when the program ends.
    pub ended: OwnedFd,
    /// Exit code, in the convention of shells.
    pub code: Option<i32>,
}

impl Program {
    /// Starts a program at its host. The foreground program has the terminal. Other programs have
    /// their own process group, so that Ctrl-C does not end a server before its client, and no
    /// input.
    pub fn start(order: &Order, hosts: &[Host], in_front: bool) -> Result<Self, Fault> {
        let host = hosts.iter().find(|host| host.name == order.host);
        let host = host.ok_or_else(|| Fault::new(format!("there is no host {:?}", order.host)))?;
        let (name, arguments) =
            order.argv.split_first().ok_or_else(|| Fault::new("a program without a name"))?;
        let mut command = Command::new(name);
        command.args(arguments).env("LASTHOP_HOST", &host.name);
        if !in_front {
            command.stdin(Stdio::null()).process_group(0);
        }
        let child = host.inside(|| command.spawn());
        let child = child.with_context(|| format!("{name}, at host {:?}", host.name))?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).context("a program")?;
        Ok(Program { order: order.clone(), pid, ended, code: None })
    }

    /// Signals the program and, if it has its own process group, the processes in that group.
    pub fn signal(&self, signal: Signal, in_front: bool) {
        if self.code.is_some() {
            return;
        }
        let _ = match in_front {
            true => rustix::process::kill_process(self.pid, signal),
            false => rustix::process::kill_process_group(self.pid, signal),
        };
    }
}

/// Collects programs that have ended, and orphans inherited by the first process of the namespace.
pub fn reap(programs: &mut [Program]) -> io::Result<()> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let code = status.exit_status();
                let code = code.or(status.terminating_signal().map(|signal| 128 + signal));
                if let Some(program) = programs.iter_mut().find(|program| program.pid == pid) {
                    program.code = code;
                }
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
