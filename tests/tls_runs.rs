//! The whole program over TLS: against the built-in server, against servers that are not as they should be,
//! and through nginx where it is installed.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on has failed")]

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/served.rs"]
mod served;

use certificates::{Authority, Clients, EXPIRED, GOOD, NOT_YET, Signed, server};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};
use serde_json::Value;
use served::Served;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A directory for one test.
struct Run {
    directory: tempfile::TempDir,
}

impl Run {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs `phases` against `url`.
    fn profile(&self, url: &str, phases: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        self.write(
            "config.yaml",
            &format!(
                "benchmark:\n  model: m\n  endpoint: {{url: '{url}', type: chat, streaming: true}}\n  \
                 dataset: {{type: synthetic, entries: 20, prompts: {{isl: 16, osl: 8}}}}\n  phases:\n{phases}"
            ),
        );
        Command::new(env!("CARGO_BIN_EXE_phasor"))
            .current_dir(self.directory.path())
            .args(["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none"])
            .args(arguments)
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    fn out(&self, name: &str) -> PathBuf {
        self.directory.path().join("out").join(name)
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.out("client_report.json")).unwrap()).unwrap()
    }

    /// The types of the errors of the run.
    fn error_types(&self) -> Vec<String> {
        let root: Value =
            serde_json::from_slice(&std::fs::read(self.out("profile_export_aiperf.json")).unwrap()).unwrap();
        let errors = root["error_summary"].as_array().unwrap();
        errors.iter().map(|error| error["error_details"]["type"].as_str().unwrap().to_owned()).collect()
    }
}

const SMALL: &str = "    - {name: profiling, type: concurrency, concurrency: 2, requests: 6}\n";

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

fn assert_ok(output: &Output) {
    assert!(output.status.success(), "{}\n{}", output.status, error_text(output));
}

fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The phases of the multi-phase example, shortened.
fn multi_phase() -> String {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/multi-phase.yaml");
    let text = std::fs::read_to_string(example).unwrap();
    let begin = text.find("    - name: warmup").unwrap();
    let end = text.find("  artifacts:").unwrap();
    text[begin..end]
        .replace("duration: 2s", "duration: 0.3")
        .replace("duration: 3s", "duration: 0.4")
        .replace("duration: 4s", "duration: 0.4")
}

/// What must hold of the multi-phase example over TLS.
fn check_multi_phase(run: &Run) {
    let report = run.report();
    let lines = std::fs::read_to_string(run.out("profile_export.jsonl")).unwrap().lines().count() as u64;
    let mut recorded = 0;
    for phase in report["phases"].as_array().unwrap() {
        let count = |name: &str| number(phase, &format!("/{name}"));
        assert_eq!(count("sent"), count("ok") + count("failed") + count("cancelled") + count("abandoned"));
        assert_eq!((count("failed"), count("abandoned")), (0, 0), "{phase}");
        assert!(count("ok") > 0, "{phase}");
        recorded += count("ok") + count("cancelled");
    }
    assert_eq!(recorded, lines);
    let cancelled = number(&report, "/phases/2/cancelled") as f64;
    let share = cancelled / number(&report, "/phases/2/sent") as f64;
    assert!((0.3..0.7).contains(&share), "half of the storm is cancelled, here {share}");
    // A cancelled request costs its connection, so handshakes follow the cancellations.
    let handshakes = number(&report, "/total/tls/handshakes");
    assert!(handshakes >= number(&report, "/total/cancelled"), "{}", report["total"]["tls"]);
    assert!(number(&report, "/total/tls/resumed") > 0, "{}", report["total"]["tls"]);
    assert!(number(&report, "/total/tls/handshake_ns/p50") > 0);
    assert_eq!(number(&report, "/total/tls/handshake_ns/count"), handshakes);
    assert!(report.get("warnings").is_none());
}

