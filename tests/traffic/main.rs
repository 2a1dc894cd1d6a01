//! Real prompts over real sockets: what a server that writes everything down has seen of a run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod built_in;
mod endpoints;
#[path = "../support/program.rs"]
mod program;
mod replies;
mod requests;
mod server;
mod sessions;
