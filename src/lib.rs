//! phasor drives LLM inference servers through named load phases and reports each phase exactly.
//!
//! The modules stand in the order in which a run flows through them. The ground is pure: no clock, no
//! socket, no unsafe code; `now` is always an argument.
//!
//! | floor | module | what it turns into what |
//! |---|---|---|
//! | ground | [`time`] | the only clock; stamps and spans |
//! | ground | [`rng`] | AIPerf's seeded random streams |
//! | ground | [`prometheus`] | pages of metrics into families of samples |
//! | ground | [`config`] | a YAML file into what is meant, or every fault with its place |
//! | ground | [`tokenizer`] | texts into tokens and back |
//! | ground | [`endpoint`] | turns of a conversation into payloads, replies into texts and usage |
//! | ground | [`dataset`] | a meant dataset into rendered request bodies |
//! | ground | [`schedule`] | a phase and a seed into due times, request numbers and cancellations |
//! | ground | [`wire`] | bytes into replies; requests into bytes |
//! | ground | [`measure`] | finished requests into samples, tallies and statistics |
//! | ground | [`adaptive`] | windows of finished requests into the load to come |
//! | ground | [`telemetry`] | pages of servers and samples of GPUs into figures of phases |
//! | decisions | [`plan`] | a config into phases that any number of shards can share |
//! | decisions | [`engine`] | one shard as a state machine: events in, actions out |
//! | machine | [`shard`] | a pinned executor and its ring: the engine's actions on real sockets |
//! | run | [`run`] | shards conducted through the phases, tallies merged |
//! | run | [`artifact`] | tallies and records into AIPerf's files and phasor's own |
//! | run | [`mock`] | the built-in inference server |
//! | top | [`cli`] | the command line |
//!
//! `tests/layering.rs` fails on an edge that this table does not allow.

#![deny(unsafe_code)]

pub mod time;

pub mod rng;

pub mod prometheus;

pub mod config;

pub mod tokenizer;

pub mod endpoint;

pub mod dataset;

pub mod schedule;

pub mod wire;

pub mod measure;

pub mod adaptive;
pub mod telemetry;

pub mod plan;

pub mod engine;

pub mod shard;

pub mod run;

pub mod artifact;

pub mod mock;

pub mod cli;
