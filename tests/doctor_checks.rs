//! Every check of `phasor doctor` on made-up machines: a good one, one with a single fault, and one that
//! tells nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use phasor::run::doctor::{Demand, Finding, Probe, Question, Status, examine, is_fit, json, text};
use phasor::run::machine::Tree;
use phasor::shard::peer::Peer;
use phasor::shard::ring::RingError;
use phasor::shard::sources::Sources;
use std::path::Path;
use std::process::Command;

/// A machine with eight cores on two nodes, fit for shards on cores 2 and 3.
const GOOD: [(&str, &str); 38] = [
    ("proc/sys/kernel/osrelease", "6.12.3-rig\n"),
    ("proc/sys/kernel/io_uring_disabled", "0\n"),
    ("proc/self/status", "Name:\tphasor\nSeccomp:\t0\nCpus_allowed_list:\t0-7\n"),
    (
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n\
         Max open files            1024                 1048576              files\n\
         Max locked memory         unlimited            unlimited            bytes\n",
    ),
    ("proc/self/timerslack_ns", "50000\n"),
    ("proc/self/cgroup", "0::/rigs/one\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
    ("sys/fs/cgroup/rigs/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/rigs/one/cpu.max", "max 100000\n"),
    ("proc/meminfo", "MemTotal: 32000000 kB\nMemAvailable: 30000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "1024\t65535\n"),
    ("proc/sys/net/ipv4/tcp_tw_reuse", "1\n"),
    ("proc/net/sockstat", "sockets: used 30\nTCP: inuse 1 orphan 0 tw 17 alloc 1 mem 0\n"),
    ("proc/sys/net/core/somaxconn", "65535\n"),
    ("proc/stat", "cpu  9 9 9 9 9 9 9 9 0 0\ncpu2 100 0 100 9800 0 0 0 1 0 0\ncpu3 0 0 0 1000 0 0 0 0 0 0\n"),
    ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state0/name", "POLL\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state0/latency", "0\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state0/disable", "0\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state1/name", "C1\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state1/latency", "2\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state1/disable", "0\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state2/name", "C6\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state2/latency", "170\n"),
    ("sys/devices/system/cpu/cpu2/cpuidle/state2/disable", "1\n"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state0/name", "POLL\n"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state0/latency", "0\n"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state0/disable", "0\n"),
    ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6\n"),
    ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "3,7\n"),
    ("sys/devices/system/cpu/isolated", "2-3\n"),
    ("sys/devices/system/cpu/nohz_full", "2-3\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    ("sys/devices/system/node/node1/cpulist", "4-7\n"),
    ("sys/devices/system/node/online", "0-1\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet\n"),
];

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A machine with all files of the good one but for `changes`; an empty text takes the file away.
fn machine(changes: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in GOOD {
        write(root.path(), path, text);
    }
    for (path, text) in changes {
        if text.is_empty() {
            std::fs::remove_file(root.path().join(path)).unwrap();
        } else {
            write(root.path(), path, text);
        }
    }
    root
}

fn well() -> Probe {
    Probe { ring: Ok(()), slack: Ok(()) }
}

fn demand(peak: u64, address: &str, sources: &[&str]) -> Demand {
    let sources = Sources::new(sources.iter().map(|text| text.parse().unwrap()).collect());
    Demand { peak: Some(peak), addresses: vec![Peer::Internet(address.parse().unwrap())], sources }
}

fn question(root: &Path, demand: Option<Demand>) -> Question {
    Question { tree: Tree::at(root), cpus: vec![2, 3], demand }
}

fn of(findings: &[Finding], name: &str) -> Finding {
    findings.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no check {name}")).clone()
}

/// The finding called `name` on a machine with `changes`.
fn found(changes: &[(&str, &str)], name: &str) -> Finding {
    let root = machine(changes);
    of(&examine(&question(root.path(), None), &well()), name)
}

#[test]
fn a_good_machine_has_nothing_to_set() {
    let root = machine(&[]);
    let asked = question(root.path(), Some(demand(20_000, "127.0.0.1:8000", &[])));
    let findings = examine(&asked, &well());
    for finding in &findings {
        assert_eq!(finding.status, Status::Ok, "{finding:?}");
        assert_eq!(finding.cure, None, "{finding:?}");
    }
    assert!(is_fit(&findings));
    assert_eq!(findings.len(), 21);
}

#[test]
fn a_machine_that_tells_nothing_passes_and_fails_nothing() {
    let root = tempfile::tempdir().unwrap();
    let findings = examine(&question(root.path(), Some(demand(60_000, "127.0.0.1:8000", &[]))), &well());
    for finding in &findings {
        // These two were really tried.
        let tried = ["io_uring", "timer slack"].contains(&finding.name);
        let expected = if tried { Status::Ok } else { Status::Unknown };
        assert_eq!(finding.status, expected, "{finding:?}");
    }
}

#[test]
fn one_fault_shows_in_one_check_with_its_cure() {
    const CLOCK: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    const LIMITS: &str = "proc/self/limits";
    const STATUS: &str = "proc/self/status";
    let cases: [(&str, &str, &str, Status, &str, &str); 25] = [
        ("proc/sys/kernel/osrelease", "5.15.0-91", "kernel", Status::Bad, "5.15.0-91", "newer kernel"),
        ("proc/sys/kernel/osrelease", "6.0.9", "kernel", Status::Bad, "6.0.9", "newer kernel"),
        (
            LIMITS,
            "Max locked memory  65536 65536 bytes\n",
            "locked memory",
            Status::Bad,
            "64 KiB",
            "ulimit -l",
        ),
        (LIMITS, "Max open files  1024 4096 files\n", "open files", Status::Warn, "hard 4096", "ulimit -Hn"),
        ("proc/meminfo", "MemAvailable: 400000 kB\n", "memory", Status::Bad, "390 MiB", "memory"),
        ("proc/meminfo", "MemAvailable: 900000 kB\n", "memory", Status::Warn, "878 MiB", "memory"),
        (
            "proc/meminfo",
            "SwapTotal: 2048 kB\nSwapFree: 1024 kB\n",
            "swap",
            Status::Warn,
            "1 MiB in use",
            "swapoff",
        ),
        (
            "proc/sys/net/ipv4/ip_local_port_range",
            "50000 50999",
            "ports",
            Status::Warn,
            "1000 (",
            "ip_local_port_range",
        ),
        (
            "proc/sys/net/ipv4/tcp_tw_reuse",
            "0",
            "time wait",
            Status::Warn,
            "17 sockets",
            "net.ipv4.tcp_tw_reuse=1",
        ),
        ("proc/sys/net/core/somaxconn", "128", "somaxconn", Status::Warn, "128", "net.core.somaxconn=4096"),
        (STATUS, "Cpus_allowed_list:\t0-2\n", "cpuset", Status::Bad, "0-2", "allow cores 3"),
        (STATUS, "Cpus_allowed_list:\t2-3\n", "spare core", Status::Warn, "all cores", "--shards"),
        (
            "sys/fs/cgroup/rigs/cpu.max",
            "150000 100000",
            "cpu quota",
            Status::Bad,
            "1.50 processors",
            "--cpus",
        ),
        (
            "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
            "powersave",
            "governor",
            Status::Warn,
            "powersave on cores 3",
            "cpupower",
        ),
        (
            "sys/devices/system/cpu/cpu2/cpuidle/state2/disable",
            "0",
            "idle states",
            Status::Warn,
            "C6 wakes up in 170 us",
            "idle-set -D 50",
        ),
        (
            "sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
            "2-3",
            "smt",
            Status::Warn,
            "shards on 2",
            "smt/control",
        ),
        (
            "sys/devices/system/cpu/isolated",
            "2",
            "isolated cores",
            Status::Warn,
            "isolated 2",
            "isolcpus=2-3",
        ),
        (
            "sys/devices/system/cpu/nohz_full",
            "(null)",
            "isolated cores",
            Status::Warn,
            "without tick none",
            "nohz_full=2-3",
        ),
        ("proc/stat", "cpu2 50 0 0 930 0 0 0 20 0 0\n", "stolen time", Status::Warn, "2.00 %", "dedicated"),
        ("proc/stat", "cpu3 50 0 0 850 0 0 0 100 0 0\n", "stolen time", Status::Bad, "10.00 %", "dedicated"),
        (CLOCK, "hpet", "clocksource", Status::Bad, "hpet", "echo tsc"),
        (CLOCK, "kvm-clock", "clocksource", Status::Warn, "kvm-clock", "echo tsc"),
        ("proc/self/cgroup", "4:cpu,cpuacct:/box\n", "cpu quota", Status::Ok, "none", ""),
        (STATUS, "Seccomp:\t2\n", "seccomp", Status::Ok, "mode 2, io_uring passes", ""),
        ("proc/sys/kernel/osrelease", "unreleased", "kernel", Status::Unknown, "not told", ""),
    ];
    for (path, content, name, status, words, cure) in cases {
        let finding = found(&[(path, content)], name);
        assert_eq!(finding.status, status, "{path} {content}: {finding:?}");
        assert!(finding.found.contains(words), "{path} {content}: {finding:?}");
        assert!(finding.cure.unwrap_or_default().contains(cure), "{path} {content}");
    }
}

#[test]
fn cores_of_two_nodes_are_named() {
    let changes = [
        ("sys/devices/system/node/node0/cpulist", "0-2\n"),
        ("sys/devices/system/node/node1/cpulist", "3-7\n"),
    ];
    let finding = found(&changes, "numa");
    assert_eq!((finding.status, finding.found.as_str()), (Status::Warn, "node0, node1 of 2 node(s)"));
}

#[test]
fn a_bound_held_on_wake_up_latency_counts() {
    let changes = [("sys/devices/system/cpu/cpu2/cpuidle/state2/disable", "0\n")];
    let root = machine(&changes);
    let path = root.path().join("dev/cpu_dma_latency");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, 10_i32.to_ne_bytes()).unwrap();
    let of_states = || of(&examine(&question(root.path(), None), &well()), "idle states");
    assert_eq!(of_states().status, Status::Ok);
    // What the kernel says while nobody holds it.
    std::fs::write(&path, 2_000_000_000_i32.to_ne_bytes()).unwrap();
    assert_eq!(of_states().status, Status::Warn);
}

#[test]
fn the_quota_of_an_older_cgroup_is_read_too() {
    let changes = [
        ("proc/self/cgroup", "4:cpu,cpuacct:/box\n"),
        ("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ];
    let finding = found(&changes, "cpu quota");
    assert_eq!((finding.status, finding.found.as_str()), (Status::Bad, "0.50 processors"));
}

#[test]
fn a_config_is_held_against_ports_files_memory_and_backlog() {
    let changes = [
        ("proc/sys/net/ipv4/ip_local_port_range", "32768 60999\n"),
        ("proc/self/limits", "Max open files  1024 20000 files\n"),
        ("proc/sys/net/core/somaxconn", "4096\n"),
        ("proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
    ];
    let root = machine(&changes);
    let examine = |demand| examine(&question(root.path(), Some(demand)), &well());
    let small = examine(demand(4_000, "127.0.0.1:8000", &[]));
    assert!(small.iter().all(|finding| finding.status != Status::Bad), "{small:?}");
    assert_eq!(of(&small, "time wait").status, Status::Ok);

    let large = examine(demand(60_000, "127.0.0.1:8000", &[]));
    let ports = of(&large, "ports");
    assert_eq!(ports.status, Status::Bad);
    assert!(ports.cure.unwrap().contains("3 addresses with --source-ip"));
    let files = of(&large, "open files");
    assert_eq!(files.status, Status::Bad);
    assert!(files.wanted.contains("60000 requests in flight"), "{files:?}");
    assert_eq!(of(&large, "somaxconn").status, Status::Warn);
    assert!(!is_fit(&large));

    let spread = examine(demand(60_000, "127.0.0.1:8000", &["127.0.0.2-127.0.0.4"]));
    let ports = of(&spread, "ports");
    assert_eq!(ports.status, Status::Ok, "{ports:?}");
    assert!(ports.found.contains("3 source addresses"), "{ports:?}");

    let remote = examine(demand(60_000, "192.0.2.7:8000", &[]));
    assert_eq!(of(&remote, "somaxconn").status, Status::Ok);
    assert_eq!(of(&remote, "time wait").status, Status::Warn);
}

#[test]
fn a_ring_that_cannot_be_made_is_bad_and_says_why() {
    let root = machine(&[("proc/self/status", "Seccomp:\t2\nCpus_allowed_list:\t0-7\n")]);
    let probe = Probe { ring: Err(RingError::Forbidden), slack: Err(std::io::Error::other("no")) };
    let findings = examine(&question(root.path(), None), &probe);
    assert_eq!(of(&findings, "io_uring").status, Status::Bad);
    assert!(of(&findings, "io_uring").cure.unwrap().contains("io_uring_disabled to 0"));
    assert_eq!(of(&findings, "seccomp").status, Status::Bad);
    assert_eq!(of(&findings, "timer slack").status, Status::Warn);
    let shown = text(&findings);
    assert!(shown.contains("not fit: 2 bad, 1 to improve, 0 not known"), "{shown}");
    assert!(shown.contains("set it by: io_uring is forbidden here"), "{shown}");
    let value = json(&findings);
    assert_eq!(value["fit"], false);
    assert_eq!(value["checks"][1]["status"], "bad");
}

#[test]
fn more_shards_than_cores_share_them() {
    let root = machine(&[]);
    let asked = Question { tree: Tree::at(root.path()), cpus: vec![2, 3, 2], demand: None };
    let finding = of(&examine(&asked, &well()), "spare core");
    assert_eq!(finding.status, Status::Warn);
    assert!(finding.found.contains("3 shards share cores 2-3"), "{finding:?}");
}

fn doctor(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_phasor")).arg("doctor").args(arguments).output().unwrap()
}

#[test]
fn the_doctor_examines_this_machine_and_its_exit_code_agrees_with_its_json() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/poisson.yaml");
    for arguments in [&["--json"][..], &["--json", "--shards", "1", "--config", config]] {
        let output = doctor(arguments);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = value["checks"].as_array().unwrap();
        assert_eq!(checks.len(), 21);
        let bad = checks.iter().filter(|check| check["status"] == "bad").count();
        assert_eq!(value["fit"], bad == 0);
        assert_eq!(output.status.code(), Some(i32::from(bad > 0)), "{value:#}");
        // Every machine that this program runs on says which kernel it has.
        assert_ne!(checks[0]["status"], "unknown");
        for check in checks {
            let cured = check.get("cure").is_some();
            assert_eq!(cured, check["status"] == "bad" || check["status"] == "warn", "{check}");
        }
    }
}

#[test]
fn cores_that_may_not_be_used_are_a_finding_and_a_broken_config_is_an_error() {
    let output = doctor(&["--cpus", "8000"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("cores 8000 may be used") && text.contains("not fit"), "{text}");
    let output = doctor(&["--config", "/nonexistent/config.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not exist"));
}
