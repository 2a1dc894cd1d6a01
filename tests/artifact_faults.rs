//! Disks that are full, directories that vanish, files in the way, two runs at once: what memory can hold is not
//! lost, the user is told what is missing, and the exit code says so.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use phasor::mock::{Delay, Mock, MockOptions, Writes};
use phasor::time::Nanos;
use program::{Run, assert_ok, check_files, config, number, phasor, with_mock};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

const TWO_PHASES: [&str; 2] = [
    "{name: warmup, type: concurrency, concurrency: 2, requests: 6}",
    "{name: load, kind: profiling, type: concurrency, concurrency: 4, requests: 40}",
];

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The numbers of the run are all there, whatever became of its files.
fn check_console(output: &Output) {
    let shown = String::from_utf8_lossy(&output.stdout);
    for text in ["phasor | LLM Metrics", "Request Latency", "Request Count"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
}

#[test]
fn a_full_disk_under_the_record_file_costs_its_lines_and_no_result() {
    let run = Run::new(&config(&TWO_PHASES));
    fs::create_dir(run.path("")).unwrap();
    symlink("/dev/full", run.path("profile_export.jsonl")).unwrap();
    let output = run.run(&with_mock(&[]));
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let told = told(&output);
    assert!(told.contains("profile_export.jsonl: No space left on device"), "{told}");
    assert!(told.contains("46 lines of the files of single requests were lost"), "{told}");
    assert_eq!(number(&run.json("client_report.json"), "/records_lost"), 46);
    assert_eq!(run.json("profile_export_aiperf.json")["request_count"]["avg"], 40.0);
    check_console(&output);
}

/// The program under a limit of so many bytes a file.
fn limited(run: &Run, blocks_of_512: u32) -> Output {
    let mut arguments = vec!["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none"];
    arguments.extend(with_mock(&[]));
    let mut shell = Command::new("sh");
    shell.current_dir(run.directory.path());
    shell.args(["-c", &format!("ulimit -f {blocks_of_512}; exec \"$0\" \"$@\"")]);
    shell.arg(phasor().get_program()).args(arguments).output().unwrap()
}

#[test]
fn a_limit_of_file_sizes_ends_the_record_file_after_a_whole_line() {
    // Some 300 KiB of lines; all other files are smaller than 64 KiB.
    let run = Run::new(&config(&[
        "{name: warmup, type: concurrency, concurrency: 2, requests: 6}",
        "{name: load, kind: profiling, type: concurrency, concurrency: 4, requests: 200}",
    ]));
    let output = limited(&run, 128);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let lost = number(&run.json("client_report.json"), "/records_lost");
    assert!(told(&output).contains(&format!("{lost} lines of the files of single requests were lost")));
    let records = run.records();
    assert!(lost > 0 && !records.is_empty());
    assert_eq!(records.len() as u64 + lost, 206);
    let text = fs::read_to_string(run.path("profile_export.jsonl")).unwrap();
    assert!(text.ends_with("}\n"), "half a line is left");
    assert_eq!(run.json("profile_export_aiperf.json")["request_count"]["avg"], 200.0);
    check_console(&output);
}

#[test]
fn results_that_find_no_room_are_named_and_leave_no_halves() {
    let yaml = config(&["{name: load, kind: profiling, type: concurrency, concurrency: 4, requests: 40}"])
        .replace("entries: 20", "entries: 2");
    let run = Run::new(&yaml);
    // 4 KiB: room for the payloads, the log and the marker.
    let output = limited(&run, 8);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let told = told(&output);
    for name in ["profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export_console.txt"] {
        assert!(told.contains(&format!("cannot write out/{name}")), "{name} in {told}");
        assert!(!run.path(name).exists(), "{name}");
    }
    for name in program::walk(&run.path("")) {
        assert!(!name.contains("tmp"), "a half is left: {name}");
    }
    let ready = run.json(".aiperf_results_ready.json");
    assert_eq!(ready["partial"], true);
    assert!(ready["failed_exporters"].as_array().unwrap().len() >= 3, "{ready}");
    check_console(&output);
}

/// Waits for a line of the program's stderr that has `text` in it, and gives what came before, too.
fn read_until(lines: &mut impl BufRead, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        assert!(lines.read_line(&mut read).unwrap() > 0, "no {text} in {read}");
    }
    read
}

fn slow_server() -> (Mock, String) {
    let ttft = Delay::Fixed(Nanos::from_millis(20));
    let mock = Mock::start(MockOptions { ttft, ..MockOptions::default() }).unwrap();
    let url = format!("http://{}", mock.address());
    (mock, url)
}

