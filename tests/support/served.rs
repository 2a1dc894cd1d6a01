//! The built-in server in a process of its own.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it cannot go on without; a pause is measured"
)]
#![allow(dead_code, reason = "each program uses its own part")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The built-in server in a process of its own.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        Self::on("127.0.0.1:0", arguments)
    }

    pub(crate) fn on(address: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_phasor"))
            .args(["mock", "--listen", address])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .find_map(|line| {
                let line = line.unwrap();
                Some(line.split_once("Serving on ")?.1.split_once(' ')?.0.to_owned())
            })
            .unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    pub(crate) fn port(&self) -> &str {
        self.url.rsplit_once(':').unwrap().1
    }

    /// Stops the server where it is, for so long, and gives how long it really stood still at least and at
    /// most.
    pub(crate) fn pause(&self, span: Duration) -> (Duration, Duration) {
        let signal = |name: &str| {
            let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
            assert!(sent.success());
        };
        let before = Instant::now();
        signal("-STOP");
        let stopped = Instant::now();
        std::thread::sleep(span);
        let still = stopped.elapsed();
        signal("-CONT");
        (still, before.elapsed())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
