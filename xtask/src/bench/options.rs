//! What `cargo xtask bench peers` is told.

use std::path::PathBuf;

/// The stores that Tidegate is compared with.
pub(crate) const PEERS: [&str; 3] = ["duckdb", "chdb", "postgres"];

pub(crate) const HELP: &str = "\
cargo xtask bench peers [OPTION...]

  --records N       edge records, beside those of the other sources (100000)
  --seed N          of the records (1)
  --runs N          of each question and system, at least 7 (7)
  --questions A,B   folders of xtask/bench/questions; all unless told
  --peers A,B       of duckdb, chdb, postgres; all unless told
  --threads N       of each system (2)
  --state NAME      fresh: loaded and in segments, none merged (unless told); compacted: merged by the background;
                    busy: while 10,000 events a second come in
  --bin PATH        the service; else cargo build --release -p tidegate";

/// When and in what state the questions are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Fresh,
    Compacted,
    Busy,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) records: u64,
    pub(crate) seed: u64,
    pub(crate) runs: usize,
    pub(crate) questions: Vec<String>,
    pub(crate) peers: Vec<String>,
    pub(crate) threads: usize,
    pub(crate) state: State,
    pub(crate) binary: Option<PathBuf>,
}

impl Options {
    /// # Errors
    /// What is not understood.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            records: 100_000,
            seed: 1,
            runs: 7,
            questions: Vec::new(),
            peers: PEERS.map(str::to_owned).to_vec(),
            threads: 2,
            state: State::Fresh,
            binary: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{HELP}"))?;
            let number = || {
                value
                    .parse::<u64>()
                    .ok()
                    .filter(|number| *number > 0)
                    .ok_or_else(|| format!("{name} wants a number, not {value}"))
            };
            let list = || value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
            match name.as_str() {
                "--records" => options.records = number()?,
                "--seed" => options.seed = number()?,
                "--runs" => options.runs = number()? as usize,
                "--threads" => options.threads = number()? as usize,
                "--questions" => options.questions = list(),
                "--peers" => options.peers = list(),
                "--bin" => options.binary = Some(PathBuf::from(&value)),
                "--state" => {
                    options.state = match value.as_str() {
                        "fresh" => State::Fresh,
                        "busy" => State::Busy,
                        "compacted" => State::Compacted,
                        other => return Err(format!("there is no state {other}; there are fresh, compacted and busy")),
                    }
                }
                _ => return Err(format!("{name} is not understood\n\n{HELP}")),
            }
        }
        if options.runs < 7 {
            return Err("a median and a spread want at least 7 runs".to_owned());
        }
        if let Some(unknown) = options.peers.iter().find(|name| !PEERS.contains(&name.as_str())) {
            return Err(format!("there is no peer {unknown}; there are {}", PEERS.join(", ")));
        }
        Ok(options)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, String> {
        Options::read(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read() {
        let options = read("--records 5 --questions a,b --peers chdb --state busy").unwrap();
        assert_eq!((options.records, options.runs, options.state), (5, 7, State::Busy));
        assert_eq!((options.questions, options.peers), (vec!["a".to_owned(), "b".to_owned()], vec!["chdb".to_owned()]));
        assert_eq!(read("--state compacted").unwrap().state, State::Compacted);
        assert!(read("--state old").unwrap_err().contains("compacted"));
        for wrong in ["--runs 3", "--records none", "--records", "--peers mysql", "--fast 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
