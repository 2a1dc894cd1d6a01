//! The kernel: its version, io_uring, seccomp, its clock and its timers.

use crate::run::doctor::Finding;
use crate::run::doctor::Status;
use crate::run::machine::Tree;
use crate::shard::ring::RingError;

/// The first kernel that has all that the ring uses.
const OLDEST: (u32, u32) = (6, 1);

pub(super) fn version(tree: &Tree) -> Finding {
    let name = "kernel";
    let wanted = "Linux 6.1 or newer";
    let Some(release) = tree.text("proc/sys/kernel/osrelease") else {
        return Finding::unknown(name, "/proc/sys/kernel/osrelease", wanted);
    };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Finding::unknown(name, &format!("`{release}` is no release"), wanted);
    };
    let status = if (major, minor) >= OLDEST { Status::Ok } else { Status::Bad };
    Finding::new(name, status, release, wanted, "install a newer kernel and reboot")
}

pub(super) fn io_uring(tree: &Tree, ring: &Result<(), RingError>) -> Finding {
    let switch = match tree.text("proc/sys/kernel/io_uring_disabled") {
        Some(value) => format!("kernel.io_uring_disabled = {value}"),
        None => "kernel.io_uring_disabled is not told".to_owned(),
    };
    let wanted = "a ring can be made";
    match ring {
        Ok(()) => Finding::new("io_uring", Status::Ok, format!("a ring was made; {switch}"), wanted, ""),
        // The message of the error names the cure.
        Err(error) => {
            let found = format!("no ring could be made; {switch}");
            Finding::new("io_uring", Status::Bad, found, wanted, error.to_string())
        }
    }
}

pub(super) fn seccomp(tree: &Tree, ring: &Result<(), RingError>) -> Finding {
    let name = "seccomp";
    let wanted = "no filter, or one that lets io_uring pass";
    let Some(mode) = tree.value("proc/self/status", "Seccomp") else {
        return Finding::unknown(name, "Seccomp in /proc/self/status", wanted);
    };
    let (status, found) = match (mode.as_str(), ring.is_ok()) {
        ("0", _) => (Status::Ok, "no filter".to_owned()),
        (_, true) => (Status::Ok, format!("mode {mode}, io_uring passes")),
        (_, false) => (Status::Bad, format!("mode {mode}, and no ring could be made")),
    };
    let cure = "docker run --security-opt seccomp=unconfined, or a profile that allows io_uring_setup, \
                io_uring_enter and io_uring_register";
    Finding::new(name, status, found, wanted, cure)
}

pub(super) fn clock_source(tree: &Tree) -> Finding {
    const DIRECTORY: &str = "sys/devices/system/clocksource/clocksource0";
    let name = "clocksource";
    let wanted = "tsc (arch_sys_counter on ARM), which is read without a system call";
    let Some(source) = tree.text(&format!("{DIRECTORY}/current_clocksource")) else {
        return Finding::unknown(name, &format!("/{DIRECTORY}/current_clocksource"), wanted);
    };
    let status = match source.as_str() {
        "arch_sys_counter" | "tsc" => Status::Ok,
        // Every stamp would cost a system call and a slow device.
        "acpi_pm" | "hpet" | "jiffies" | "refined-jiffies" => Status::Bad,
        // Those of hypervisors: read without a call on most of them, yet slower.
        _ => Status::Warn,
    };
    let available = tree.text(&format!("{DIRECTORY}/available_clocksource")).unwrap_or_default();
    let cure = if available.split_whitespace().any(|one| one == "tsc") {
        format!("echo tsc > /{DIRECTORY}/current_clocksource")
    } else {
        "boot with tsc=reliable if the processor's counter is invariant; a virtual machine needs a host that \
         offers it"
            .to_owned()
    };
    Finding::new(name, status, source, wanted, cure)
}

pub(super) fn timer_slack(tree: &Tree, slack: &Result<(), std::io::Error>) -> Finding {
    let wanted = "shard threads may set 1 ns";
    let process = match tree.number::<u64>("proc/self/timerslack_ns") {
        Some(slack) => format!("{slack} ns in this process"),
        None => "that of this process is not told".to_owned(),
    };
    let (status, found) = match slack {
        Ok(()) => (Status::Ok, format!("a thread could set 1 ns; {process}")),
        Err(error) => (Status::Warn, format!("a thread could not set it: {error}; {process}")),
    };
    let cure = "allow prctl(PR_SET_TIMERSLACK) in the container's seccomp profile";
    Finding::new("timer slack", status, found, wanted, cure)
}
