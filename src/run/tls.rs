//! TLS before the first phase: the files it needs, and one connection to each address that speaks it, so that
//! what cannot work is said before anything has been sent or written.
//!
//! It judges TLS alone. A server that is not there, or does not answer in time, is left to the requests, whose
//! failures say so.

use crate::config::Config;
use crate::shard::peer::Peer;
use crate::shard::sources::Sources;
use crate::wire::tls::{
    Identity, IdentityFault, PemFault, Roots, TlsClient, TlsFault, TlsTarget, Verification,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for the connection, and for each part of the handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest wait for a server to mind a client certificate, which it sees last.
const AFTERTHOUGHT: Duration = Duration::from_millis(300);

/// Reads of one look, at most.
const READS_MAX: usize = 256;

/// What the run says in its report and on stderr while nothing is verified.
const UNVERIFIED: &str = "AIPERF_HTTP_SSL_VERIFY is off: no certificate is verified, so any server, or anybody between, is taken \
     for the one named";

/// What the command line and the environment say about TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Authorities in place of the machine's, in PEM.
    pub ca_files: Vec<PathBuf>,
    /// The authority of the built-in server, in PEM: trusted alone.
    pub built_in: Option<String>,
    /// The client's own certificate and those that lead to its authority, in PEM.
    pub client_cert: Option<PathBuf>,
    /// The key of the client's own certificate, in PEM.
    pub client_key: Option<PathBuf>,
    /// Whether servers must prove who they are.
    pub verification: Verification,
}

impl TlsOptions {
    /// What weakens the word of a run of `config`: it stays in the report.
    pub fn doubts(&self, config: &Config) -> Vec<String> {
        match self.verification {
            Verification::Off if speaks(config) => vec![UNVERIFIED.to_owned()],
            Verification::Off | Verification::On => Vec::new(),
        }
    }

    /// What to say before a run of `config`, its doubts included.
    pub fn warnings(&self, config: &Config) -> Vec<String> {
        let mut warnings = self.doubts(config);
        if !speaks(config) && (!self.ca_files.is_empty() || self.client_cert.is_some()) {
            warnings.push(
                "--ca-file, --client-cert and --client-key are without effect: no address is https"
                    .to_owned(),
            );
        }
        warnings
    }
}

fn speaks(config: &Config) -> bool {
    config.endpoint.urls.iter().any(|url| url.tls)
}

/// Why a run over TLS does not start.
#[derive(Debug, thiserror::Error)]
pub enum TlsRunError {
    /// A file that cannot be read.
    #[error("{flag}: cannot read {}: {source}", .path.display())]
    File {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No certificate can be for such a host.
    #[error("`endpoint.url`: no certificate can be for the host `{0}`: write a name or an address for https")]
    Host(String),
    /// Certificate and key do not go together.
    #[error("--client-cert {} and --client-key {}: {fault}", .cert.display(), .key.display())]
    Identity {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        fault: IdentityFault,
    },
    /// The machine trusts nobody.
    #[error(
        "no certificates of authorities are found on this machine: name one with --ca-file, or install them (package ca-certificates)"
    )]
    NoRoots,
    /// A file that does not hold what it should.
    #[error("{flag}: {}: {fault}", .path.display())]
    Pem {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        fault: PemFault,
    },
    /// A look at the server.
    #[error("{url}: {fault}")]
    Server {
        /// The address as written.
        url: String,
        /// What is wrong.
        fault: TlsFault,
    },
}

/// What the connections of the run share; absent when no address speaks TLS.
///
/// # Errors
/// What is wrong with the files that TLS needs.
pub fn client(config: &Config, options: &TlsOptions) -> Result<Option<TlsClient>, TlsRunError> {
    if !speaks(config) {
        return Ok(None);
    }
    let identity = identity(options)?;
    let roots = match options.verification {
        Verification::Off => Roots::default(),
        Verification::On => roots(options)?,
    };
    let client = TlsClient::new(roots, options.verification, identity).map_err(|fault| {
        let path = |path: &Option<PathBuf>| path.clone().unwrap_or_default();
        TlsRunError::Identity { cert: path(&options.client_cert), key: path(&options.client_key), fault }
    })?;
    let mut urls = config.endpoint.urls.iter().filter(|url| url.tls);
    match urls.find(|url| client.to(&url.host).is_none()) {
        Some(url) => Err(TlsRunError::Host(url.host.clone())),
        None => Ok(Some(client)),
    }
}