#[test]
fn the_multi_phase_example_runs_over_tls_against_the_built_in_server() {
    let run = Run::new();
    let output = run.profile(
        "http://127.0.0.1:1",
        &multi_phase(),
        &["--mock", "--mock-tls", "--mock-ttft", "2ms", "--mock-log", "arrivals.log"],
        &[],
    );
    assert_ok(&output);
    check_multi_phase(&run);
    let log = std::fs::read_to_string(run.directory.path().join("arrivals.log")).unwrap();
    let seen: Vec<&str> = log.lines().skip(1).filter_map(|line| line.split('\t').nth(5)).collect();
    let once: HashSet<&str> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len(), "the server saw a request twice");
    let records = std::fs::read_to_string(run.out("profile_export.jsonl")).unwrap();
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut known = HashSet::new();
    for record in &records {
        let metadata = &record["metadata"];
        let id = metadata["x_request_id"].as_str().unwrap();
        known.insert(id);
        // One that is cancelled as soon as it is written may leave while the server's session tickets are on
        // their way: they find a closed socket, and what the server has not read by then is lost.
        let seen_or_cancelled = once.contains(id) || metadata["was_cancelled"] == true;
        assert!(seen_or_cancelled, "the server did not see {record}");
    }
    assert!(once.iter().all(|id| known.contains(id)), "the server saw what the client does not count");
}

#[test]
fn a_server_is_trusted_by_its_file_not_without_and_anybody_when_nothing_is_verified() {
    let run = Run::new();
    let authority = run.directory.path().join("authority.pem");
    let authority = authority.to_str().unwrap();
    let server = Served::new(&["--tls", "--tls-cert-out", authority]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    assert_ok(&run.profile(&server.url, SMALL, &["--ca-file", authority], &[]));
    let report = run.report();
    assert_eq!(number(&report, "/total/ok"), 6);
    assert_eq!(number(&report, "/total/tls/handshakes"), 2, "connections are kept");

    let other = run.write("other.pem", &Authority::new("other").pem);
    let run = Run::new();
    let output = run.profile(&server.url, SMALL, &["--ca-file", &other], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error_text(&output).contains("--ca-file"), "{}", error_text(&output));
    assert!(!run.out("inputs.json").exists(), "nothing is written before the server is trusted");

    let output = run.profile(&server.url, SMALL, &[], &[("AIPERF_HTTP_SSL_VERIFY", "false")]);
    assert_ok(&output);
    let warning = "AIPERF_HTTP_SSL_VERIFY is off";
    assert!(error_text(&output).contains(warning), "{}", error_text(&output));
    assert!(run.report()["warnings"][0].as_str().unwrap().contains(warning));
    assert_eq!(number(&run.report(), "/total/ok"), 6);
}

/// Serves TLS on a port of this thread's own until the process ends: a fixed reply to every request.
fn serve(config: ServerConfig) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, stream) = (Arc::clone(&config), stream.unwrap());
            std::thread::spawn(move || answer(&config, stream));
        }
    });
    port
}

const REPLY: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"message\":{\"content\":\"hi\"}}]}";

/// Answers until the client leaves; a client that the server minds is told so and left.
fn answer(config: &Arc<ServerConfig>, stream: TcpStream) {
    let session = ServerConnection::new(Arc::clone(config)).unwrap();
    let mut stream = rustls::StreamOwned::new(session, stream);
    let mut request = Vec::new();
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        request.extend_from_slice(&bytes[..count]);
        // Requests of these tests end with their JSON.
        if request.ends_with(b"}") {
            request.clear();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                REPLY.len()
            );
            if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(REPLY.as_bytes())).is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_certificate_that_is_not_good_is_said_before_the_first_request() {
    let authority = Authority::new("authority");
    let cases: [(&[&str], (i32, i32), &str); 3] = [
        (&NAMES, EXPIRED, "has expired"),
        (&NAMES, NOT_YET, "is not valid yet"),
        (&["elsewhere.example"], GOOD, "is not for this host"),
    ];
    for (names, years, said) in cases {
        let run = Run::new();
        let root = run.write("authority.pem", &authority.pem);
        let port = serve(server(&authority.sign(names, years), &Clients::Anybody, &[&TLS12, &TLS13]));
        let url = format!("https://127.0.0.1:{port}");
        let output = run.profile(&url, SMALL, &["--ca-file", &root], &[]);
        let text = error_text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(said) && text.contains(&url), "{text}");
        assert!(!run.out("inputs.json").exists(), "nothing is written");
    }
}

