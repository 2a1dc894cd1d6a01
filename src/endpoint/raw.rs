//! `raw`: payloads that are sent as the dataset has them.

use crate::endpoint::detect;
use crate::endpoint::{Can, Dialect, EndpointError};

pub(in crate::endpoint) static RAW: Dialect = Dialect {
    name: "raw",
    path: "",
    streaming_path: None,
    can: Can {
        stream: true,
        tokenize_input: true,
        produce_tokens: true,
        take_system: false,
        take_history: false,
        report_usage: false,
    },
    // Turns that have a payload never come here.
    render: |settings, _| {
        Err(EndpointError::Missing {
            dialect: settings.dialect.name,
            what: "whole payloads: a dataset of the format `raw_payload`, `inputs_json` or `mooncake_trace`",
        })
    },
    read: detect::read,
};
