//! Facts of the machine, read from the kernel's files below a root directory.
//!
//! The root is `/` in every run and a made-up tree in tests. What cannot be read is absent: nothing is
//! guessed, and nothing is changed.

use serde::Deserialize;
use serde::Serialize;
use std::path::PathBuf;

/// The kernel's files below a root.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The files below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// This machine.
    pub fn here() -> Self {
        Self::at("/")
    }

    /// The root.
    pub fn root(&self) -> &std::path::Path {
        &self.root
    }

    /// The file at `path` (without a slash in front), white space at its ends cut off.
    pub fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The first bytes of a file that is no text; absent if there are fewer.
    pub fn bytes<const N: usize>(&self, path: &str) -> Option<[u8; N]> {
        use std::io::Read as _;
        let mut bytes = [0; N];
        std::fs::File::open(self.root.join(path)).ok()?.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// A file that holds one number.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A file that holds a list of cores such as `0-3,8`.
    pub fn cores(&self, path: &str) -> Option<Vec<usize>> {
        core_list(&self.text(path)?)
    }

    /// Names of a directory's entries, in order; absent if there is no such directory.
    pub fn names(&self, path: &str) -> Option<Vec<String>> {
        let entries = std::fs::read_dir(self.root.join(path)).ok()?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Some(names)
    }

    /// What stands behind `key` and a colon in a file of such lines.
    pub fn value(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    }

    /// The governor of a core.
    pub fn governor(&self, cpu: usize) -> Option<String> {
        self.text(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
    }
}

/// Cores of a list such as `0-3,8`; an empty list is none. Absent if it is no list.
pub fn core_list(text: &str) -> Option<Vec<usize>> {
    /// No kernel numbers more of them.
    const CORES_MAX: usize = 8_192;
    let mut cores = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if low > high || high >= CORES_MAX {
            return None;
        }
        cores.extend(low..=high);
    }
    Some(cores)
}

/// Cores as the kernel writes them: `0-3,8`.
pub fn core_text(cores: &[usize]) -> String {
    let mut sorted = cores.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for core in sorted {
        match parts.last_mut() {
            Some((_, high)) if *high + 1 == core => *high = core,
            Some(_) | None => parts.push((core, core)),
        }
    }
    let texts = parts.iter().map(|(low, high)| match high - low {
        0 => low.to_string(),
        _ => format!("{low}-{high}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// What a calibration is only good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Cores that are online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// The kernel's release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Frequency governor of the first core; absent in most virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
}

impl Machine {
    /// Reads the facts.
    pub fn read(tree: &Tree) -> Self {
        let online = tree.cores("sys/devices/system/cpu/online");
        let first = online.as_ref().and_then(|cores| cores.first().copied()).unwrap_or(0);
        // Processors of ARM have no model name.
        let model = ["model name", "Model", "CPU part"];
        Self {
            cpu_model: model.iter().find_map(|key| tree.value("proc/cpuinfo", key)),
            cores: online.map(|cores| cores.len()),
            kernel: tree.text("proc/sys/kernel/osrelease"),
            governor: tree.governor(first),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_and_written_as_the_kernel_does() {
        assert_eq!(core_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(core_list(""), Some(Vec::new()));
        for wrong in ["a", "3-1", "1-", "0-99999"] {
            assert_eq!(core_list(wrong), None, "{wrong}");
        }
        assert_eq!(core_text(&[8, 1, 0, 2, 2]), "0-2,8");
        assert_eq!(core_text(&[]), "");
    }

    #[test]
    fn what_the_system_does_not_tell_is_absent() {
        let root = tempfile::tempdir().unwrap();
        let nothing = Machine::read(&Tree::at(root.path()));
        assert_eq!(nothing, Machine { cpu_model: None, cores: None, kernel: None, governor: None });
        assert_eq!(serde_json::to_string(&nothing).unwrap(), "{}");
    }

    #[test]
    fn facts_are_read_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast 9000\n"),
            ("proc/sys/kernel/osrelease", "6.9.1\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = Machine::read(&Tree::at(root.path()));
        assert_eq!(machine.cpu_model.as_deref(), Some("Fast 9000"));
        assert_eq!(machine.cores, Some(4));
        assert_eq!(machine.kernel.as_deref(), Some("6.9.1"));
        assert_eq!(machine.governor.as_deref(), Some("performance"));
    }
}