#[test]
fn a_directory_that_is_removed_during_the_run_is_written_again_in_full() {
    let (mock, url) = slow_server();
    let run = Run::new(&config(&[
        "{name: before, kind: profiling, type: concurrency, concurrency: 2, requests: 10}",
        "{name: after, kind: profiling, type: concurrency, concurrency: 2, requests: 20}",
    ]));
    let mut child =
        run.command(&["--url", &url]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = read_until(&mut stderr, "Phase after (profiling) started");
    fs::remove_dir_all(run.path("")).unwrap();
    stderr.read_to_string(&mut told).unwrap();
    let output = child.wait_with_output().unwrap();
    mock.stop().unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("profile_export.jsonl: it was removed during the run and written again"), "{told}");
    // All that a run has, requests of both phases included.
    let report = check_files(&run);
    assert_eq!((run.records().len(), number(&report, "/records_lost")), (30, 0));
    let log = fs::read_to_string(run.path("logs/aiperf.log")).unwrap();
    for edge in ["Phase before (profiling) started", "Phase after (profiling) complete"] {
        assert!(log.contains(edge), "{edge} in {log}");
    }
    assert!(run.json("inputs.json")["data"].is_array());
    assert!(run.path("phases/after/profile_export_aiperf.json").exists());
    check_console(&output);
}

const OUTPUTS: &str = "  artifacts: {export_outputs_json: true}\n";

/// Every reply of the profiling phase is there, in order, with its text.
fn check_outputs(run: &Run, requests: u64) {
    let outputs = run.json("outputs.json");
    let data = outputs["data"].as_array().unwrap();
    let numbers: Vec<u64> = data.iter().map(|entry| entry["session_num"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..requests).collect::<Vec<_>>());
    assert!(data.iter().all(|entry| !entry["response_text"].as_str().unwrap().is_empty()));
}

#[test]
fn replies_that_the_disk_does_not_take_wait_in_memory_for_the_end() {
    let run = Run::new(&(config(&TWO_PHASES) + OUTPUTS));
    fs::create_dir(run.path("")).unwrap();
    symlink("/dev/full", run.path(".outputs.json.scratch")).unwrap();
    let output = run.run(&with_mock(&[]));
    assert_ok(&output);
    check_outputs(&run, 40);
    assert!(!run.path(".outputs.json.scratch").exists());
    assert_eq!(number(&run.json("client_report.json"), "/records_lost"), 0);
}

#[test]
fn replies_outlive_their_directory() {
    let (mock, url) = slow_server();
    let run = Run::new(
        &(config(&["{name: load, kind: profiling, type: concurrency, concurrency: 2, requests: 20}"])
            + OUTPUTS),
    );
    let mut child =
        run.command(&["--url", &url]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = read_until(&mut stderr, "Phase load (profiling) started");
    fs::remove_dir_all(run.path("")).unwrap();
    stderr.read_to_string(&mut told).unwrap();
    let output = child.wait_with_output().unwrap();
    mock.stop().unwrap();
    assert_eq!(output.status.code(), Some(1), "the record file was removed: {told}");
    check_outputs(&run, 20);
}

#[test]
fn a_directory_in_the_way_of_the_replies_costs_them_alone_and_they_are_counted() {
    let run = Run::new(&(config(&TWO_PHASES) + OUTPUTS));
    fs::create_dir_all(run.path("outputs.json/deep")).unwrap();
    let output = run.run(&with_mock(&[]));
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("outputs.json: "), "{}", told(&output));
    assert!(
        told(&output).contains("40 lines of the files of single requests were lost"),
        "{}",
        told(&output)
    );
    assert_eq!(number(&run.json("client_report.json"), "/records_lost"), 40);
    assert_eq!(run.records().len(), 46);
    check_console(&output);
}

