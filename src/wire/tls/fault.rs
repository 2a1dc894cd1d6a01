//! What goes wrong with TLS, in words that say what to do.

use rustls::{AlertDescription, CertificateError, Error};

/// Why a connection that speaks TLS cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TlsFault {
    /// The peer ended the connection over something on this side.
    #[error("the server refused the TLS connection ({alert}){hint}")]
    Alert {
        /// The alert's name.
        alert: String,
        /// What to do, with what leads to it.
        hint: &'static str,
    },
    /// Bytes that are no TLS records of this connection.
    #[error("the TLS connection is broken: {detail}")]
    Broken {
        /// What is wrong with them.
        detail: String,
    },
    /// A certificate that is not good, for another reason.
    #[error("the server's certificate is not good: {detail}")]
    Certificate {
        /// What is wrong with it.
        detail: String,
    },
    /// The peer closed before the handshake was over.
    #[error("the server closed the connection during the TLS handshake: it may not speak TLS on this port")]
    Closed,
    /// The certificate's time is over.
    #[error("the server's certificate has expired ({detail}): renew it, or set the clock of this machine")]
    Expired {
        /// When.
        detail: String,
    },
    /// The two sides do not agree on a version, a cipher or a protocol.
    #[error("the server and phasor have no TLS in common: {detail}")]
    Incompatible {
        /// What they do not agree on.
        detail: String,
    },
    /// The certificate's time has not come.
    #[error("the server's certificate is not valid yet ({detail}): set the clock of this machine")]
    NotYetValid {
        /// From when on it is.
        detail: String,
    },
    /// What answers is something else.
    #[error("the server does not speak TLS on this port{}", if *.http { ": write `http://` in place of `https://`" } else { "" })]
    NotTls {
        /// It answers in letters, as HTTP does.
        http: bool,
    },
    /// The stream ended without a farewell in the middle of a reply.
    #[error(
        "the connection ended in the middle of the reply without the server's farewell (close_notify): \
         it was cut, perhaps by something between"
    )]
    Truncated,
    /// Nobody that is trusted has signed it.
    #[error(
        "the server's certificate is signed by nobody that is trusted here: name the certificate of its \
         authority with --ca-file"
    )]
    UnknownIssuer,
    /// The certificate is somebody else's.
    #[error("the server's certificate is not for this host: {detail}")]
    WrongName {
        /// Which name was looked for and which are there.
        detail: String,
    },
}

impl TlsFault {
    /// What rustls says.
    pub(super) fn of(error: Error) -> Self {
        match error {
            Error::AlertReceived(alert) => Self::Alert { alert: format!("{alert:?}"), hint: hint_of(alert) },
            Error::InvalidCertificate(fault) => Self::of_certificate(&fault),
            Error::PeerIncompatible(what) => Self::Incompatible { detail: format!("{what:?}") },
            Error::NoApplicationProtocol => {
                Self::Incompatible { detail: "it does not offer HTTP/1.1".to_owned() }
            }
            other => Self::Broken { detail: other.to_string() },
        }
    }

    fn of_certificate(fault: &CertificateError) -> Self {
        let detail = fault.to_string();
        match fault {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired { detail },
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid { detail }
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName { detail }
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            _ => Self::Certificate { detail },
        }
    }

    /// Whether the server's certificate is at fault.
    pub const fn is_certificate(&self) -> bool {
        match self {
            Self::Certificate { .. }
            | Self::Expired { .. }
            | Self::NotYetValid { .. }
            | Self::UnknownIssuer
            | Self::WrongName { .. } => true,
            Self::Alert { .. }
            | Self::Broken { .. }
            | Self::Closed
            | Self::Incompatible { .. }
            | Self::NotTls { .. }
            | Self::Truncated => false,
        }
    }
}

/// What an alert asks for.
fn hint_of(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => {
            ": it asks for a client certificate, named with --client-cert and --client-key"
        }
        AlertDescription::AccessDenied
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError
        | AlertDescription::UnknownCA
        | AlertDescription::UnsupportedCertificate => {
            ": it does not accept the client certificate, or there is none (--client-cert, --client-key)"
        }
        AlertDescription::UnrecognisedName => ": it does not know the host's name",
        _ => "",
    }
}
