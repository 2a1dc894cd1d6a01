//! The shards' cores: what slows them down, puts them to sleep, or shares them with others.

use crate::run::doctor::Finding;
use crate::run::doctor::Question;
use crate::run::doctor::Status;
use crate::run::doctor::container::allowed;
use crate::run::machine::Tree;
use crate::run::machine::core_text;

/// A core that wakes up within this time keeps the shard punctual: its spin before a due time covers it.
const WAKE_MAX_MICROS: u64 = 50;

/// Share of stolen time that is seen in the tail, in percent.
const STEAL_WARN_PERCENT: f64 = 0.5;

/// Share of stolen time that spoils measurements, in percent.
const STEAL_BAD_PERCENT: f64 = 5.0;

pub(super) fn spare_core(question: &Question) -> Finding {
    let name = "spare core";
    let wanted = "a core for each shard and one besides for the rest of the process";
    let Some(allowed) = allowed(&question.tree) else {
        return Finding::unknown(name, "Cpus_allowed_list in /proc/self/status", wanted);
    };
    let mut chosen = question.cpus.clone();
    chosen.sort_unstable();
    chosen.dedup();
    let spare: Vec<usize> = allowed.iter().copied().filter(|cpu| !chosen.contains(cpu)).collect();
    let (status, found) = if chosen.len() < question.cpus.len() {
        (Status::Warn, format!("{} shards share cores {}", question.cpus.len(), core_text(&chosen)))
    } else if spare.is_empty() {
        (Status::Warn, format!("the shards have all cores ({})", core_text(&chosen)))
    } else {
        (Status::Ok, format!("shards on {}, the rest on {}", core_text(&chosen), core_text(&spare)))
    };
    Finding::new(name, status, found, wanted, "fewer shards (--shards), or more cores for this process")
}

fn file_of(cpu: usize, file: &str) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/{file}")
}

pub(super) fn governor(question: &Question) -> Finding {
    let name = "governor";
    let wanted = "performance on the shards' cores";
    let governors: Vec<(usize, String)> =
        question.cpus.iter().filter_map(|cpu| Some((*cpu, question.tree.governor(*cpu)?))).collect();
    if governors.len() < question.cpus.len() || governors.is_empty() {
        let missing = "cpufreq below /sys/devices/system/cpu (a virtual machine leaves this to its host)";
        return Finding::unknown(name, missing, wanted);
    }
    let slow: Vec<&(usize, String)> = governors.iter().filter(|(_, one)| one != "performance").collect();
    let (status, found) = match slow.first() {
        None => (Status::Ok, "performance".to_owned()),
        Some((_, governor)) => {
            let cores: Vec<usize> = slow.iter().map(|(cpu, _)| *cpu).collect();
            (Status::Warn, format!("{governor} on cores {}", core_text(&cores)))
        }
    };
    Finding::new(name, status, found, wanted, "cpupower frequency-set -g performance")
}

pub(super) fn idle_states(question: &Question) -> Finding {
    let name = "idle states";
    let wanted = format!("a core wakes up within {WAKE_MAX_MICROS} us");
    let deepest = question.cpus.iter().filter_map(|cpu| deepest_state(&question.tree, *cpu)).max();
    let Some((micros, state)) = deepest else {
        let missing = "cpuidle below /sys/devices/system/cpu (a virtual machine leaves this to its host)";
        return Finding::unknown(name, missing, wanted);
    };
    // A process that holds the file open bounds the latency of every core, in microseconds.
    let held = question.tree.bytes("dev/cpu_dma_latency").map(i32::from_ne_bytes);
    let held = held.and_then(|micros| u64::try_from(micros).ok()).filter(|held| *held < micros);
    let (latency, found) = match held {
        Some(held) => {
            (held, format!("{state} wakes up in {micros} us; /dev/cpu_dma_latency allows {held} us"))
        }
        None => (micros, format!("{state} wakes up in {micros} us")),
    };
    let status = if latency <= WAKE_MAX_MICROS { Status::Ok } else { Status::Warn };
    let cure = format!("cpupower idle-set -D {WAKE_MAX_MICROS} (idle-set -E takes it back)");
    Finding::new(name, status, found, wanted, cure)
}

/// The deepest state that the core may enter: how long it takes to wake up, in microseconds, and its name.
fn deepest_state(tree: &Tree, cpu: usize) -> Option<(u64, String)> {
    let directory = file_of(cpu, "cpuidle");
    let states = tree.names(&directory)?.into_iter().filter(|name| name.starts_with("state"));
    let enabled = states.filter_map(|state| {
        let number = |file: &str| tree.number::<u64>(&format!("{directory}/{state}/{file}"));
        let latency = number("latency")?;
        let name = tree.text(&format!("{directory}/{state}/name")).unwrap_or_else(|| state.clone());
        (number("disable") != Some(1)).then_some((latency, name))
    });
    enabled.max()
}

