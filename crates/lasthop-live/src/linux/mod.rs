//! Live links on Linux: namespaces, TUN devices, programs and the wall clock.
//!
//! A run has three processes, so that its resources are released if any of them is killed:
//!
//! ```text
//!   command line   reads options, prints, serves the page   (any process; holds a pipe open)
//!     launcher     new PID namespace, of ordinary users also a user namespace; waits
//!       driver     first process of the PID namespace: mounts, hosts, devices, links
//!         programs
//! ```
//!
//! - The driver is the first process of its PID namespace: when it ends, the kernel ends every program.
//! - When the launcher dies, the kernel kills the driver (PR_SET_PDEATHSIG); when the command line dies,
//!   the pipe closes, and the driver ends the programs.
//! - Network namespaces and devices have no names in the file system and are removed with the last process that
//!   uses them.

mod confinement;
mod control;
mod driver;
mod ethernet;
mod hosts;
mod netlink;
mod port;
mod programs;
mod request;
mod sys;

use super::capture::Capture;
use super::names::Names;
use super::network::{Network, round_trip};
use super::recording::{Header, Recorder};
use super::refusal::Refused;
use super::report::{Reporter, summary};
use control::{Command, Control};
use driver::{Driver, Files, say};
use hdrhistogram::Histogram;
use lasthop_sim::scenario::Scenario;
use programs::{Order, Program, reap};
use request::Request;
use rustix::process::{Signal, WaitOptions};
use rustix::thread::{CapabilitySet, UnshareFlags};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between the request to end and the end of a program by force.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum time for which the output of an ended program is awaited.
const FLUSH: Duration = Duration::from_millis(200);

/// Maximum time for which the last program waits until the others listen.
const SETTLE: Duration = Duration::from_secs(2);

/// Interval between checks whether they listen.
const LOOK: Duration = Duration::from_millis(20);

/// Error of a live run: an error of the system, or a message of the driver.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

impl Fault {
    fn new(message: impl Into<String>) -> Self {
        Fault(message.into())
    }

    /// Error in creating a device, with the requirements on the machine.
    fn of_device(what: &str, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "; load the kernel module for TUN devices: `modprobe tun`",
            io::ErrorKind::PermissionDenied => {
                "; this user needs read and write permission for /dev/net/tun"
            }
            _ => "",
        };
        Fault(format!("{what}: {error}{remedy}"))
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        Fault(refused.to_string())
    }
}

/// Adds the context of a system error.
trait Context<T> {
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T, Fault>;

    fn context(self, what: &str) -> Result<T, Fault>
    where
        Self: Sized,
    {
        self.with_context(|| what.to_owned())
    }
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T, Fault> {
        self.map_err(|error| Fault(format!("{}: {}", what(), error.into())))
    }
}

/// Files that the command line leaves open for the launcher and the driver: the request, the pipe
/// that closes when the command line ends, and the status output.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// The request, as JSON text.
    pub request: i32,
    /// A pipe that closes when the command line ends.
    pub control: i32,
    /// Status output, as lines of JSON.
    pub status: i32,
}

/// Role of a process that the engine provides for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Creates namespaces and waits.
    Launcher,
    /// Drives the links; confined by the launcher, or in the machine's namespaces with `--outside`.
    Driver,
    /// Drives the links of a run started by root; confines itself.
    PrivilegedDriver,
}

impl Role {
    /// Roles by the names that the launcher passes to a driver.
    const NAMES: [(Role, &str); 3] = [
        (Role::Launcher, "launcher"),
        (Role::Driver, "driver"),
        (Role::PrivilegedDriver, "privileged-driver"),
    ];

    /// Returns the role with this name, or the launcher.
    pub fn named(name: &str) -> Role {
        let found = Self::NAMES.iter().find(|(_, own)| *own == name);
        found.map_or(Role::Launcher, |(role, _)| *role)
    }

    fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// Runs the launcher: creates the namespaces, starts the driver and waits for it. Returns the exit
/// code.
pub fn launch(channels: Channels) -> i32 {
    match try_launch(channels) {
        Ok(code) => code,
        Err(fault) => {
            if let Ok(status) = sys::inherited(channels.status) {
                let line = json!({"kind": "error", "message": fault.to_string()});
                say(&mut File::from(status), &line);
            }
            1
        }
    }
}

/// Reads the request without taking the file, which the driver reads again.
fn read_request(channels: Channels) -> Result<Request, Fault> {
    let path = format!("/proc/self/fd/{}", channels.request);
    Request::read(&std::fs::read_to_string(path).context("the request")?)
}

fn try_launch(channels: Channels) -> Result<i32, Fault> {
    let request = read_request(channels)?;
    die_with_parent()?;
    let is_root = rustix::process::geteuid().is_root();
    let mut namespaces = UnshareFlags::NEWPID;
    let shares_machine = request.shares_machine();
    if shares_machine && !confinement::may_administer() {
        return Err(Fault(format!(
            "{}: missing capability CAP_NET_ADMIN; run as root, or with CAP_NET_ADMIN and \
             CAP_SYS_ADMIN",
            request.privileged_option()
        )));
    }
    let needs_user = !is_root && !shares_machine;
    let role = if is_root && !shares_machine { Role::PrivilegedDriver } else { Role::Driver };
    if needs_user {
        namespaces |= UnshareFlags::NEWUSER;
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    sys::unshare(namespaces).map_err(|error| {
        Fault(format!(
            "cannot create user and PID namespaces: {error}; run as root, or permit unprivileged \
             user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces \
             above 0, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
        ))
    })?;
    if needs_user {
        let map = |file: &str, text: String| {
            std::fs::write(format!("/proc/self/{file}"), text).with_context(|| file.to_owned())
        };
        map("setgroups", "deny".to_owned())?;
        map("uid_map", format!("0 {} 1", user.as_raw()))?;
        map("gid_map", format!("0 {} 1", group.as_raw()))?;
    }
    let (program, arguments) =
        request.interpreter.split_first().ok_or_else(|| Fault::new("no interpreter"))?;
    let child = std::process::Command::new(program).args(arguments).arg(role.name()).spawn();
    let child = child.with_context(|| program.clone())?;
    let pid = rustix::process::Pid::from_child(&child);
    if role == Role::PrivilegedDriver {
        confinement::map_users_of(pid)?;
    }
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let code = status.exit_status();
                let code = code.or(status.terminating_signal().map(|signal| 128 + signal));
                return Ok(code.unwrap_or(1));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("the driver"),
        }
    }
}

fn die_with_parent() -> Result<(), Fault> {
    let kill = Some(Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill).context("the signal of the parent's end")
}

/// Runs the driver: creates the hosts, runs the programs and drives the links until the last
/// program ends. Returns its exit code.
pub fn drive(channels: Channels, role: Role) -> i32 {
    let open = |number| sys::inherited(number);
    let (Ok(control), Ok(status)) = (open(channels.control), open(channels.status)) else {
        return 1;
    };
    let mut status = File::from(status);
    match try_drive(channels, role, control, &mut status) {
        Ok(code) => code,
        Err(fault) => {
            say(&mut status, &json!({"kind": "error", "message": fault.to_string()}));
            1
        }
    }
}

