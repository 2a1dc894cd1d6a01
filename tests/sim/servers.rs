//! The servers' ends of simulated connections that speak TLS.

use crate::certificates::{Authority, Clients, GOOD, server};
use phasor::wire::tls::{Roots, TlsClient, Verification};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

/// A connection: shard, slot and life.
pub(crate) type Key = (u16, u32, u32);

/// One server's ends of all connections.
pub(crate) struct Servers {
    config: Arc<ServerConfig>,
    /// What the engines connect with.
    pub(crate) client: TlsClient,
    open: HashMap<Key, ServerConnection>,
}

impl Servers {
    /// A server whose authority the client trusts, or another one.
    pub(crate) fn new(trusted: bool) -> Self {
        let (authority, other) = (Authority::new("authority"), Authority::new("other"));
        let signed = if trusted { &authority } else { &other }.sign(&["127.0.0.1"], GOOD);
        let mut roots = Roots::default();
        roots.add_pem(authority.pem.as_bytes()).unwrap();
        Self {
            config: Arc::new(server(&signed, &Clients::Anybody, &[&TLS12, &TLS13])),
            client: TlsClient::new(roots, Verification::On, None).unwrap(),
            open: HashMap::new(),
        }
    }

    /// What the client's records say, and what the server answers by itself.
    pub(crate) fn hear(&mut self, key: Key, mut records: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let config = &self.config;
        let end = self.open.entry(key).or_insert_with(|| ServerConnection::new(Arc::clone(config)).unwrap());
        let mut heard = Vec::new();
        while !records.is_empty() {
            end.read_tls(&mut records).unwrap();
            // An alert of the client's is a fault, and the end.
            if end.process_new_packets().is_err() {
                break;
            }
            let mut piece = [0; 4_096];
            while let Ok(count @ 1..) = end.reader().read(&mut piece) {
                heard.extend_from_slice(&piece[..count]);
            }
        }
        (heard, records_of(end))
    }

    /// `plain` as records of the connection.
    pub(crate) fn seal(&mut self, key: Key, plain: &[u8]) -> Vec<u8> {
        let end = self.open.get_mut(&key).unwrap();
        end.writer().write_all(plain).unwrap();
        records_of(end)
    }

    /// The farewell.
    pub(crate) fn farewell(&mut self, key: Key) -> Vec<u8> {
        let end = self.open.get_mut(&key).unwrap();
        end.send_close_notify();
        records_of(end)
    }
}

fn records_of(end: &mut ServerConnection) -> Vec<u8> {
    let mut records = Vec::new();
    while end.wants_write() {
        end.write_tls(&mut records).unwrap();
    }
    records
}