#[test]
fn a_second_run_into_the_same_directory_is_refused_and_harms_nothing() {
    let (mock, url) = slow_server();
    let yaml = config(&["{name: load, kind: profiling, type: concurrency, concurrency: 2, requests: 40}"]);
    let run = Run::new(&yaml);
    let mut first =
        run.command(&["--url", &url]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stderr = BufReader::new(first.stderr.take().unwrap());
    let mut told_first = read_until(&mut stderr, "Phase load (profiling) started");
    let second = run.run(&["--url", &url]);
    stderr.read_to_string(&mut told_first).unwrap();
    assert!(first.wait().unwrap().success(), "{told_first}");
    assert_eq!(second.status.code(), Some(1));
    assert!(told(&second).contains("another run is writing to out"), "{}", told(&second));
    assert_eq!(mock.requests(), 40, "the second run sent something");
    mock.stop().unwrap();
    check_files(&run);

    // After the first has ended the directory is free: files are replaced, and the old marker is no more.
    let again = run.run(&with_mock(&[]));
    assert_ok(&again);
    assert_eq!(check_files(&run)["total"]["ok"], 40);
}

#[test]
fn a_marker_of_an_earlier_run_does_not_stand_while_another_one_is_going_on() {
    let (mock, url) = slow_server();
    let run = Run::new(&config(&[
        "{name: load, kind: profiling, type: concurrency, concurrency: 2, requests: 20}",
    ]));
    fs::create_dir(run.path("")).unwrap();
    fs::write(run.path(".aiperf_results_ready.json"), b"{\"ready\":true}").unwrap();
    let mut child =
        run.command(&["--url", &url]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = read_until(&mut stderr, "Phase load (profiling) started");
    assert!(!run.path(".aiperf_results_ready.json").exists());
    stderr.read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{told}");
    mock.stop().unwrap();
    assert_eq!(run.json(".aiperf_results_ready.json")["partial"], false);
}

#[test]
fn what_is_in_the_way_of_the_first_files_is_said_before_anything_is_sent() {
    let obstacles = ["out", "out/inputs.json", "out/profile_export.jsonl", "out/logs"];
    let mock = Mock::start(MockOptions::default()).unwrap();
    let url = format!("http://{}", mock.address());
    for name in obstacles {
        let run = Run::new(&config(&TWO_PHASES));
        let path = run.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match name {
            "out" | "out/logs" => fs::write(&path, b"a file").unwrap(),
            _ => fs::create_dir(&path).unwrap(),
        }
        let output = run.run(&["--url", &url]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let told = told(&output);
        assert!(told.contains(&format!("cannot write {name}")) && told.contains("artifacts.dir"), "{told}");
    }
    assert_eq!(mock.requests(), 0, "something was sent");
    mock.stop().unwrap();
}

#[test]
fn a_directory_in_the_way_of_a_result_costs_that_result_alone() {
    let run = Run::new(&config(&TWO_PHASES));
    fs::create_dir_all(run.path("profile_export_aiperf.json/deep")).unwrap();
    let output = run.run(&with_mock(&[]));
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("cannot write out/profile_export_aiperf.json"), "{}", told(&output));
    let report = check_files(&run);
    assert_eq!(number(&report, "/total/ok"), 46);
    assert_eq!(run.json("phases/load/profile_export_aiperf.json")["request_count"]["avg"], 40.0);
    let ready = run.json(".aiperf_results_ready.json");
    assert!(
        ready["failed_exporters"][0].as_str().unwrap().ends_with("profile_export_aiperf.json"),
        "{ready}"
    );
}

#[test]
fn records_faster_than_the_disk_are_counted_and_the_run_goes_on() {
    // More than the batches of one shard and a piece of lines can hold.
    const REQUESTS: u64 = 55_000;
    let mock = Mock::start(MockOptions { writes: Writes::Whole, ..MockOptions::default() }).unwrap();
    let url = format!("http://{}", mock.address());
    let load =
        format!("{{name: load, kind: profiling, type: concurrency, concurrency: 50, requests: {REQUESTS}}}");
    let run = Run::new(&config(&[&load]).replace("osl: 8", "osl: 2"));
    fs::create_dir(run.path("")).unwrap();
    let pipe = run.path("profile_export.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = run
        .command(&["--url", &url, "--shards", "1"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // A disk that takes nothing until the load is over.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = read_until(&mut stderr, "Phase load (profiling) complete");
    let reader = std::thread::spawn(move || {
        BufReader::new(fs::File::open(pipe).unwrap()).lines().map(Result::unwrap).collect::<Vec<_>>()
    });
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told}");
    mock.stop().unwrap();
    let lines = reader.join().unwrap();
    let lost = number(&run.json("client_report.json"), "/records_lost");
    assert!(lost > 0 && !lines.is_empty(), "{lost} lost, {} read", lines.len());
    assert_eq!(lines.len() as u64 + lost, REQUESTS);
    assert!(lines.iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(told.contains(&format!("{lost} lines of the files of single requests were lost")), "{told}");
    assert_eq!(run.json("profile_export_aiperf.json")["request_count"]["avg"], REQUESTS as f64);
}

#[test]
fn a_run_that_keeps_no_records_misses_none() {
    // More than one batch of a shard holds.
    let mock = Mock::start(MockOptions { writes: Writes::Whole, ..MockOptions::default() }).unwrap();
    let url = format!("http://{}", mock.address());
    let load = "{name: load, kind: profiling, type: concurrency, concurrency: 20, requests: 3000}";
    let run = Run::new(&format!("{}  artifacts: {{records: false}}\n", config(&[load])));
    let output = run.run(&["--url", &url, "--shards", "1"]);
    mock.stop().unwrap();
    assert_ok(&output);
    assert_eq!(number(&run.json("client_report.json"), "/records_lost"), 0);
    assert!(!run.path("profile_export.jsonl").exists());
}
