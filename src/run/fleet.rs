//! The shards of a process, started once, and the runs that go through them.
//!
//! [`Fleet::run`] is one run from its config to its last file. A sweep makes many, and the threads, their
//! executors, rings and buffers stay from one to the next. Nothing of a run is left behind in them.

use crate::artifact;
use crate::artifact::Cell;
use crate::artifact::FinishedRun;
use crate::artifact::Results;
use crate::artifact::calibration;
use crate::artifact::log::Level;
use crate::artifact::log::Log;
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::EngineOptions;
use crate::measure::Judgement;
use crate::plan;
use crate::plan::PHASES_MAX;
use crate::plan::Plan;
use crate::plan::Shared;
use crate::run::RunError;
use crate::run::RunOptions;
use crate::run::RunOutcome;
use crate::run::SAMPLES_MAX;
use crate::run::companion::Companion;
use crate::run::companion::Stage;
use crate::run::conductor::Conductor;
use crate::run::conductor::Gathered;
use crate::run::context;
use crate::run::cores;
use crate::run::counting::Counter;
use crate::run::counting::Work;
use crate::run::demand;
use crate::run::limits;
use crate::run::ports;
use crate::run::progress::Audience;
use crate::run::progress::Display;
use crate::run::recording::BATCH_RECORDS;
use crate::run::recording::Recorder;
use crate::run::telemetry::Collector;
use crate::run::tls;
use crate::run::traffic::Traffic;
use crate::schedule::Share;
use crate::shard;
use crate::shard::Member;
use crate::shard::barrier::Barrier;
use crate::shard::barrier::Warmth;
use crate::shard::driver::Gauges;
use crate::shard::driver::Idle;
use crate::shard::driver::RecordPort;
use crate::shard::driver::Shard;
use crate::shard::peer::Peer;
use crate::wire::Protocol;
use crate::wire::tls::TlsClient;
use std::fs::File;
use std::fs::TryLockError;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

/// One run for a fleet.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// What is meant.
    pub config: &'a Config,
    /// What is sent.
    pub traffic: &'a Traffic,
    /// Where the files go; exists.
    pub directory: &'a Path,
    /// Which run of a sweep or of several trials it is; absent for one that stands alone.
    pub cell: Option<&'a Cell>,
}

/// The shards of a process.
#[derive(Debug)]
pub struct Fleet<'o> {
    options: &'o RunOptions,
    members: Vec<Member>,
    /// Cold until a run has gone through all members.
    warmth: Warmth,
    /// Servers whose TLS is known to be good.
    looked: tls::Looked,
    /// What servers said of their models.
    asked: context::Asked,
}

/// What a run is driven with, once it is known that it can be.
#[derive(Debug)]
struct Prepared {
    plan: Arc<Plan>,
    protocol: Arc<Protocol>,
    addresses: Vec<Peer>,
    /// Present where an address speaks TLS.
    tls: Option<TlsClient>,
    judgement: Arc<Judgement>,
    connections: u64,
    /// What may be wrong and keeps nothing from starting.
    doubt: Option<String>,
}

impl<'o> Fleet<'o> {
    /// Starts a thread on each core given out; they wait for a run.
    ///
    /// # Errors
    /// The system lets this process have no ring, or glommio can make no executor.
    pub fn start(options: &'o RunOptions) -> Result<Self, RunError> {
        shard::probe()?;
        limits::prepare(options.cores.shards.len() as u64, None)?;
        let cores = (0_u16..).zip(options.cores.shards.iter().copied());
        let members = cores.map(|(number, cpu)| Member::start(number, cpu)).collect::<Result<_, _>>()?;
        Ok(Self {
            options,
            members,
            warmth: Warmth::Cold,
            looked: tls::Looked::default(),
            asked: context::Asked::default(),
        })
    }