pub(super) fn siblings(question: &Question) -> Finding {
    let name = "smt";
    let wanted = "no two shards on the threads of one core";
    let mut shared: Vec<usize> = Vec::new();
    for cpu in &question.cpus {
        let Some(threads) = question.tree.cores(&file_of(*cpu, "topology/thread_siblings_list")) else {
            return Finding::unknown(name, "topology below /sys/devices/system/cpu", wanted);
        };
        if threads.iter().any(|other| other != cpu && question.cpus.contains(other)) {
            shared.push(*cpu);
        }
    }
    let (status, found) = if shared.is_empty() {
        (Status::Ok, "no shard shares its core with another".to_owned())
    } else {
        (Status::Warn, format!("shards on {} share cores", core_text(&shared)))
    };
    let cure = "choose one thread of each core with --cpus (see lscpu --extended), or \
                echo off > /sys/devices/system/cpu/smt/control";
    Finding::new(name, status, found, wanted, cure)
}

pub(super) fn isolation(question: &Question) -> Finding {
    let name = "isolated cores";
    let chosen = core_text(&question.cpus);
    let wanted = format!("isolcpus and nohz_full hold the shards' cores ({chosen})");
    let Some(isolated) = question.tree.cores("sys/devices/system/cpu/isolated") else {
        return Finding::unknown(name, "/sys/devices/system/cpu/isolated", wanted);
    };
    // A kernel without the feature has no such file, and one with it says "(null)" for no core.
    let tickless = question.tree.cores("sys/devices/system/cpu/nohz_full").unwrap_or_default();
    let all = |among: &[usize]| question.cpus.iter().all(|cpu| among.contains(cpu));
    let status = if all(&isolated) && all(&tickless) { Status::Ok } else { Status::Warn };
    let shown = |cores: &[usize]| if cores.is_empty() { "none".to_owned() } else { core_text(cores) };
    let found = format!("isolated {}, without tick {}", shown(&isolated), shown(&tickless));
    let cure = format!("boot with isolcpus={chosen} nohz_full={chosen} rcu_nocbs={chosen}");
    Finding::new(name, status, found, wanted, cure)
}

pub(super) fn numa(question: &Question) -> Finding {
    let name = "numa";
    let wanted = "the shards' cores lie on one node, that of the network card";
    let nodes: Option<Vec<(String, Vec<usize>)>> =
        question.tree.names("sys/devices/system/node").map(|names| {
            let nodes = names
                .into_iter()
                .filter(|name| name.strip_prefix("node").is_some_and(|rest| rest.parse::<usize>().is_ok()));
            let cores =
                |node: &String| question.tree.cores(&format!("sys/devices/system/node/{node}/cpulist"));
            nodes.filter_map(|node| cores(&node).map(|cores| (node, cores))).collect()
        });
    let Some(nodes) = nodes.filter(|nodes| !nodes.is_empty()) else {
        return Finding::unknown(name, "nodes below /sys/devices/system/node", wanted);
    };
    let used: Vec<&str> = nodes
        .iter()
        .filter(|(_, cores)| question.cpus.iter().any(|cpu| cores.contains(cpu)))
        .map(|(node, _)| node.as_str())
        .collect();
    let status = match used.len() {
        0 => return Finding::unknown(name, "no node has the shards' cores", wanted),
        1 => Status::Ok,
        _ => Status::Warn,
    };
    let found = format!("{} of {} node(s)", used.join(", "), nodes.len());
    let cure = "choose the cores of one node with --cpus (see numactl --hardware)";
    Finding::new(name, status, found, wanted, cure)
}

pub(super) fn steal(question: &Question) -> Finding {
    let name = "stolen time";
    let wanted = format!("below {STEAL_WARN_PERCENT} % of the time of the shards' cores");
    let text = question.tree.text("proc/stat").unwrap_or_default();
    let mut worst: Option<f64> = None;
    for cpu in &question.cpus {
        let label = format!("cpu{cpu} ");
        let Some(line) = text.lines().find_map(|line| line.strip_prefix(&label)) else { continue };
        let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; what follows is part of the first two.
        let (Some(steal), total) = (ticks.get(7), ticks.iter().take(8).sum::<f64>()) else { continue };
        if total > 0.0 {
            worst = Some(worst.unwrap_or(0.0).max(steal / total * 100.0));
        }
    }
    let Some(worst) = worst else { return Finding::unknown(name, "steal in /proc/stat", wanted) };
    let status = if worst > STEAL_BAD_PERCENT {
        Status::Bad
    } else if worst > STEAL_WARN_PERCENT {
        Status::Warn
    } else {
        Status::Ok
    };
    let found = format!("{worst:.2} % since boot");
    let cure = "take a machine whose cores are its own (dedicated instance, pinned virtual processors)";
    Finding::new(name, status, found, wanted, cure)
}
