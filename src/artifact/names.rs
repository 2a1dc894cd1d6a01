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

fn name(artifacts: &Artifacts, otherwise: &str, ending: &str) -> String {
    format!("{}{ending}", artifacts.prefix.as_deref().unwrap_or(otherwise))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(artifacts: &Artifacts) -> [String; 6] {
        [records, json, csv, slices_json, slices_csv, console].map(|name| name(artifacts))
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
        ];
        assert_eq!(all(&artifacts), expected);
    }
}