fn try_drive(
    channels: Channels,
    role: Role,
    control: OwnedFd,
    status: &mut File,
) -> Result<i32, Fault> {
    let request = read_request(channels)?;
    drop(sys::inherited(channels.request));
    die_with_parent()?;
    let Request { header, .. } = &request;
    let control = Control::new(control)?;
    let scenario = &header.scenario;
    let mut network = Network::new(scenario, header.streams, header.mtu)?;
    let mtus: Vec<u32> = (0..network.len()).map(|link| network.mtu(link)).collect();
    confinement::separate_mounts()?;
    if role == Role::PrivilegedDriver {
        confinement::protect_kernel(true)?;
        confinement::enter_user_namespace()?;
        die_with_parent()?;
    }
    // All programs, and all threads that start programs, have the default priority.
    sys::reset_priority_on_fork().context("the priority of programs")?;
    let existing = request.netns.iter().map(|(host, file)| {
        let file = sys::inherited(*file).with_context(|| format!("--netns {host}"))?;
        Ok::<_, Fault>((host.as_str(), file))
    });
    let existing = existing.collect::<Result<Vec<_>, _>>()?;
    let plan = hosts::Plan {
        networks: &request.networks,
        existing: &existing,
        scenario,
        mtus: &mtus,
        sysctls: &request.sysctls,
        outside: request.outside.as_deref(),
        has_offload: request.has_offload,
    };
    let (hosts, ports) = match &request.between {
        Some(interfaces) => (Vec::new(), ethernet::open(interfaces)?),
        None => hosts::open(plan)?,
    };
    hosts::publish(&hosts)?;
    // With a way to the outside, programs keep the name servers of the machine.
    if request.outside.is_none() && request.networks.is_empty() {
        hosts::publish_server()?;
    }
    let names = hosts.iter().map(|host| (host.name.as_str(), &host.addresses[..]));
    let names = Names::new(names);
    drop(existing);
    if request.shares_machine() {
        confinement::protect_kernel(false)?;
        confinement::drop_capabilities()?;
    }
    let files = open_files(&request)?;
    if files.recorder.is_some() {
        network.keep_frames();
    }
    let mut run = Run {
        driver: Driver::new(network, ports, names, files, request.spin)?,
        programs: Vec::new(),
        status,
        reporter: Reporter::new(mtus.len(), request.has_samples),
        control,
        is_killed: false,
        is_confined: request.shares_machine(),
        header,
        scenario: scenario.clone(),
        slowed: BTreeSet::new(),
    };
    run.driver.watch(run.control.pipe(), CONTROL)?;
    let texts = |host: &hosts::Host| -> Value {
        host.addresses.iter().map(|address| address.to_string()).collect()
    };
    let addresses: serde_json::Map<_, _> =
        hosts.iter().map(|host| (host.name.clone(), texts(host))).collect();
    say(run.status, &json!({"kind": "start", "hosts": addresses}));
    let code = run.programs(&request.programs, &hosts)?;
    run.driver.finish();
    let inside = hosts.iter().filter(|host| !host.is_existing);
    let overflows = inside.map(hosts::Host::overflows).sum::<u64>() + run.driver.overflows();
    run.report(code, overflows);
    Ok(code)
}

/// Token of the pipe from the command line. Tokens of programs are greater.
const CONTROL: u32 = 0;

fn open_files(request: &Request) -> Result<Files, Fault> {
    let mut files = Files::default();
    let create = |option: &str, path: &String| {
        let file = File::create(path).with_context(|| format!("{option} {path}"))?;
        Ok::<_, Fault>(BufWriter::new(file))
    };
    if let Some(path) = &request.record {
        let recorder = Recorder::new(create("--record", path)?, &request.header);
        files.recorder = Some(recorder.with_context(|| format!("--record {path}"))?);
    }
    if let Some(path) = &request.pcap {
        let origin = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let origin = origin.unwrap_or_default();
        let out = create("--pcap", path)?;
        let capture = Capture::new(out, &request.header.scenario, origin);
        files.capture = Some(capture.with_context(|| format!("--pcap {path}"))?);
    }
    Ok(files)
}

/// State of the links at one time.
pub(super) struct Watch<'a> {
    network: &'a Network,
    lateness: &'a Histogram<u64>,
    arrivals: u64,
    deliveries: u64,
    rejected_by_kernel: u64,
    processor: Duration,
}

