//! The whole program with addresses that are more than a host and a port: unix sockets, names of users.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use phasor::mock::{Mock, MockOptions};
use program::profile_in;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs six streaming requests against `url` in `directory`.
fn profile(directory: &Path, url: &str, arguments: &[&str]) -> Output {
    let text = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: '{url}', type: chat, streaming: true}}\n  dataset: {{type: \
         synthetic, entries: 20, prompts: {{isl: 16, osl: 8}}}}\n  tokenizer: {{name: none}}\n  phases:\n    - \
         {{name: profiling, type: concurrency, concurrency: 2, requests: 6}}\n"
    );
    profile_in(directory, &text, arguments)
}

fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The head of the next request.
fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut bytes = [0; 4_096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the client left");
        head.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

fn results(directory: &Path) -> Value {
    let path = directory.join("out/profile_export_aiperf.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn both_spellings_reach_the_built_in_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let mock = Mock::start(MockOptions { unix: Some(path.clone()), ..MockOptions::default() }).unwrap();
    let path = path.to_str().unwrap();
    for (round, url) in
        [format!("unix:{path}"), format!("http+unix://{}/v1", path.replace('/', "%2F"))].iter().enumerate()
    {
        let output = profile(directory.path(), url, &[]);
        assert!(output.status.success(), "{}", error_text(&output));
        assert_eq!(results(directory.path())["request_count"]["avg"], 6.0);
        assert_eq!(mock.requests(), 6 * (round as u64 + 1));
    }
    mock.stop().unwrap();
    assert!(!Path::new(path).exists(), "the socket was left behind");
}

#[test]
fn the_host_is_localhost_and_the_base_path_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one by one.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = head(&mut stream);
        // It serves one request; the rest fails to connect.
        drop(listener);
        stream.write_all(b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        head
    });
    let url = format!("unix:{}:/base/v1?k=v", path.to_str().unwrap().replace(' ', "%20"));
    let output = profile(directory.path(), &url, &["--concurrency", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", error_text(&output));
    let head = server.join().unwrap();
    assert!(head.starts_with("POST /base/v1/chat/completions?k=v HTTP/1.1\r\nHost: localhost\r\n"), "{head}");
    let errors = results(directory.path())["error_summary"].clone();
    let refused = errors
        .as_array()
        .unwrap()
        .iter()
        .find(|error| error["error_details"]["type"] == "UnixClientConnectorError")
        .unwrap_or_else(|| panic!("{errors}"));
    let message = refused["error_details"]["message"].as_str().unwrap();
    assert!(message.contains("ConnectionRefusedError") && message.contains("one by one.sock"), "{message}");
}

#[test]
fn what_no_unix_socket_can_do_is_said_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    for (url, arguments, said) in [
        ("unix://run/server.sock", &[][..], "write `unix:/path/to/server.sock`"),
        ("https+unix://%2Frun%2Fserver.sock", &[], "TLS is not spoken over a unix socket"),
        ("unix:/run/server.sock", &["--source-ip", "127.0.0.2"], "a unix socket has no addresses"),
    ] {
        let output = profile(directory.path(), url, arguments);
        let text = error_text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(said), "{text}");
        assert!(!directory.path().join("out/profile_export_aiperf.json").exists());
    }
}

/// Everything below `directory` in which `text` stands.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_user_name_becomes_a_header_and_is_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut heads = Vec::new();
        while heads.len() < 6 {
            let (mut stream, _) = listener.accept().unwrap();
            heads.push(head(&mut stream));
            let answer: &[u8] = b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
        }
        heads
    });
    let url = format!("http://zebedee:open%20sesame@127.0.0.1:{port}");
    let arguments = ["--url", &url, "--export-level", "raw", "--no-server-metrics", "--concurrency", "1"];
    let output = profile(directory.path(), &url, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", error_text(&output));
    for head in server.join().unwrap() {
        assert!(head.contains("\r\nAuthorization: Basic emViZWRlZTpvcGVuIHNlc2FtZQ==\r\n"), "{head}");
    }
    for secret in ["zebedee", "sesame", "emViZWRl"] {
        assert_eq!(files_with(&directory.path().join("out"), secret), Vec::<String>::new());
        let shown = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(!shown.concat().contains(secret), "{}", shown.concat());
    }
    assert!(!files_with(&directory.path().join("out"), "http://***@127.0.0.1").is_empty());
    assert!(!files_with(&directory.path().join("out"), "http://<redacted>@127.0.0.1").is_empty());
}

