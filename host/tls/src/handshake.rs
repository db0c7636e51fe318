//! Why a handshake failed, in words that say which certificate to look at: the library's name what it found, not whose
//! certificate it was or what to do.

use rustls::{AlertDescription, CertificateError, Error};

/// Why a connection to the other side could not be secured, for whoever set up both sides. `error` is that of the
/// connection; what is none of TLS is returned as it is.
pub fn handshake_failure(error: &std::io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match tls.and_then(words) {
        Some(words) => format!("{words} ({error})"),
        None => error.to_string(),
    }
}

fn words(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::InvalidCertificate(of_other) => match of_other {
            CertificateError::UnknownIssuer => "its certificate is signed by none that this side trusts",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for other names or addresses than the one it was called by"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: compare the clocks"
            }
            // The library has no case of its own for it.
            CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                "its certificate is one that signs others (CA:TRUE), as those that sign themselves mostly are: have it sign \
                 a certificate without that, and use this one"
            }
            _ => return None,
        },
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => "it demands a certificate, and this side has shown none",
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate => "it refused the certificate of this side",
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn it_is_told_whose_certificate_it_is() {
        #[derive(Debug, thiserror::Error)]
        #[error("of another library")]
        struct CaUsedAsEndEntity;
        let of = |error: Error| handshake_failure(&io::Error::new(io::ErrorKind::InvalidData, error));
        for (error, start) in [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "its certificate is signed by none"),
            (Error::InvalidCertificate(CertificateError::NotValidForName), "its certificate is for other names"),
            (
                Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(CaUsedAsEndEntity)))),
                "its certificate is one that signs others",
            ),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "it demands a certificate"),
            (Error::AlertReceived(AlertDescription::UnknownCA), "it refused the certificate of this side"),
        ] {
            let told = of(error.clone());
            assert!(told.starts_with(start) && told.ends_with(&format!("({error})")), "{told}");
        }
        assert_eq!(of(Error::DecryptError), Error::DecryptError.to_string());
        assert_eq!(handshake_failure(&io::Error::other("refused")), "refused");
    }
}
