//! The server's side of TLS: an authority and a certificate made when the server starts, and the sessions
//! that show it. The keys never leave the process.

use crate::wire::tls::TlsSession;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// What a server that speaks TLS shows its clients.
#[derive(Debug)]
pub(super) struct Certificate {
    /// The authority that signed it, in PEM: who trusts it trusts the server.
    pub(super) authority: String,
    config: Arc<ServerConfig>,
}

impl Certificate {
    /// Makes one for `localhost`, the loopback addresses and `address`.
    pub(super) fn new(address: IpAddr) -> io::Result<Self> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let address = address.to_string();
        if !names.contains(&address) {
            names.push(address);
        }
        Self::signed(names).map_err(io::Error::other)
    }

    fn signed(names: Vec<String>) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "phasor mock authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);

        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "phasor mock");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));

        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // One key for all threads, so that a session begun on one is taken up on any.
        config.ticketer = ring::Ticketer::new()?;
        Ok(Self { authority, config: Arc::new(config) })
    }

    /// The server's end of a new connection.
    pub(super) fn begin(&self) -> Option<Box<TlsSession>> {
        TlsSession::server(&self.config).ok().map(Box::new)
    }
}