#[test]
fn a_faulty_address_is_shown_without_its_password() {
    let directory = tempfile::tempdir().unwrap();
    for url in ["http://zebedee:sesame@127.0.0.1:x", "zebedee:sesame@127.0.0.1:x", "http://zebedee:sesame%@h"]
    {
        for arguments in [&[][..], &["--url", url]] {
            let output = profile(directory.path(), url, arguments);
            let text = error_text(&output);
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(text.contains("cannot be used") && !text.contains("sesame"), "{text}");
        }
    }
    let output = profile(directory.path(), "http://zebedee:sesame@h", &["--api-key", "key"]);
    let text = error_text(&output);
    assert!(text.contains("`Authorization` header is set elsewhere") && !text.contains("sesame"), "{text}");
}

#[test]
fn a_sweep_does_not_vary_addresses_with_names() {
    let directory = tempfile::tempdir().unwrap();
    let text = "sweep: {type: grid, parameters: {endpoint.urls: [['http://zebedee:sesame@h'], ['http://i']]}}\n\
                benchmark:\n  model: m\n  endpoint: {url: 'http://h'}\n  dataset: {entries: 2, isl: 4}\n  phases: \
                {type: concurrency, requests: 1}\n";
    let output = profile_in(directory.path(), text, &[]);
    let text = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the values of a sweep are shown") && !text.contains("sesame"), "{text}");
}

/// A server that lists the model `m` with a context of so many tokens and fails everything else; with how often
/// it was asked for the list.
fn server_with_context(tokens: u32) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let asks = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut read = vec![0; 65_536];
            let count = stream.read(&mut read).unwrap();
            let list = format!("{{\"data\":[{{\"id\":\"m\",\"max_model_len\":{tokens}}}]}}");
            let (status, body) = if read[..count].starts_with(b"GET /v1/models ") {
                asks.fetch_add(1, Ordering::Relaxed);
                ("200 OK", list.as_str())
            } else {
                ("500 Broken", "")
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // The client may be gone.
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (port, asked)
}

#[test]
fn prompts_that_do_not_fit_the_model_are_named_before_the_first_request() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--tokenizer", "o200k_base", "--isl", "3000", "--osl", "100", "--no-server-metrics"];
    for (context, isl_stddev, said) in [
        (3_099, "0", "no prompt of the dataset fits into it with its reply: the shortest needs 3100"),
        (3_100, "300", "prompts do not fit into it with their replies"),
        (3_100, "0", ""),
    ] {
        let url = format!("http://127.0.0.1:{}", server_with_context(context).0);
        let arguments = [&arguments[..], &["--isl-stddev", isl_stddev, "--random-seed", "7"]].concat();
        let output = profile(directory.path(), &url, &arguments);
        let text = error_text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.contains("context of `m`"), !said.is_empty(), "{text}");
        assert!(text.contains(said), "{text}");
        let was_run = directory.path().join("out/profile_export_aiperf.json").exists();
        assert_eq!(was_run, !said.starts_with("no prompt"), "{text}");
    }
}

#[test]
fn a_server_is_asked_for_its_models_once_for_all_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (port, asked) = server_with_context(3_100);
    let url = format!("http://127.0.0.1:{port}");
    let long = ["--tokenizer", "o200k_base", "--isl", "3000", "--osl", "100", "--no-server-metrics"];
    let output = profile(directory.path(), &url, &[&long[..], &["--num-profile-runs", "3"]].concat());
    let text = error_text(&output);
    assert_eq!(text.matches("(profiling) complete").count(), 3, "{text}");
    assert_eq!(asked.load(Ordering::Relaxed), 1, "{text}");
}
