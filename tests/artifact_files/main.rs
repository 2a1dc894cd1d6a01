//! The files of a finished run: held against a recomputation from the record file, and against the shapes
//! of the reference program's files.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../support/oracle.rs"]
mod again;
mod golden;
#[path = "../support/json_schema.rs"]
mod json_schema;
mod oracle;
mod schema;
mod shapes;
mod switches;
mod synthetic;