/// A run in progress.
struct Run<'a> {
    driver: Driver,
    programs: Vec<Program>,
    status: &'a mut File,
    reporter: Reporter,
    control: Control,
    /// Whether all programs end immediately.
    is_killed: bool,
    /// Whether one of the hosts is the machine itself, so that capabilities are dropped.
    is_confined: bool,
    header: &'a Header,
    /// The scenario with the changes so far.
    scenario: Scenario,
    /// Links with segmentation offload that a change has made too slow for it.
    slowed: BTreeSet<String>,
}

impl Run<'_> {
    /// Starts the programs in order, the last one when the others listen. Drives the links until
    /// the last program ends, then ends the others. Returns its exit code.
    fn programs(&mut self, orders: &[Order], hosts: &[hosts::Host]) -> Result<i32, Fault> {
        let Some((last, others)) = orders.split_last() else {
            // Programs of existing namespaces, or devices at network interfaces, use the links.
            while !self.is_ending() {
                self.turn()?;
            }
            return Ok(0);
        };
        for order in others {
            self.start(order, hosts, false)?;
        }
        let since = Instant::now();
        let mut looked = since;
        let is_waiting = |program: &Program| {
            let host = hosts.iter().find(|host| host.name == program.order.host);
            program.code.is_none() && !host.is_some_and(hosts::Host::has_listener)
        };
        while since.elapsed() < SETTLE && !self.is_ending() {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if !self.programs.iter().any(is_waiting) {
                    break;
                }
            }
            if others.is_empty() {
                break;
            }
            self.turn()?;
        }
        self.start(last, hosts, true)?;
        self.driver.count_processor_time();
        if self.is_confined {
            // All namespaces have been entered.
            confinement::keep_capabilities(CapabilitySet::KILL)?;
        }
        let front = self.programs.len() - 1;
        while self.programs[front].code.is_none() && !self.is_ending() {
            self.turn()?;
        }
        self.stop()?;
        self.programs.iter().for_each(|program| program.flush(FLUSH));
        Ok(self.programs[front].code.unwrap_or(128 + Signal::TERM.as_raw()))
    }

    fn start(&mut self, order: &Order, hosts: &[hosts::Host], in_front: bool) -> Result<(), Fault> {
        let program = Program::start(order, hosts, in_front)?;
        self.driver.watch(&program.ended, self.programs.len() as u32 + 1)?;
        self.programs.push(program);
        Ok(())
    }

    /// Returns `true` if the command line has ended the run.
    fn is_ending(&self) -> bool {
        self.is_killed || self.control.is_closed()
    }

    /// Requests the remaining programs to end, then kills them.
    fn stop(&mut self) -> Result<(), Fault> {
        let front = self.programs.len() - 1;
        for signal in [Signal::TERM, Signal::KILL] {
            if self.is_killed && signal == Signal::TERM {
                continue;
            }
            for (index, program) in self.programs.iter().enumerate() {
                program.signal(signal, index == front);
            }
            let since = Instant::now();
            let is_running = |run: &Self| run.programs.iter().any(|one| one.code.is_none());
            while since.elapsed() < GRACE && is_running(self) {
                self.turn()?;
                if self.is_killed && signal == Signal::TERM {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Performs one step of the driver.
    fn turn(&mut self) -> Result<(), Fault> {
        for token in self.driver.turn()? {
            if token == CONTROL {
                self.obey();
                continue;
            }
            reap(&mut self.programs).context("programs")?;
            if let Some(program) = self.programs.get(token as usize - 1) {
                self.driver.forget(&program.ended);
            }
        }
        let now = self.driver.now();
        if self.reporter.next() <= now {
            self.driver.catch_up();
            reap(&mut self.programs).context("programs")?;
        }
        while let Some(line) = self.reporter.poll(now, self.driver.network(), &self.scenario) {
            say(self.status, &line);
        }
        Ok(())
    }

    /// Follows the requests of the command line.
    fn obey(&mut self) {
        for command in self.control.read() {
            match command {
                Command::Kill => self.is_killed = true,
                Command::Interrupt => {
                    if let Some(front) = self.programs.last() {
                        front.signal(Signal::INT, true);
                    }
                }
                Command::Change { id, text, change } => {
                    let base = Path::new(&self.header.base);
                    let line =
                        match self.driver.change(&change, base, &mut self.scenario, self.header) {
                            Ok((at, link)) => json!({
                                "kind": "change", "id": id, "time": at.as_secs_f64(), "text": text,
                                "link": link,
                            }),
                            Err(problem) => {
                                json!({"kind": "refused", "id": id, "message": problem})
                            }
                        };
                    let slow = self.driver.slow_links_with_offload(&self.scenario);
                    self.slowed.extend(slow.map(str::to_owned));
                    say(self.status, &line);
                }
            }
        }
        if self.control.is_closed() {
            self.driver.forget(self.control.pipe());
        }
    }

    /// Reports the result of the run.
    fn report(&mut self, code: i32, overflows: u64) {
        let now = self.driver.now();
        for line in self.reporter.last(now, self.driver.network(), &self.scenario) {
            say(self.status, &line);
        }
        let Watch { network, lateness, arrivals, deliveries, rejected_by_kernel, processor } =
            self.driver.watching();
        let mut metrics = Vec::new();
        network.metrics(&self.scenario, &mut |entity, metric, value| {
            let value = value.value();
            let value = if value.is_finite() { json!(value) } else { Value::Null };
            metrics.push(json!([format!("{entity}.{metric}"), value]));
        });
        let at = |quantile: f64| lateness.value_at_quantile(quantile) as f64 * 1e-9;
        let round_trips = (0..network.len())
            .map(|link| round_trip(&self.scenario, link, network.mtu(link)).as_secs_f64());
        let round_trip = round_trips.fold(f64::INFINITY, f64::min);
        let packets = arrivals.max(1);
        let mut notes = Vec::new();
        if deliveries > 0 && at(0.99) > 0.05 * round_trip {
            notes.push(format!(
                "1 % of the deliveries were more than {:.3} ms late, which exceeds 5 % of the RTT of \
                 {:.3} ms: this machine is overloaded, and the measured throughput is too low",
                at(0.99) * 1e3,
                round_trip * 1e3
            ));
        }
        if overflows > 0 {
            notes.push(format!(
                "{overflows} {} dropped by devices of their hosts: this machine is overloaded and does \
                 not read them in time",
                if overflows == 1 { "packet was" } else { "packets were" }
            ));
        }
        if rejected_by_kernel > 0 {
            notes.push(format!(
                "{rejected_by_kernel} packets were rejected by the kernel of their host"
            ));
        }
        if network.refused() > 0 {
            let refused = network.refused();
            notes.push(format!("{refused} packets were rejected: not IP, or longer than the MTU"));
        }
        for link in &self.slowed {
            notes.push(format!(
                "the rate of link {link} fell below 500 Mbps during the run, but its hosts continued to pass \
                 several packets at a time: use `--no-offload` for single packets"
            ));
        }
        for (option, error) in self.driver.lost() {
            notes.push(format!("{option}: {error}; the file ends there"));
        }
        let programs = self.programs.iter().map(|Program { order, code, .. }| {
            json!({"host": order.host, "argv": order.argv, "code": code})
        });
        let line = json!({
            "kind": "end",
            "code": code,
            "time": network.now().as_secs_f64(),
            "programs": programs.collect::<Vec<_>>(),
            "summary": summary(network, &self.scenario),
            "metrics": metrics,
            "lateness": {
                "deliveries": deliveries,
                "p50_s": at(0.5),
                "p90_s": at(0.9),
                "p99_s": at(0.99),
                "max_s": lateness.max() as f64 * 1e-9,
            },
            "round_trip_s": round_trip,
            "arrivals": arrivals,
            "processor_s": processor.as_secs_f64(),
            "processor_per_packet_s": processor.as_secs_f64() / packets as f64,
            "notes": notes,
        });
        say(self.status, &line);
    }
}
