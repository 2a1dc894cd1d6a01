//! Which files are written and what they are called (spec/artifacts 2.2 and 2.3): the `artifacts` section of a
//! config, as far as it is not a directory.

use crate::time::Nanos;

/// What is written besides what always is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one key of the config, on or off")]
pub struct Switches {
    /// Stem of the file names in place of `profile_export`; endings of result files are cut off it.
    pub prefix: Option<String>,
    /// The JSON results, of the run and of each phase.
    pub summary: bool,
    /// The record file.
    pub records: bool,
    /// `trace_data` in the record file's lines.
    pub trace: bool,
    /// The table of HTTP timings on the console.
    pub show_trace_timing: bool,
    /// Length of the time slices, above 0; absent: no slices.
    pub slice_duration: Option<Nanos>,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            prefix: None,
            summary: true,
            records: true,
            trace: false,
            show_trace_timing: false,
            slice_duration: None,
        }
    }
}

/// Endings that a prefix does not keep, longer ones first.
const ENDINGS: [&str; 15] = [
    "_network_latency.jsonl",
    "_server_metrics.parquet",
    "_server_metrics.jsonl",
    "_server_metrics.json",
    "_server_metrics.csv",
    "_gpu_telemetry.jsonl",
    "_timeslices.json",
    "_timeslices.csv",
    "_accuracy.jsonl",
    "_console.txt",
    "_raw.jsonl",
    ".jsonl",
    ".json",
    ".csv",
    ".txt",
];

impl Switches {
    /// The record file.
    pub fn records_name(&self) -> String {
        self.name("profile_export", ".jsonl")
    }

    /// The JSON results, of the run and of each phase.
    pub fn json_name(&self) -> String {
        self.name("profile_export_aiperf", ".json")
    }

    /// The CSV results, of the run and of each phase.
    pub fn csv_name(&self) -> String {
        self.name("profile_export_aiperf", ".csv")
    }

    /// The results of time slices as JSON.
    pub fn slices_json_name(&self) -> String {
        self.name("profile_export_aiperf", "_timeslices.json")
    }

    /// The results of time slices as CSV.
    pub fn slices_csv_name(&self) -> String {
        self.name("profile_export_aiperf", "_timeslices.csv")
    }

    /// The tables.
    pub fn console_name(&self) -> String {
        self.name("profile_export", "_console.txt")
    }

    fn name(&self, otherwise: &str, ending: &str) -> String {
        let stem = self.prefix.as_deref().map_or(otherwise, |prefix| {
            ENDINGS.iter().find_map(|ending| prefix.strip_suffix(ending)).unwrap_or(prefix)
        });
        format!("{stem}{ending}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_prefix_files_have_the_names_of_the_reference() {
        let switches = Switches::default();
        assert_eq!(switches.records_name(), "profile_export.jsonl");
        assert_eq!(switches.json_name(), "profile_export_aiperf.json");
        assert_eq!(switches.csv_name(), "profile_export_aiperf.csv");
        assert_eq!(switches.slices_json_name(), "profile_export_aiperf_timeslices.json");
        assert_eq!(switches.slices_csv_name(), "profile_export_aiperf_timeslices.csv");
        assert_eq!(switches.console_name(), "profile_export_console.txt");
    }

    #[test]
    fn a_prefix_is_the_whole_stem_and_known_endings_are_cut_off_it() {
        for prefix in [
            "foo",
            "foo.json",
            "foo.csv",
            "foo.jsonl",
            "foo_raw.jsonl",
            "foo_timeslices.csv",
            "foo_console.txt",
        ] {
            let switches = Switches { prefix: Some(prefix.to_owned()), ..Switches::default() };
            assert_eq!(switches.records_name(), "foo.jsonl", "{prefix}");
            assert_eq!(switches.json_name(), "foo.json", "{prefix}");
            assert_eq!(switches.slices_csv_name(), "foo_timeslices.csv", "{prefix}");
            assert_eq!(switches.console_name(), "foo_console.txt", "{prefix}");
        }
        let dotted = Switches { prefix: Some("v1.2".to_owned()), ..Switches::default() };
        assert_eq!(dotted.csv_name(), "v1.2.csv");
    }
}