#[test]
fn tls_on_a_plain_port_and_a_plain_request_on_a_tls_port_are_named() {
    let plain = Served::new(&[]);
    let run = Run::new();
    let url = plain.url.replace("http://", "https://");
    let output = run.profile(&url, SMALL, &[], &[("AIPERF_HTTP_SSL_VERIFY", "false")]);
    let text = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("does not speak TLS on this port"), "{text}");
    assert!(!run.out("inputs.json").exists());

    let secure = Served::new(&["--tls"]);
    let output = run.profile(&secure.url.replace("https://", "http://"), SMALL, &[], &[]);
    assert_eq!(output.status.code(), Some(1));
    let summary = std::fs::read_to_string(run.out("profile_export_aiperf.json")).unwrap();
    assert!(summary.contains("the server speaks TLS on this port"), "{summary}");
}

#[test]
fn a_reply_that_is_cut_is_told_apart_from_one_that_is_short() {
    for (arguments, kind) in [
        (&["--truncate", "100", "--tls"][..], "TlsTruncatedError"),
        (&["--truncate", "100"], "ClientPayloadError"),
    ] {
        let server = Served::new(arguments);
        let run = Run::new();
        run.profile(&server.url, SMALL, &[], &[("AIPERF_HTTP_SSL_VERIFY", "0")]);
        assert_eq!(run.error_types(), [kind]);
        assert_eq!(number(&run.report(), "/total/failed"), 6);
    }
}

#[test]
fn a_server_that_asks_who_the_client_is_is_shown_its_certificate() {
    let (authority, clients) = (Authority::new("authority"), Authority::new("clients"));
    let own = clients.sign(&["client"], GOOD);
    let signed = authority.sign(&NAMES, GOOD);
    for version in [&TLS12, &TLS13] {
        let port = serve(server(&signed, &Clients::SignedBy(&clients), &[version]));
        let url = format!("https://localhost:{port}");
        let run = Run::new();
        let root = run.write("authority.pem", &authority.pem);
        let (cert, key) = (run.write("client.pem", &own.chain), run.write("client.key", &own.key));
        let trust = ["--ca-file", root.as_str()];
        let identity = ["--client-cert", cert.as_str(), "--client-key", key.as_str()];
        let output = run.profile(&url, SMALL, &trust, &[]);
        let text = error_text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--client-cert"), "{text}");
        assert!(!run.out("inputs.json").exists());
        assert_ok(&run.profile(
            &url,
            SMALL,
            &[trust, identity[..2].try_into().unwrap(), identity[2..].try_into().unwrap()].concat(),
            &[],
        ));
        assert_eq!(number(&run.report(), "/total/ok"), 6);
    }
}

#[test]
fn files_that_tls_cannot_use_are_named_with_their_flag() {
    let authority = Authority::new("authority");
    let (one, two) = (authority.sign(&["one"], GOOD), authority.sign(&["two"], GOOD));
    let run = Run::new();
    let root = run.write("authority.pem", &authority.pem);
    let (cert, key) = (run.write("one.pem", &one.chain), run.write("two.key", &two.key));
    let nothing = run.write("nothing.pem", "nothing\n");
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--ca-file", "absent.pem"], &["--ca-file", "absent.pem", "cannot read"]),
        (&["--ca-file", &nothing], &["--ca-file", "nothing.pem", "holds no certificate"]),
        (
            &["--ca-file", &root, "--client-cert", &cert, "--client-key", &key],
            &["one.pem", "two.key", "does not belong"],
        ),
        (
            &["--ca-file", &root, "--client-cert", &cert, "--client-key", &nothing],
            &["--client-key", "nothing.pem", "holds no private key"],
        ),
        (&["--client-cert", &cert], &["--client-key"]),
    ];
    for (arguments, said) in cases {
        // Nobody is asked: the fault is known before.
        let output = run.profile("https://127.0.0.1:1", SMALL, arguments, &[]);
        let text = error_text(&output);
        assert!(!output.status.success(), "{arguments:?}");
        for said in said {
            assert!(text.contains(said), "{arguments:?}: {text}");
        }
        assert!(!run.out("inputs.json").exists());
    }
}

