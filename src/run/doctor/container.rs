//! What a container takes away: cores and processor time.

use crate::run::doctor::Finding;
use crate::run::doctor::Question;
use crate::run::doctor::Status;
use crate::run::machine::Tree;
use crate::run::machine::core_list;
use crate::run::machine::core_text;

pub(super) fn cpuset(question: &Question) -> Finding {
    let name = "cpuset";
    let wanted = format!("cores {} may be used", core_text(&question.cpus));
    let Some(allowed) = allowed(&question.tree) else {
        return Finding::unknown(name, "Cpus_allowed_list in /proc/self/status", wanted);
    };
    let missing: Vec<usize> = question.cpus.iter().copied().filter(|cpu| !allowed.contains(cpu)).collect();
    let status = if missing.is_empty() { Status::Ok } else { Status::Bad };
    let found = format!("this process may use {}", core_text(&allowed));
    let cure = format!(
        "choose others with --cpus, or allow cores {} (taskset -c, docker run --cpuset-cpus)",
        core_text(&missing)
    );
    Finding::new(name, status, found, wanted, cure)
}

/// The cores that the process may use.
pub(super) fn allowed(tree: &Tree) -> Option<Vec<usize>> {
    core_list(&tree.value("proc/self/status", "Cpus_allowed_list")?)
}

/// A limit of processor time.
enum Quota {
    /// In processors.
    Limited(f64),
    None,
    Unknown,
}

pub(super) fn cpu_quota(question: &Question) -> Finding {
    let name = "cpu quota";
    let shards = question.shards();
    let wanted = format!(
        "none, or more than {} processors: a group that has used up its quota stands still for up to 100 ms",
        shards + 1
    );
    let (status, found) = match quota(&question.tree) {
        Quota::Limited(processors) => {
            let enough = processors > (shards + 1) as f64;
            (if enough { Status::Ok } else { Status::Bad }, format!("{processors:.2} processors"))
        }
        Quota::None => (Status::Ok, "none".to_owned()),
        Quota::Unknown => return Finding::unknown(name, "no cgroup file system in /sys/fs/cgroup", wanted),
    };
    let cure = "take the limit away (docker run without --cpus; no `limits.cpu` in Kubernetes) and give whole \
                cores with --cpuset-cpus";
    Finding::new(name, status, found, wanted, cure)
}

/// The tightest quota of the process's group and the groups above it.
fn quota(tree: &Tree) -> Quota {
    let groups = tree.text("proc/self/cgroup").unwrap_or_default();
    let of = |wanted: fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            wanted(controllers).then(|| path.trim_matches('/').to_owned())
        })
    };
    let unified = of(str::is_empty).unwrap_or_default();
    let legacy = of(|controllers| controllers.split(',').any(|one| one == "cpu")).unwrap_or_default();
    let tightest = above(&unified)
        .filter_map(|path| unified_quota(&tree.text(&join("sys/fs/cgroup", path, "cpu.max"))?))
        .chain(above(&legacy).filter_map(|path| legacy_quota(tree, path)))
        .reduce(f64::min);
    let mounted = |file: &str| tree.root().join("sys/fs/cgroup").join(file).exists();
    match tightest {
        Some(processors) if processors.is_finite() => Quota::Limited(processors),
        Some(_) => Quota::None,
        // The topmost group has no such file, because nothing limits it.
        None if mounted("cgroup.controllers") => Quota::None,
        None => Quota::Unknown,
    }
}

/// The path and all that lead to it, down to the empty one.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let this = next?;
        next = match this.rsplit_once('/') {
            Some((parent, _)) => Some(parent),
            None if this.is_empty() => None,
            None => Some(""),
        };
        Some(this)
    })
}

fn join(mount: &str, path: &str, file: &str) -> String {
    if path.is_empty() { format!("{mount}/{file}") } else { format!("{mount}/{path}/{file}") }
}

/// `200000 100000` or `max 100000`, in processors.
fn unified_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    if quota == "max" {
        return Some(f64::INFINITY);
    }
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

fn legacy_quota(tree: &Tree, path: &str) -> Option<f64> {
    ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"].iter().find_map(|mount| {
        let quota: f64 = tree.number(&join(mount, path, "cpu.cfs_quota_us"))?;
        let period: f64 = tree.number(&join(mount, path, "cpu.cfs_period_us"))?;
        if quota < 0.0 {
            return Some(f64::INFINITY);
        }
        (period > 0.0).then_some(quota / period)
    })
}
