//! Certificates made for one test: an authority, and what it signs.

#![allow(dead_code, reason = "each test uses its own part")]

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::sync::Arc;

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Signed {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// The years in which a certificate is good.
pub(crate) const GOOD: (i32, i32) = (2020, 4000);
pub(crate) const EXPIRED: (i32, i32) = (2020, 2021);
pub(crate) const NOT_YET: (i32, i32) = (3999, 4000);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for `names`, which are names of hosts or addresses.
    pub(crate) fn sign(&self, names: &[&str], (from, to): (i32, i32)) -> Signed {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed { chain, key: key.serialize_pem() }
    }
}

/// Whether a server asks its clients who they are.
pub(crate) enum Clients<'a> {
    Anybody,
    SignedBy(&'a Authority),
}

/// A server with this certificate, on these versions of TLS.
pub(crate) fn server(
    signed: &Signed,
    clients: &Clients<'_>,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).unwrap();
    let builder = match clients {
        Clients::Anybody => builder.with_no_client_auth(),
        Clients::SignedBy(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = CertificateDer::pem_slice_iter(signed.chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // TLS 1.2 resumes by tickets, too.
    config.ticketer = rustls::crypto::ring::Ticketer::new().unwrap();
    config
}
