//! The programs of a live run, each in the namespaces of its host.

use super::hosts::Host;
use super::{Context, Fault};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum length of a labelled line, in bytes; longer ones are divided.
const LONGEST_LINE: u64 = 65_536;

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
    /// Threads that print its output.
    labels: Vec<JoinHandle<()>>,
}

/// Starts a thread that prints the lines of a program at `host`, each with the name of the host.
/// Returns the file for the program's output: a terminal if `out` is one, so that programs print each
/// line immediately, otherwise a pipe.
fn labelled<W>(mut out: W, host: &str) -> io::Result<(JoinHandle<()>, OwnedFd)>
where
    W: Write + AsFd + Send + 'static,
{
    let (reader, writer) = match rustix::termios::isatty(&out) {
        true => terminal().or_else(|_| pipe())?,
        false => pipe()?,
    };
    let label = format!("[{host}] ");
    let print = move || {
        let mut reader = BufReader::new(File::from(reader));
        let mut line = Vec::new();
        // A terminal without writers returns an error.
        while let Ok(length) = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            if length == 0 {
                break;
            }
            while line.last().is_some_and(|&last| last == b'\n' || last == b'\r') {
                line.pop();
            }
            let text = [label.as_bytes(), &line, b"\n"].concat();
            let _ = out.write_all(&text).and_then(|()| out.flush());
            line.clear();
        }
    };
    Ok((std::thread::Builder::new().spawn(print)?, writer))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// Opens a pseudoterminal: returns its two sides.
fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&main)?;
    unlockpt(&main)?;
    let name = ptsname(&main, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let side = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    Ok((main, side))
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
        let mut labels = Vec::new();
        if !in_front {
            command.stdin(Stdio::null()).process_group(0);
            let (out, write) = labelled(io::stdout(), &host.name).context("the output")?;
            command.stdout(write);
            let (err, write) = labelled(io::stderr(), &host.name).context("the output")?;
            command.stderr(write);
            labels = vec![out, err];
        }
        let child = host.inside(|| command.spawn());
        // The writing ends are those of the child only.
        drop(command);
        let child = child.with_context(|| format!("{name}, at host {:?}", host.name))?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).context("a program")?;
        Ok(Program { order: order.clone(), pid, ended, code: None, labels })
    }

    /// Waits until the output of a program that has ended is printed, at most for `time`: another
    /// process may keep it open.
    pub fn flush(&self, time: Duration) {
        let since = Instant::now();
        while since.elapsed() < time && self.labels.iter().any(|one| !one.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
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