    /// Runs a config from the first phase to the last file; `companions` go along.
    ///
    /// # Errors
    /// The run cannot start. What happens to it later is in the outcome.
    pub fn run(
        &mut self,
        assignment: &Assignment<'_>,
        companions: &mut [&mut dyn Companion],
    ) -> Result<RunOutcome, RunError> {
        let Assignment { config, traffic, directory, cell } = *assignment;
        let dataset = &traffic.dataset;
        let options = self.options;
        let prepared = self.prepare(assignment)?;
        // Held until the last file is written.
        let _alone = occupy(directory)?;
        let spare = options.cores.spare();
        let mut collector =
            Collector::start(config, &prepared.plan, &options.telemetry, directory, spare, options.clock)?;
        if traffic.lists_inputs {
            artifact::write_inputs(directory, dataset).map_err(RunError::from_write)?;
        }
        let (recorder, ports) = self.start_recorder(assignment, &prepared)?;
        let (counter, ports) = self.start_counter(assignment, &prepared.judgement, ports)?;
        let log = Log::create(directory, options.clock).map_err(RunError::from_write)?;
        let mut display = Display::new(options.ui, Some(log));
        prepared.doubt.iter().for_each(|doubt| display.doubt(doubt, Audience::User));

        let mut all: Vec<&mut dyn Companion> = vec![&mut collector];
        all.extend(companions.iter_mut().map(|companion| &mut **companion as &mut dyn Companion));
        // Where nobody takes the records away, none of them is missed.
        let are_taken = recorder.is_some() || counter.is_some();
        let gathered = self.drive(assignment, &prepared, ports, counter.as_ref(), &mut display, &mut all);
        let counting = counter.map(Counter::finish).filter(|_| traffic.counts());

        let collected = collector.finish(&mut display);
        let recorded = recorder.map(Recorder::finish).unwrap_or_default();
        let mut faults = gathered.faults;
        let records_lost = if are_taken { gathered.records_lost + recorded.lost } else { 0 };
        faults.extend(recorded.faults);
        faults.extend(collected.faults);
        if records_lost > 0 {
            faults.push(format!("{records_lost} lines of the files of single requests were lost"));
        }
        let run = FinishedRun {
            config,
            dataset,
            clock: options.clock,
            benchmark_id: cell.map_or_else(
                || format!("{:012x}", fastrand::u64(..) >> 16),
                |cell| cell.benchmark_id.clone(),
            ),
            cell,
            cli_command: options.cli_command.clone(),
            phases: gathered.phases,
            interrupted: gathered.interrupted,
            given_up: gathered.given_up,
            records_lost,
            shards: gathered.shards,
            counting,
            calibration: options.calibration,
            telemetry: collected.telemetry,
            warnings: options.tls.doubts(config).into_iter().chain(prepared.doubt).collect(),
            console_width: options.console_width,
        };
        let results = Results::of(&run);
        let (ok, errors) = profiling_counts(&run);
        let written = artifact::write_results(directory, &run, &results);
        faults.extend(written.failures.iter().map(ToString::to_string));
        faults.extend(written.missing);
        if traffic.lists_inputs && !directory.join(artifact::inputs::INPUTS).exists() {
            // Somebody removed it; what was sent is still known.
            faults.extend(artifact::write_inputs(directory, dataset).err().map(|error| error.to_string()));
        }
        faults.extend(display.into_log().and_then(|log| end_log(log, ok, errors, &faults)));
        let console = format!("{}\n{}{}", written.tables, written.footer, calibration::lines(&run));
        let FinishedRun { phases, interrupted, .. } = run;
        Ok(RunOutcome { console, ok, errors, interrupted, faults, phases, results })
    }

    /// All that can keep a run from starting, before anything is written.
    fn prepare(&mut self, assignment: &Assignment<'_>) -> Result<Prepared, RunError> {
        let Assignment { config, traffic, .. } = *assignment;
        let options = self.options;
        if config.phases.len() > PHASES_MAX {
            return Err(RunError::TooManyPhases { count: config.phases.len() });
        }
        let protocol = Arc::new(traffic.protocol(config)?);
        let script = Arc::new(plan::script_of(&traffic.dataset));
        let plan = Arc::new(Plan::for_script(config, &script, fastrand::u64(..), &options.tuning)?);
        let addresses = demand::resolve(config)?;
        ports::check(&options.sources, &addresses)?;
        let tls = tls::client(config, &options.tls)?;
        if let Some(client) = &tls {
            tls::look(config, client, &addresses, &options.sources, &mut self.looked)?;
        }
        let ends = if options.server_inside { 2 } else { 1 };
        let peak = plan.in_flight_peak().map(|peak| peak * ends);
        let connections = limits::prepare(self.members.len() as u64, peak)? / ends;
        let slos = config.slos.iter().flatten().map(|(tag, limit)| (tag.as_str(), *limit));
        let judgement = Judgement::new(slos)?.with_environment(|name| std::env::var(name).ok())?;
        let judgement = Arc::new(judgement);
        let doubt = context::check(config, traffic, options.clock, &mut self.asked)?;
        Ok(Prepared { plan, protocol, addresses, tls, judgement, connections, doubt })
    }

