//! Which cores the shards get.

/// Cores asked for on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CoreRequest {
    /// Number of shards; absent: as many as fit.
    pub shards: Option<u16>,
    /// The cores to use, in this order; absent: all that the process may use.
    pub cpus: Option<Vec<usize>>,
    /// A core is wanted for the built-in server too.
    pub mock: bool,
}

/// Cores given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// A core for each shard; a core may serve several shards.
    pub shards: Vec<usize>,
    /// A core for the built-in server that no shard has, where there is one.
    pub mock: Option<usize>,
    /// Every shard has a core to itself, and the rest of the process another.
    pub own: bool,
    /// Cores that no shard has, ascending.
    pub free: Vec<usize>,
}

impl Cores {
    /// A core for what goes on beside the load: one that no shard has, and not the built-in server's where
    /// there is another.
    pub fn spare(&self) -> Option<usize> {
        self.free.iter().copied().rfind(|core| self.mock != Some(*core)).or_else(|| self.free.last().copied())
    }
}

/// Why cores cannot be given out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoresError {
    /// A core that this process may not use.
    #[error("--cpus names core {cpu}, which this process may not use (it may use {available})")]
    Unavailable {
        /// The core.
        cpu: usize,
        /// The ones that can be had, as a list.
        available: String,
    },
    /// The system does not tell.
    #[error("the system does not tell which cores this process may use")]
    Unknown,
}

/// The cores that this process may use, ascending.
pub fn available() -> Result<Vec<usize>, CoresError> {
    let mut cores: Vec<usize> =
        core_affinity::get_core_ids().ok_or(CoresError::Unknown)?.into_iter().map(|core| core.id).collect();
    cores.sort_unstable();
    if cores.is_empty() { Err(CoresError::Unknown) } else { Ok(cores) }
}

/// How many threads count tokens, and on which cores: those that no shard has, one of which may be the
/// built-in server's. Without such a core one thread goes wherever there is room.
pub fn for_counting(cores: &Cores) -> (usize, Vec<usize>) {
    let available = available().unwrap_or_default();
    let free: Vec<usize> = available.into_iter().filter(|core| !cores.shards.contains(core)).collect();
    let own = free.len() - usize::from(cores.mock.is_some_and(|mock| free.contains(&mock)));
    (own.max(1), free)
}

/// Gives out cores: `auto` leaves one core to the rest of the process (and one to the built-in server)
/// when there is more than one, and makes no more shards than the plan can keep busy (`useful`).
pub fn assign(request: &CoreRequest, available: &[usize], useful: u64) -> Result<Cores, CoresError> {
    let chosen = match &request.cpus {
        None => available.to_vec(),
        Some(cpus) => {
            if let Some(cpu) = cpus.iter().copied().find(|cpu| !available.contains(cpu)) {
                return Err(CoresError::Unavailable { cpu, available: list(available) });
            }
            cpus.clone()
        }
    };
    // Named cores are all for shards; else one stays free for records and progress, and on larger machines
    // another one for the built-in server.
    let reserved = match (&request.cpus, request.mock, chosen.len()) {
        (Some(_), _, _) | (None, _, 0 | 1) => 0,
        (None, true, 3..) => 2,
        (None, _, _) => 1,
    };
    let room = chosen.len() - reserved;
    let shards = match request.shards {
        Some(shards) => usize::from(shards.max(1)),
        None => room.min(usize::try_from(useful).unwrap_or(usize::MAX)).max(1),
    };
    let cores: Vec<usize> = chosen.iter().copied().cycle().take(shards).collect();
    let free: Vec<usize> = available.iter().copied().filter(|core| !cores.contains(core)).collect();
    let mock = request.mock.then(|| free.first().copied()).flatten();
    let own = shards <= chosen.len() && !free.is_empty();
    Ok(Cores { shards: cores, mock, own, free })
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_leaves_a_core_to_the_rest_when_there_is_more_than_one() {
        let auto = CoreRequest::default();
        let shards = |available: &[usize]| assign(&auto, available, 1_000).map(|cores| cores.shards);
        assert_eq!(shards(&[0]), Ok(vec![0]));
        assert_eq!(shards(&[0, 1]), Ok(vec![0]));
        assert_eq!(shards(&[0, 1, 2, 3]), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn what_goes_on_beside_the_load_has_a_core_that_no_shard_has() {
        let spare = |mock, available: &[usize]| {
            assign(&CoreRequest { mock, ..CoreRequest::default() }, available, 8).map(|cores| cores.spare())
        };
        assert_eq!(spare(false, &[0]), Ok(None));
        assert_eq!(spare(false, &[0, 1]), Ok(Some(1)));
        assert_eq!(spare(true, &[0, 1]), Ok(Some(1)));
        assert_eq!(spare(true, &[0, 1, 2, 3]), Ok(Some(3)));
    }

    #[test]
    fn no_more_shards_than_slots() {
        let auto = CoreRequest::default();
        assert_eq!(assign(&auto, &[0, 1, 2, 3, 4, 5], 2).map(|cores| cores.shards), Ok(vec![0, 1]));
    }

    #[test]
    fn the_built_in_server_gets_a_core_of_its_own_where_there_is_one() {
        let request = CoreRequest { mock: true, ..CoreRequest::default() };
        assert_eq!(assign(&request, &[0, 1], 8).map(|cores| cores.mock), Ok(Some(1)));
        assert_eq!(assign(&request, &[0], 8).map(|cores| cores.mock), Ok(None));
        let four = assign(&request, &[0, 1, 2, 3], 8);
        assert_eq!(four, Ok(Cores { shards: vec![0, 1], mock: Some(2), own: true, free: vec![2, 3] }));
    }

    #[test]
    fn more_shards_than_cores_share_them() {
        let request = CoreRequest { shards: Some(5), ..CoreRequest::default() };
        let cores = assign(&request, &[0, 1], 100);
        assert_eq!(
            cores,
            Ok(Cores { shards: vec![0, 1, 0, 1, 0], mock: None, own: false, free: Vec::new() })
        );
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_by_number() {
        let request = CoreRequest { cpus: Some(vec![0, 9]), ..CoreRequest::default() };
        let refused = assign(&request, &[0, 1], 100);
        assert_eq!(refused, Err(CoresError::Unavailable { cpu: 9, available: "0,1".to_owned() }));
    }
}
