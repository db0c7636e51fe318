//! Why a handshake failed, in words that say which certificate to look at: the library's name what it found, not whose
//! certificate it was or what to do.

use rustls::{CertificateError, Error};

/// How the library's text of an alert begins; its name follows.
const ALERT: &str = "received fatal alert: ";

/// Why a connection to the other side could not be secured, for whoever set up both sides. `error` is that of the
/// connection; what is none of TLS is returned as it is.
///
/// In TLS 1.3, a side that refuses a certificate says so with an alert after the other side's handshake is done. What
/// speaks HTTP/2 then hands on the text of the error only.
pub fn handshake_failure(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(reason)) => of_its_certificate(reason),
        _ => text.strip_prefix(ALERT).and_then(of_alert),
    };
    match words {
        Some(words) => format!("{words} ({text})"),
        None => text,
    }
}

fn of_its_certificate(reason: &CertificateError) -> Option<&'static str> {
    Some(match reason {
        // A bad signature is that of another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is signed by none that this side trusts"
        }
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
    })
}

fn of_alert(name: &str) -> Option<&'static str> {
    Some(match name {
        "CertificateRequired" => "it demands a certificate, and this side has shown none",
        "UnknownCA"
        | "BadCertificate"
        | "DecryptError"
        | "CertificateUnknown"
        | "CertificateExpired"
        | "UnsupportedCertificate" => "it refused the certificate of this side",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use rustls::{AlertDescription, OtherError};

    use super::*;

    #[test]
    fn it_is_told_whose_certificate_it_is() {
        #[derive(Debug, thiserror::Error)]
        #[error("of another library")]
        struct CaUsedAsEndEntity;
        let of = |error: Error| handshake_failure(&io::Error::new(io::ErrorKind::InvalidData, error));
        for (error, start) in [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "its certificate is signed by none"),
            (Error::InvalidCertificate(CertificateError::BadSignature), "its certificate is signed by none"),
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
        let alert = Error::AlertReceived(AlertDescription::DecryptError).to_string();
        assert!(handshake_failure(&io::Error::other(alert)).starts_with("it refused the certificate of this side"));
        assert_eq!(of(Error::DecryptError), Error::DecryptError.to_string());
        assert_eq!(handshake_failure(&io::Error::other("refused")), "refused");
    }
}