fn roots(options: &TlsOptions) -> Result<Roots, TlsRunError> {
    let mut roots = Roots::default();
    for path in &options.ca_files {
        let flag = "--ca-file";
        let fault = |fault| TlsRunError::Pem { flag, path: path.clone(), fault };
        roots.add_pem(&read(flag, path)?).map_err(fault)?;
    }
    if let Some(authority) = &options.built_in {
        let fault = |fault| TlsRunError::Pem { flag: "--mock-tls", path: PathBuf::new(), fault };
        roots.add_pem(authority.as_bytes()).map_err(fault)?;
    }
    if options.ca_files.is_empty() && options.built_in.is_none() {
        let found = rustls_native_certs::load_native_certs();
        if roots.add_machine(found.certs.iter().map(AsRef::as_ref)) == 0 {
            return Err(TlsRunError::NoRoots);
        }
    }
    Ok(roots)
}

fn identity(options: &TlsOptions) -> Result<Option<Identity>, TlsRunError> {
    // The command line asks for both or none.
    let Some((cert, key)) = options.client_cert.as_ref().zip(options.client_key.as_ref()) else {
        return Ok(None);
    };
    let (chain, secret) = (read("--client-cert", cert)?, read("--client-key", key)?);
    let identity = Identity::from_pem(&chain, &secret).map_err(|fault| match fault {
        IdentityFault::Certificate(fault) => {
            TlsRunError::Pem { flag: "--client-cert", path: cert.clone(), fault }
        }
        IdentityFault::Key(fault) => TlsRunError::Pem { flag: "--client-key", path: key.clone(), fault },
        fault @ (IdentityFault::Mismatch | IdentityFault::Unusable(_)) => {
            TlsRunError::Identity { cert: cert.clone(), key: key.clone(), fault }
        }
    })?;
    Ok(Some(identity))
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, TlsRunError> {
    std::fs::read(path).map_err(|source| TlsRunError::File { flag, path: path.to_owned(), source })
}

/// The servers that hands were shaken with, so that each run of a sweep does not shake them anew.
#[derive(Debug, Default)]
pub struct Looked {
    /// Names and where they are.
    good: Vec<(String, SocketAddr)>,
}

/// Shakes hands once with every address of `config` that speaks TLS and that nobody has looked at yet, from the
/// first of `sources` that reaches it.
///
/// # Errors
/// The first fault of TLS that a server, or what answers in its place, shows.
pub fn look(
    config: &Config,
    client: &TlsClient,
    peers: &[Peer],
    sources: &Sources,
    looked: &mut Looked,
) -> Result<(), TlsRunError> {
    for (url, peer) in config.endpoint.urls.iter().zip(peers).filter(|(url, _)| url.tls) {
        let Some(address) = peer.internet() else { continue };
        if looked.good.iter().any(|(host, at)| *host == url.host && *at == address) {
            continue;
        }
        if let Some(target) = client.to(&url.host) {
            let source = sources.starting_at(0).next_for(address);
            shake(&target, address, source)
                .map_err(|fault| TlsRunError::Server { url: url.text.clone(), fault })?;
        }
        looked.good.push((url.host.clone(), address));
    }
    Ok(())
}

/// A connection for a look; what no request could have does not matter here.
fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&address.into(), PATIENCE)?;
    Ok(socket.into())
}

/// Shakes hands and says farewell. What is no fault of TLS passes.
fn shake(target: &TlsTarget, address: SocketAddr, source: Option<IpAddr>) -> Result<(), TlsFault> {
    let Ok(mut stream) = connect(address, source) else { return Ok(()) };
    let timed =
        stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    if timed.is_err() {
        return Ok(());
    }
    let mut session = target.begin()?;
    let (mut records, mut plain, mut bytes) = (Vec::new(), Vec::new(), vec![0; 16 * 1_024]);
    let mut asked = false;
    for _ in 0..READS_MAX {
        if session.is_established() && !asked {
            // A server minds a client certificate only now; a farewell makes it answer soon.
            asked = true;
            session.close();
            let _ = stream.set_read_timeout(Some(AFTERTHOUGHT));
        }
        session.take_records(&mut records);
        if stream.write_all(&records).is_err() && asked {
            return Ok(());
        }
        records.clear();
        if asked {
            let _ = stream.shutdown(Shutdown::Write);
        }
        match stream.read(&mut bytes) {
            Ok(0) if asked => return Ok(()),
            Ok(0) => return Err(TlsFault::Closed),
            Ok(count) => {
                let received = session.receive(bytes.get(..count).unwrap_or_default(), &mut plain);
                if let Err(fault) = received {
                    session.take_records(&mut records);
                    // The server may have gone already; the fault is known.
                    let _ = stream.write_all(&records);
                    return Err(fault);
                }
                plain.clear();
                if session.is_peer_closed() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}
