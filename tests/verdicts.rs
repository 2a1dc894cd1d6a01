//! Phases that are the client's fault, and one that is not, by their right names: the whole program against
//! the built-in server in a process of its own.
//!
//! What each limit makes of a phase is tested where they stand; here each of them is brought about.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;
#[path = "support/served.rs"]
mod served;

use program::{Run, assert_ok, head, number};
use serde_json::Value;
use served::Served;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const QUICK: [&str; 4] = ["--ttft", "1ms", "--itl", "100us"];

/// The one phase of a run, and the names of the limits that it crossed.
fn judged(run: &Run) -> (Value, Vec<String>) {
    let phase = run.json("client_report.json")["phases"][0].clone();
    let reasons = phase["reasons"].as_array().unwrap();
    let names = reasons.iter().map(|reason| reason["what"].as_str().unwrap().to_owned()).collect();
    (phase, names)
}

fn run_of(server: &Served, phase: &str) -> Run {
    Run::new(&format!("{}    - {{name: profiling, {phase}}}\n", head(&server.url)))
}

#[test]
fn a_rate_that_no_client_can_follow_is_the_clients_limit() {
    let server = Served::new(&QUICK);
    let run = run_of(&server, "type: constant, rate: 5000000, duration: 0.5, concurrency: 200");
    run.succeed(&["--shards", "1", "--at-capacity", "queue"]);
    let (phase, reasons) = judged(&run);
    assert_eq!(phase["verdict"], "client_limited", "{phase}");
    assert!(
        reasons.iter().any(|reason| reason == "dropped_late_share" || reason.starts_with("lateness"))
            || reasons.iter().any(|reason| reason == "busy_share"),
        "{reasons:?}"
    );
}

#[test]
fn neighbours_on_the_core_are_the_clients_limit() {
    let server = Served::new(&QUICK);
    let run = run_of(&server, "type: concurrency, concurrency: 64, duration: 1.5");
    // The program and the neighbours share whatever core this thread may use first.
    let core = first_core();
    let over = Arc::new(AtomicBool::new(false));
    let neighbours: Vec<_> = (0..3)
        .map(|_| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                assert!(core_affinity::set_for_current(core));
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let output = run.run(&["--cpus", &core.id.to_string()]);
    over.store(true, Ordering::Relaxed);
    for neighbour in neighbours {
        neighbour.join().unwrap();
    }
    assert_ok(&output);
    let (phase, reasons) = judged(&run);
    assert_eq!(phase["verdict"], "client_limited", "{phase}");
    assert!(reasons.iter().any(|reason| reason == "run_delay_share"), "{reasons:?}");
}

fn first_core() -> core_affinity::CoreId {
    core_affinity::get_core_ids().unwrap()[0]
}

/// A client without descriptors fails requests that the server never saw. (A closed loop is refused before
/// it starts: what it needs is known.)
#[test]
fn requests_without_a_descriptor_are_the_clients_limit() {
    let server = Served::new(&["--ttft", "500ms"]);
    let run = run_of(&server, "type: constant, rate: 2000, duration: 1");
    let command = run.command(&["--shards", "1"]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 200; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args());
    assert_ok(&limited.current_dir(run.directory.path()).output().unwrap());
    let (phase, reasons) = judged(&run);
    assert_eq!(phase["verdict"], "client_limited", "{phase}");
    assert!(reasons.iter().any(|reason| reason == "client_error_share"), "{reasons:?}");
    assert!(number(&phase, "/client_errors/EMFILE") > 1_000, "{phase}");
}

/// The server stands still for 1.4 s while an open loop goes on: response latencies tell it, counted from the
/// planned times, and nothing accuses the client.
#[test]
fn a_server_that_stands_still_is_not_the_clients_limit() {
    let server = Served::new(&["--ttft", "1ms", "--itl", "100us"]);
    let run = run_of(&server, "type: constant, rate: 200, duration: 3");
    let mut child = run.command(&["--shards", "1"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_200));
    let (still, _) = server.pause(Duration::from_millis(1_400));
    assert!(child.wait().unwrap().success());
    let (phase, reasons) = judged(&run);
    // A busy machine may accuse itself; the pause accuses nobody.
    for reason in &reasons {
        assert!(!matches!(reason.as_str(), "dropped_late_share" | "client_error_share"), "{phase}");
    }
    assert!(
        phase["verdict"] != "client_limited" || reasons.iter().any(|reason| reason == "run_delay_share"),
        "{phase}"
    );
    assert_eq!(number(&phase, "/sent"), 600, "every arrival was sent at its time");
    let longest = Duration::from_nanos(number(&phase, "/response_latency_ns/request_latency/max"));
    assert!(longest >= still.mul_f64(0.95), "{longest:?} of {still:?}");
}