#[test]
fn addresses_of_version_6_work_with_and_without_tls() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no [::1]");
        return;
    }
    for arguments in [&["--tls"][..], &[]] {
        let server = Served::on("[::1]:0", arguments);
        assert!(server.url.contains("[::1]:"), "{}", server.url);
        let run = Run::new();
        let url = format!("{}/v1?a=b", server.url);
        assert_ok(&run.profile(&url, SMALL, &[], &[("AIPERF_HTTP_SSL_VERIFY", "no")]));
        assert_eq!(number(&run.report(), "/total/ok"), 6);
    }
}

/// nginx with a certificate in front of `upstream`, which is a port of this machine.
struct Nginx {
    child: Child,
    port: u16,
}

impl Nginx {
    /// Absent where nginx is not installed.
    fn start(run: &Run, signed: &Signed, upstream: &str) -> Option<Self> {
        let installed = Command::new("nginx").arg("-v").stderr(Stdio::null()).status();
        if !installed.is_ok_and(|status| status.success()) {
            return None;
        }
        let (cert, key) = (run.write("nginx.pem", &signed.chain), run.write("nginx.key", &signed.key));
        let at = run.directory.path().to_str().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = run.write(
            "nginx.conf",
            &format!(
                "daemon off; master_process off; pid {at}/nginx.pid; error_log stderr;\n\
                 events {{ worker_connections 1024; }}\n\
                 http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
                 fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
                 upstream mock {{ server 127.0.0.1:{upstream}; keepalive 64; }}\n\
                 server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key};\n\
                 keepalive_requests 100000;\n\
                 location / {{ proxy_pass http://mock; proxy_http_version 1.1; proxy_buffering off;\n\
                 proxy_set_header Connection ''; }} }} }}\n"
            ),
        );
        let child =
            Command::new("nginx").args(["-p", at, "-c", &config]).stderr(Stdio::null()).spawn().unwrap();
        let nginx = Self { child, port };
        let reachable = |_| TcpStream::connect(("127.0.0.1", port)).is_ok();
        // Each try that fails lets others run; nginx binds its port within a few of them.
        assert!((0..2_000_000).any(|tried| {
            std::thread::yield_now();
            reachable(tried)
        }));
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_multi_phase_example_runs_through_nginx_as_a_tls_proxy() {
    let run = Run::new();
    let authority = Authority::new("authority");
    let upstream = Served::new(&["--ttft", "2ms"]);
    let Some(nginx) = Nginx::start(&run, &authority.sign(&NAMES, GOOD), upstream.port()) else {
        eprintln!("skipped: nginx is not installed");
        return;
    };
    let root = run.write("authority.pem", &authority.pem);
    let url = format!("https://localhost:{}", nginx.port);
    let output = run.profile(&url, &multi_phase(), &["--ca-file", &root], &[]);
    assert_ok(&output);
    check_multi_phase(&run);

    let output = run.profile(&url.replace("https", "http"), SMALL, &[], &[]);
    assert_eq!(output.status.code(), Some(1));
    let summary = std::fs::read_to_string(run.out("profile_export_aiperf.json")).unwrap();
    assert!(summary.contains("plain HTTP request was sent to HTTPS port"), "nginx says it itself: {summary}");
}