    fn start_recorder(
        &self,
        assignment: &Assignment<'_>,
        prepared: &Prepared,
    ) -> Result<(Option<Recorder>, Vec<Option<RecordPort>>), RunError> {
        let Assignment { config, traffic, directory, .. } = *assignment;
        let shards = usize::from(self.shards_of(config));
        let sinks = traffic
            .sinks(config, directory, self.options.clock, &prepared.judgement, &prepared.addresses)
            .map_err(|(path, source)| RunError::Artifact { path: path.display().to_string(), source })?;
        if sinks.is_empty() {
            return Ok((None, (0..shards).map(|_| None).collect()));
        }
        let (recorder, ports) =
            Recorder::start(sinks, shards, traffic.batch_text_bytes(config)).map_err(RunError::Recording)?;
        Ok((Some(recorder), ports.into_iter().map(Some).collect()))
    }

    /// Puts whoever counts tokens between the shards and the recorder, if somebody must.
    fn start_counter(
        &self,
        assignment: &Assignment<'_>,
        judgement: &Arc<Judgement>,
        ports: Vec<Option<RecordPort>>,
    ) -> Result<(Option<Counter>, Vec<Option<RecordPort>>), RunError> {
        let Assignment { config, traffic, .. } = *assignment;
        if traffic.batch_text_bytes(config) == 0 {
            return Ok((None, ports));
        }
        let work = Work {
            tokenizers: traffic.tokenizers.clone(),
            dataset: Arc::clone(&traffic.dataset),
            judgement: Arc::clone(judgement),
            samples_max: SAMPLES_MAX,
        };
        let (threads, cpus) = cores::for_counting(&self.options.cores);
        let (counter, ports) = Counter::start(ports, &work, threads, &cpus).map_err(RunError::Counting)?;
        Ok((Some(counter), ports))
    }

    /// Gives every shard its part, and watches until all are done.
    fn drive(
        &mut self,
        assignment: &Assignment<'_>,
        prepared: &Prepared,
        ports: Vec<Option<RecordPort>>,
        counter: Option<&Counter>,
        display: &mut Display,
        companions: &mut [&mut dyn Companion],
    ) -> Gathered {
        let options = self.options;
        let Prepared { plan, protocol, addresses, tls, judgement, connections, doubt: _ } = prepared;
        let text_bytes = assignment.traffic.batch_text_bytes(assignment.config);
        let shards = self.shards_of(assignment.config);
        let cpus = options.cores.shards.get(..usize::from(shards)).unwrap_or_default();
        let shared = Arc::new(Shared::new(plan));
        let barrier = Arc::new(Barrier::new(plan, shards).after(self.warmth));
        let gauges: Vec<Arc<Gauges>> = cpus.iter().map(|_| Arc::default()).collect();
        let (sender, messages) = mpsc::channel();
        let stage = Stage {
            plan,
            shared: &shared,
            gauges: &gauges,
            barrier: &barrier,
            directory: assignment.directory,
            clock: options.clock,
        };
        for companion in companions.iter_mut() {
            companion.before_first_phase(&stage);
        }

        let per_shard = demand::connections_per_shard(plan, shards, *connections);
        let idle = options.idle.unwrap_or(if options.cores.own { Idle::Spin } else { Idle::Sleep });
        for (((number, cpu), records), gauges) in (0_u16..).zip(cpus.iter().copied()).zip(ports).zip(&gauges)
        {
            let engine = Engine::new(EngineOptions {
                plan: Arc::clone(plan),
                shared: Arc::clone(&shared),
                dataset: Arc::clone(&assignment.traffic.dataset),
                protocol: Arc::clone(protocol),
                share: Share::new(number, shards),
                connections_max: usize::try_from(per_shard).unwrap_or(usize::MAX),
                samples_max: SAMPLES_MAX.div_ceil(usize::from(shards)),
                batch_records: BATCH_RECORDS,
                batch_text_bytes: text_bytes,
                identifier_seed: fastrand::u64(..),
            })
            .judging(Arc::clone(judgement))
            .speaking_tls(tls.as_ref());
            let shard = Shard {
                engine,
                phases: u16::try_from(plan.phases.len()).unwrap_or(u16::MAX),
                shard: number,
                cpu,
                addresses: addresses.clone(),
                sources: options.sources.starting_at(number),
                sockets: options.sockets,
                barrier: Arc::clone(&barrier),
                interrupt: Arc::clone(&options.interrupt),
                gauges: Arc::clone(gauges),
                messages: sender.clone(),
                records,
                clock: options.clock,
                idle,
                warmth: self.warmth,
            };
            self.hand_over(shard, per_shard);
        }
        drop(sender);

        let conductor = Conductor {
            stage,
            barrier: &barrier,
            messages,
            cpus,
            interrupt: &options.interrupt,
            counter,
            display,
            companions: &mut *companions,
        };
        let gathered = conductor.conduct();
        if usize::from(shards) == self.members.len() {
            self.warmth = Warmth::Warm;
        }
        for companion in companions.iter_mut() {
            companion.after_last_phase(&stage);
        }
        gathered
    }

