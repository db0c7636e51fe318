//! Workers: where they are, and when statements are given to them.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_cluster::stages::StageOptions;
use tidegate_tls::{ClientTls, TlsError, TlsFiles};
use tidegate_workers::{Connect, RemoteWorkers, WorkerAddress, is_loopback};

/// The workers of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Where they are; none runs every statement in this process.
    pub workers: Vec<WorkerAddress>,
    /// The certificate of this server for its workers, in PEM.
    pub tls_certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub tls_key: Option<PathBuf>,
    /// The certificates that sign those of workers.
    pub tls_ca: Option<PathBuf>,
    /// The fewest bytes of segments of a scan that are worth a task.
    pub least_bytes: u64,
    /// The fewest rows of the scans of a statement for which workers exchange rows.
    pub least_exchanged_rows: u64,
    /// The name of the build of this program: workers of another one are not used. It is no setting.
    pub build: Arc<str>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            workers: Vec::new(),
            tls_certificate: None,
            tls_key: None,
            tls_ca: None,
            least_bytes: 16 << 20,
            least_exchanged_rows: 2_000_000,
            build: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

impl ClusterOptions {
    /// Checks the settings against each other.
    ///
    /// # Errors
    /// What contradicts each other, and how to mend it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let files = [&self.tls_certificate, &self.tls_key, &self.tls_ca];
        let set = files.iter().filter(|file| file.is_some()).count();
        if set != 0 && set != files.len() {
            let message = "[cluster] TLS to workers needs all of tls_certificate, tls_key and tls_ca";
            return Err(message.to_owned());
        }
        let far = self.workers.iter().find(|worker| match worker {
            WorkerAddress::Fixed(address) => !is_loopback(*address),
            WorkerAddress::Named(host, _) => host.as_ref() != "localhost",
        });
        match far {
            Some(worker) if set == 0 => Err(format!(
                "[cluster] workers has {worker}, which may be another machine: set tls_certificate, tls_key and tls_ca"
            )),
            _ => Ok(()),
        }
    }

    /// When workers are given scans, and exchange rows.
    pub(crate) fn stages(&self) -> StageOptions {
        let Self { least_bytes, least_exchanged_rows, .. } = *self;
        StageOptions { least_bytes, least_rows: 0, least_exchanged_rows, always: false }
    }

    /// The workers, if there are any. Within the runtime on which they are watched.
    ///
    /// # Errors
    /// If the certificates cannot be used.
    pub(crate) fn start(&self) -> Result<Option<Arc<RemoteWorkers>>, ClusterError> {
        if self.workers.is_empty() {
            return Ok(None);
        }
        let files = (self.tls_certificate.clone(), self.tls_key.clone(), self.tls_ca.clone());
        let connect = match files {
            (Some(certificate), Some(key), Some(authority)) => {
                let files = TlsFiles { certificate, key, authority: Some(authority), protocols: &["h2"], tickets: 0 };
                Connect::Tls(Arc::new(ClientTls::client(files)?))
            }
            _ => Connect::Loopback,
        };
        RemoteWorkers::start(&self.workers, connect, Arc::clone(&self.build)).map(Some).map_err(ClusterError::Workers)
    }
}

/// Why workers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The certificates cannot be used.
    #[error("[cluster] {0}")]
    Tls(#[from] TlsError),
    /// An address cannot be used.
    #[error("[cluster] {0}")]
    Workers(String),
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn with(workers: &str, files: usize) -> Result<(), String> {
        let workers = workers.split(' ').map(|worker| worker.parse().unwrap()).collect();
        let file = |n: usize| (n < files).then(|| PathBuf::from("file.pem"));
        ClusterOptions {
            workers,
            tls_certificate: file(0),
            tls_key: file(1),
            tls_ca: file(2),
            ..ClusterOptions::default()
        }
        .check()
    }

    #[test]
    fn other_machines_need_tls() {
        ClusterOptions::default().check().unwrap();
        with("127.0.0.1:4100 [::1]:4100 localhost:4100", 0).unwrap();
        for far in ["10.0.0.1:4100", "127.0.0.1:4100 workers:4100"] {
            assert!(with(far, 0).unwrap_err().contains("another machine"));
            with(far, 3).unwrap();
        }
        for files in [1, 2] {
            assert!(with("127.0.0.1:4100", files).unwrap_err().contains("needs all"));
        }
    }
}
