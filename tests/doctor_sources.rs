//! `--source-ip`, ports and the client's own errors, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use program::profile_in;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};

/// Every connection is the load's own: no metrics are read.
fn yaml(url: &str, phase: &str) -> String {
    format!(
        "benchmark:\n  model: m\n  gpu_telemetry: {{enabled: false}}\n  server_metrics: {{enabled: false}}\n  endpoint: {{url: '{url}', type: chat, streaming: true}}\n  dataset: {{type: synthetic, entries: 4, prompts: {{isl: 8, osl: 4}}}}\n  phases:\n    - {phase}\n"
    )
}

fn report(directory: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(directory.join("out/client_report.json")).unwrap()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Answers one request on each of `count` connections and tells where they came from.
fn serve(listener: &TcpListener, count: usize) -> BTreeSet<IpAddr> {
    let body = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n";
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut peers = BTreeSet::new();
    for _ in 0..count {
        let (mut stream, peer) = listener.accept().unwrap();
        peers.insert(peer.ip());
        let mut buffer = [0; 4_096];
        assert!(stream.read(&mut buffer).unwrap() > 0);
        stream.write_all(answer.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // Whatever is left of the request is read, so that the end is no reset.
        while stream.read(&mut buffer).unwrap() > 0 {}
    }
    peers
}

#[test]
fn connections_come_from_the_addresses_given_in_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let server = std::thread::spawn(move || serve(&listener, 6));
    let output = profile_in(
        directory.path(),
        &yaml(&url, "{name: profiling, type: concurrency, concurrency: 1, requests: 6}"),
        &["--source-ip", "127.0.0.5-127.0.0.6", "--source-ip", "127.0.0.9"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let expected = ["127.0.0.5", "127.0.0.6", "127.0.0.9"].map(|text| text.parse().unwrap());
    assert_eq!(server.join().unwrap(), BTreeSet::from(expected));
    let report = report(directory.path());
    assert_eq!(report["total"]["ok"], 6);
    assert_eq!(report["total"]["client_errors"], serde_json::json!({}));
}

#[test]
fn bad_source_addresses_are_refused_before_the_run() {
    let phase =
        yaml("http://127.0.0.1:9", "{name: profiling, type: concurrency, concurrency: 1, requests: 1}");
    for (address, expected) in [
        ("localhost", "is no IP address"),
        ("127.0.0.9-127.0.0.2", "runs backwards"),
        ("127.0.0.0/33", "prefix length"),
        ("0.0.0.0", "no connection can come from"),
        ("192.0.2.1", "ip address add"),
        ("::1", "IPv4 addresses"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let output = profile_in(directory.path(), &phase, &["--source-ip", address]);
        assert_eq!(output.status.code(), Some(1), "{address}");
        assert!(stderr(&output).contains(expected), "{address}: {}", stderr(&output));
        assert!(!directory.path().join("out/client_report.json").exists(), "{address}");
    }
}

/// Four ports for eight connections, in a network of its own.
#[test]
fn a_port_that_is_not_there_is_the_clients_own_error_by_name() {
    let run = |range: &str, directory: &Path| {
        let program = env!("CARGO_BIN_EXE_phasor");
        let script = format!(
            "ip link set lo up && echo '{range}' > /proc/sys/net/ipv4/ip_local_port_range && exec {program} \
             profile --config config.yaml --artifact-dir out --ui none --mock --mock-ttft 20ms --shards 1"
        );
        std::fs::write(
            directory.join("config.yaml"),
            yaml("http://127.0.0.1:9", "{name: profiling, type: concurrency, concurrency: 8, requests: 40}"),
        )
        .unwrap();
        Command::new("unshare").args(["-n", "sh", "-c", &script]).current_dir(directory).output()
    };
    let directory = tempfile::tempdir().unwrap();
    let Some(output) = run("50000 50003", directory.path()).ok() else { return };
    let text = stderr(&output);
    if !directory.path().join("out/client_report.json").exists() {
        // A network of one's own needs privileges; without them there is nothing to provoke.
        assert!(text.contains("unshare") || text.contains("ip") || text.contains("proc"), "{text}");
        return;
    }
    assert!(text.contains("warning: the plan has up to 8 requests in flight"), "{text}");
    let report = report(directory.path());
    let starved = report["total"]["client_errors"]["EADDRNOTAVAIL"].as_u64();
    assert_eq!(starved, report["total"]["failed"].as_u64(), "{report}");
    assert!(starved > Some(0), "{report}");
}