    /// How many shards a config can keep busy, of those there are.
    fn shards_of(&self, config: &Config) -> u16 {
        let useful = usize::try_from(demand::useful_shards(config)).unwrap_or(usize::MAX);
        u16::try_from(useful.clamp(1, self.members.len().max(1))).unwrap_or(u16::MAX)
    }

    /// Gives a shard its run; one whose thread failed in an earlier run gets a new thread.
    fn hand_over(&mut self, shard: Shard, connections: u64) {
        let Some(member) = self.members.get_mut(usize::from(shard.shard)) else { return };
        let ring = demand::ring_options(connections);
        let Err(shard) = member.drive(Box::new(shard), ring) else { return };
        match Member::start(shard.shard, shard.cpu) {
            Ok(fresh) => {
                std::mem::replace(member, fresh).join();
                self.warmth = Warmth::Cold;
                // A thread that has just been started takes its first run.
                let _ = member.drive(shard, ring);
            }
            Err(error) => shard.decline(&error),
        }
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        for member in self.members.drain(..) {
            member.join();
        }
    }
}

/// Takes the directory for this run alone, and takes away the marker of an earlier run that says that the
/// results are there.
fn occupy(directory: &Path) -> Result<Option<File>, RunError> {
    let alone = match File::open(directory) {
        Ok(open) => match open.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(RunError::Busy { directory: directory.display().to_string() });
            }
            // Not every file system has locks.
            Ok(()) | Err(TryLockError::Error(_)) => Some(open),
        },
        // A directory that can be written and not read is of use, too.
        Err(_) => None,
    };
    // One that was killed while it wrote leaves this one behind; it is written anew in any case.
    let _ = std::fs::remove_file(directory.join(artifact::PROCESSING));
    let marker = directory.join(artifact::READY);
    match std::fs::remove_file(&marker) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(RunError::Artifact { path: marker.display().to_string(), source })
        }
        Ok(()) | Err(_) => Ok(alone),
    }
}

/// Good requests of profiling phases, and all others of them.
fn profiling_counts(run: &FinishedRun<'_>) -> (u64, u64) {
    let profiling = run.phases.iter().filter(|phase| phase.profiling_index.is_some());
    profiling.fold((0, 0), |(ok, errors), phase| {
        let counts = phase.tally.counts();
        (ok + counts.ok, errors + counts.errors())
    })
}

/// Says in the log how the run ended; what went wrong with the log itself.
fn end_log(mut log: Log, ok: u64, errors: u64, faults: &[String]) -> Option<String> {
    for fault in faults {
        log.line(Level::Error, fault);
    }
    let total = ok + errors;
    log.line(Level::Notice, &format!("Processed {ok} valid requests and {errors} errors ({total} total)."));
    log.close().err().map(|failure| failure.to_string())
}
