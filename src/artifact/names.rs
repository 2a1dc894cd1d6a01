//! What the files of a run are called (spec/artifacts 2.2): with a prefix it is the whole stem of their names,
//! inside the directories of phases too.

use crate::config::Artifacts;

/// The record file.
pub fn records(artifacts: &Artifacts) -> String {
    name(artifacts, "profile_export", ".jsonl")
}

/// Requests and replies as they went over the wire.
pub fn raw(artifacts: &Artifacts) -> String {
    name(artifacts, "profile_export", "_raw.jsonl")
}

/// The JSON results, of the run and of each phase.
pub fn json(artifacts: &Artifacts) -> String {
    name(artifacts, "profile_export_aiperf", ".json")
}

/// The CSV results, of the run and of each phase.
pub fn csv(artifacts: &Artifacts) -> String {
    name(artifacts, "profile_export_aiperf", ".csv")
}

/// The results of time slices as JSON.
pub fn slices_json(artifacts: &Artifacts) -> String {
    name(artifacts, "profile_export_aiperf", "_timeslices.json")
}

/// The results of time slices as CSV.
pub fn slices_csv(artifacts: &Artifacts) -> String {
    name(artifacts, "profile_export_aiperf", "_timeslices.csv")
}

/// The tables.
pub fn console(artifacts: &Artifacts) -> String {
    name(artifacts, "profile_export", "_console.txt")
}

/// Server metrics as JSON.
pub fn server_json(artifacts: &Artifacts) -> String {
    server(artifacts, "json")
}

/// Server metrics as CSV.
pub fn server_csv(artifacts: &Artifacts) -> String {
    server(artifacts, "csv")
}

/// Server metrics, a line per page.
pub fn server_lines(artifacts: &Artifacts) -> String {
    server(artifacts, "jsonl")
}

/// GPU samples, a line for each.
pub fn gpu_lines(artifacts: &Artifacts) -> String {
    match &artifacts.prefix {
        Some(prefix) => format!("{prefix}_gpu_telemetry.jsonl"),
        None => "gpu_telemetry_export.jsonl".to_owned(),
    }
}

fn server(artifacts: &Artifacts, ending: &str) -> String {
    match &artifacts.prefix {
        Some(prefix) => format!("{prefix}_server_metrics.{ending}"),
        None => format!("server_metrics_export.{ending}"),
    }
}

fn name(artifacts: &Artifacts, otherwise: &str, ending: &str) -> String {
    format!("{}{ending}", artifacts.prefix.as_deref().unwrap_or(otherwise))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(artifacts: &Artifacts) -> [String; 10] {
        let server = [server_json, server_csv, server_lines, gpu_lines];
        let results =
            [records as fn(&Artifacts) -> String, json, csv, slices_json, slices_csv, console].into_iter();
        let mut all = results.chain(server).map(|name: fn(&Artifacts) -> String| name(artifacts));
        std::array::from_fn(|_| all.next().unwrap_or_default())
    }

    #[test]
    fn without_a_prefix_files_have_the_names_of_the_reference() {
        let expected = [
            "profile_export.jsonl",
            "profile_export_aiperf.json",
            "profile_export_aiperf.csv",
            "profile_export_aiperf_timeslices.json",
            "profile_export_aiperf_timeslices.csv",
            "profile_export_console.txt",
            "server_metrics_export.json",
            "server_metrics_export.csv",
            "server_metrics_export.jsonl",
            "gpu_telemetry_export.jsonl",
        ];
        assert_eq!(all(&Artifacts::default()), expected);
    }

    #[test]
    fn a_prefix_is_the_whole_stem() {
        let artifacts = Artifacts { prefix: Some("v1.2".to_owned()), ..Artifacts::default() };
        let expected = [
            "v1.2.jsonl",
            "v1.2.json",
            "v1.2.csv",
            "v1.2_timeslices.json",
            "v1.2_timeslices.csv",
            "v1.2_console.txt",
            "v1.2_server_metrics.json",
            "v1.2_server_metrics.csv",
            "v1.2_server_metrics.jsonl",
            "v1.2_gpu_telemetry.jsonl",
        ];
        assert_eq!(all(&artifacts), expected);
    }
}
