//! Where a tokenizer's files lie on this machine. Nothing is downloaded.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tokenizer::TOKENIZER_FILE;

/// The local cache of the hub, as its own tools lay it out.
#[derive(Clone, Debug)]
pub struct HubCache {
    directory: PathBuf,
}

impl HubCache {
    /// The cache in `directory`, the one that holds `models--...`.
    pub const fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The cache that `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME` or the home directory says, in this order.
    pub fn from_environment() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = set("HF_HUB_CACHE")
            .or_else(|| set("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| set("HF_HOME").map(|home| home.join("hub")))
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("huggingface/hub")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/huggingface/hub")))
            .unwrap_or_default();
        Self { directory }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of repository `name` at `revision` (a branch, a tag or a commit), if it holds a
    /// tokenizer.
    pub fn snapshot(&self, name: &str, revision: &str) -> Option<PathBuf> {
        // A name with dots or a leading slash could leave the cache.
        let safe = |text: &str| !text.split('/').any(|part| part.is_empty() || part == "..");
        if !safe(name) || !safe(revision) {
            return None;
        }
        let repository = self.directory.join(format!("models--{}", name.replace('/', "--")));
        let commit = fs::read_to_string(repository.join("refs").join(revision));
        let commit = commit.map_or_else(|_| revision.to_owned(), |text| text.trim().to_owned());
        let directory = repository.join("snapshots").join(commit);
        directory.join(TOKENIZER_FILE).is_file().then_some(directory)
    }
}

/// Whether a name can only be a path.
pub(in crate::tokenizer) fn looks_like_a_path(name: &str) -> bool {
    Path::new(name).is_absolute()
        || ["./", "../", "~"].iter().any(|start| name.starts_with(start))
        || name == "."
        || name == ".."
}

/// `name` as a path, `~` being the home directory.
pub(in crate::tokenizer) fn expand_home(name: &str) -> PathBuf {
    match (name.strip_prefix('~'), env::var_os("HOME")) {
        (Some(""), Some(home)) => PathBuf::from(home),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            PathBuf::from(home).join(rest.trim_start_matches('/'))
        }
        (Some(_) | None, _) => PathBuf::from(name),
    }
}
