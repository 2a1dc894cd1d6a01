//! What the connections of a run share: whom they trust, who they are, and what earlier ones left behind.

use crate::wire::tls::{TlsFault, TlsSession};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Hosts whose sessions one shard can take up again.
const RESUMABLE_HOSTS: usize = 64;

/// Whether the server must prove who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// Anybody is taken for the server.
    Off,
    /// Its certificate is held against the roots, the host and the date.
    #[default]
    On,
}

/// Why a text in PEM is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemFault {
    /// A key that asks for a password.
    #[error("the key is encrypted: take its password off, for example with `openssl pkey -in OLD -out NEW`")]
    Encrypted,
    /// Something between BEGIN and END is wrong.
    #[error("it is no PEM: {0}")]
    Malformed(String),
    /// There is no certificate.
    #[error("it holds no certificate: expected `-----BEGIN CERTIFICATE-----`")]
    NoCertificate,
    /// There is no key.
    #[error("it holds no private key: expected `-----BEGIN PRIVATE KEY-----`")]
    NoKey,
    /// A certificate that cannot be trusted as an authority.
    #[error("certificate {number} cannot be an authority: {reason}")]
    Unusable {
        /// Which one of the text, from 1.
        number: usize,
        /// Why.
        reason: String,
    },
}

/// The authorities that are trusted.
#[derive(Clone, Debug)]
pub struct Roots {
    store: RootCertStore,
}

impl Default for Roots {
    /// Nobody is trusted.
    fn default() -> Self {
        Self { store: RootCertStore::empty() }
    }
}

impl Roots {
    /// Trusts every certificate of a text in PEM. Gives their number, at least 1.
    ///
    /// # Errors
    /// When it holds none, or one that cannot be an authority.
    pub fn add_pem(&mut self, text: &[u8]) -> Result<usize, PemFault> {
        let certificates = certificates(text)?;
        let count = certificates.len();
        for (number, certificate) in (1..).zip(certificates) {
            self.store
                .add(certificate)
                .map_err(|error| PemFault::Unusable { number, reason: error.to_string() })?;
        }
        Ok(count)
    }

    /// Trusts the certificates of the machine, in DER, as far as they can be read: a few are always odd.
    /// Gives the number taken.
    pub fn add_machine<'d>(&mut self, certificates: impl Iterator<Item = &'d [u8]>) -> usize {
        self.store.add_parsable_certificates(certificates.map(|der| CertificateDer::from(der.to_vec()))).0
    }
}

/// A certificate of the client's own, and its key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Which part of an identity is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityFault {
    /// The certificate's text.
    #[error(transparent)]
    Certificate(PemFault),
    /// The key's text.
    #[error(transparent)]
    Key(PemFault),
    /// Each is good, but not with the other.
    #[error("the key does not belong to the certificate")]
    Mismatch,
    /// The key is of a kind that cannot be used.
    #[error("the key cannot be used: {0}")]
    Unusable(String),
}

impl IdentityFault {
    fn of(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(_) => Self::Mismatch,
            other => Self::Unusable(other.to_string()),
        }
    }
}

impl Identity {
    /// From two texts in PEM: the chain, the client's own certificate first, and the key.
    ///
    /// # Errors
    /// When one of them is none. Whether they belong together is seen in [`TlsClient::new`].
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, IdentityFault> {
        let chain = certificates(chain).map_err(IdentityFault::Certificate)?;
        let encrypted = memchr::memmem::find(key, b"ENCRYPTED").is_some();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            IdentityFault::Key(match error {
                rustls::pki_types::pem::Error::NoItemsFound if encrypted => PemFault::Encrypted,
                rustls::pki_types::pem::Error::NoItemsFound => PemFault::NoKey,
                _ if encrypted => PemFault::Encrypted,
                other => PemFault::Malformed(other.to_string()),
            })
        })?;
        Ok(Self { chain, key })
    }
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| PemFault::Malformed(error.to_string()))?;
    if certificates.is_empty() { Err(PemFault::NoCertificate) } else { Ok(certificates) }
}

/// What all connections of a run share.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// A client that offers HTTP/1.1 over TLS 1.2 and 1.3.
    ///
    /// # Errors
    /// When the identity's certificate and key do not belong together, or are of a kind that is not known.
    pub fn new(
        roots: Roots,
        verification: Verification,
        identity: Option<Identity>,
    ) -> Result<Self, IdentityFault> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(IdentityFault::of)?;
        let builder = match verification {
            Verification::Off => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody { provider }))
            }
            Verification::On => builder.with_root_certificates(roots.store),
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain, key).map_err(IdentityFault::of)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }

    /// The way to `host`, a name or an address without brackets, with a memory of its own for sessions to
    /// take up again; absent when no certificate can be for such a host.
    pub fn to(&self, host: &str) -> Option<TlsTarget> {
        let name = ServerName::try_from(host).ok()?.to_owned();
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(RESUMABLE_HOSTS);
        Some(TlsTarget { config: Arc::new(config), name })
    }
}

/// The way to one host: where sessions begin.
#[derive(Clone, Debug)]
pub struct TlsTarget {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsTarget {
    /// The client's end of a new connection; its first record is ready to be sent.
    ///
    /// # Errors
    /// When there are no random bytes.
    pub fn begin(&self) -> Result<TlsSession, TlsFault> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map(TlsSession::client)
            .map_err(TlsFault::of)
    }
}

/// Takes anybody for the server, who must still have the key of the certificate shown.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
