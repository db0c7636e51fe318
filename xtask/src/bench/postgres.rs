//! A PostgreSQL server of the benchmark's own, on a socket in its own folder and without any network.

use std::fs::{File, create_dir_all};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{output, python, run};

/// How long it may take to be there.
const START: Duration = Duration::from_secs(60);
/// A longer path is no address of a socket.
const LONGEST: usize = 100;

/// A running server; it ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
}

impl Server {
    /// Starts a server with data and socket in a folder that is there and empty.
    ///
    /// # Errors
    /// Where there is no PostgreSQL and none can be installed, or it does not start.
    pub(crate) fn start(folder: &Path) -> Result<Self, String> {
        let programs = programs()?;
        if folder.as_os_str().len() > LONGEST {
            return Err(format!("the path of {} is too long for a socket", folder.display()));
        }
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        // The server refuses to run as root: then it runs as the user that its package makes.
        let user = if output(Command::new("id").arg("-u"))?.trim() == "0" { Some(user()?) } else { None };
        create_dir_all(folder).map_err(told)?;
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(folder, Some(user), Some(group)).map_err(told)?;
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir("/");
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.join("data");
        run(command("initdb")
            .args(["--username=postgres", "--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync", "--pgdata"])
            .arg(&data)
            .stdout(Stdio::null()))?;
        let log = File::create(folder.join("server.log")).map_err(told)?;
        let process = command("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(folder)
            .args(["-c", "listen_addresses=", "-c", "shared_buffers=1GB", "-c", "work_mem=64MB"])
            .args(["-c", "maintenance_work_mem=512MB", "-c", "max_wal_size=8GB", "-c", "unix_socket_permissions=0700"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(told)?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("PostgreSQL does not start: {error}"))?;
        let mut server = Self { process };
        let began = Instant::now();
        loop {
            let ready = Command::new(programs.join("pg_isready")).arg("-q").arg("-h").arg(folder).status();
            if ready.is_ok_and(|status| status.success()) {
                return Ok(server);
            }
            if began.elapsed() > START || server.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                let said = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
                return Err(format!("PostgreSQL does not start:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Interrupted, it ends at once and takes its children with it; killed, it would leave them.
        let _ = Command::new("kill").arg("-INT").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// The folder of the newest PostgreSQL of this machine; it is installed if there is none.
fn programs() -> Result<PathBuf, String> {
    if let Some(folder) = installed() {
        return Ok(folder);
    }
    python::apt(&["postgresql"])?;
    installed().ok_or_else(|| "there is no initdb".to_owned())
}

fn installed() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder)| folder.join("initdb").is_file())
        .collect();
    folders.sort();
    folders.pop().map(|(_, folder)| folder).or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file())
    })
}

/// The numbers of the user and of the group that the package makes.
fn user() -> Result<(u32, u32), String> {
    let number = |option: &str| {
        let told = output(Command::new("id").args([option, "postgres"]))?;
        told.trim().parse::<u32>().map_err(|error| format!("the user postgres: {error}"))
    };
    Ok((number("-u")?, number("-g")?))
}
