//! The report: a table in Markdown, ready to be put into docs/contributing/measurements/race.md.

use std::time::Duration;

/// The times of one system for one question; empty where it was not asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
        self.0.sort_unstable();
    }

    /// The one in the middle; of an even number, the lower of the two.
    pub(crate) fn median(&self) -> Option<Duration> {
        self.0.get(self.0.len().saturating_sub(1) / 2).copied()
    }

    fn shown(&self) -> String {
        match (self.median(), self.0.first(), self.0.last()) {
            (Some(median), Some(least), Some(most)) => {
                format!("{} ({}..{})", number(median), number(*least), number(*most))
            }
            _ => "-".to_owned(),
        }
    }
}

/// Milliseconds with as many digits as mean something.
fn number(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1_000.0;
    if milliseconds < 9.95 { format!("{milliseconds:.1}") } else { format!("{milliseconds:.0}") }
}

/// The times of all systems for one question, Tidegate's first.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) question: String,
    pub(crate) about: String,
    pub(crate) times: Vec<Times>,
    pub(crate) cost: Cost,
}

/// What a question costs Tidegate.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    /// Processor time of the service.
    pub(crate) ran: Times,
    /// What its statements read of segments.
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Line {
    /// The median of the fastest peer as a multiple of Tidegate's: over 1, Tidegate is faster.
    fn ratio(&self) -> Option<f64> {
        let (service, peers) = self.times.split_first()?;
        let best = peers.iter().filter_map(Times::median).min()?;
        Some(best.as_secs_f64() / service.median()?.as_secs_f64().max(1e-9))
    }
}

/// The table of all questions. `systems` are the names of the columns, Tidegate's first.
pub(crate) fn table(systems: &[String], lines: &[Line]) -> String {
    let mut text =
        format!("| Question | {} | ratio |\n|---|{}---:|\n", systems.join(" | "), "---:|".repeat(systems.len()));
    for line in lines {
        let times: Vec<String> = line.times.iter().map(Times::shown).collect();
        let ratio = line.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        text.push_str(&format!("| `{}`: {} | {} | {ratio} |\n", line.question, line.about, times.join(" | ")));
    }
    let ratios: Vec<f64> = lines.iter().filter_map(Line::ratio).collect();
    if !ratios.is_empty() {
        let first = ratios.iter().filter(|ratio| **ratio >= 1.0).count();
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        text.push_str(&format!(
            "\nTidegate is first in {first} of {}; geometric mean of the ratios {mean:.2}.\n",
            ratios.len()
        ));
    }
    text
}

/// The table of what the questions cost Tidegate.
pub(crate) fn costs(lines: &[Line]) -> String {
    let mut text = "| Question | processors of Tidegate, ms | rows read | MB read |\n|---|---:|---:|---:|\n".to_owned();
    for Line { question, cost: Cost { ran, rows, bytes }, .. } in lines {
        let ran = ran.median().map_or_else(|| "-".to_owned(), number);
        text.push_str(&format!("| `{question}` | {ran} | {rows} | {:.1} |\n", *bytes as f64 / 1e6));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(milliseconds: &[u64]) -> Times {
        let mut times = Times::default();
        milliseconds.iter().for_each(|time| times.add(Duration::from_millis(*time)));
        times
    }

    fn line(name: &str, times: Vec<Times>) -> Line {
        let cost = Cost { ran: self::times(&[3, 4, 5]), rows: 1_000, bytes: 2_500_000 };
        Line { question: name.to_owned(), about: "what".to_owned(), times, cost }
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(times(&[5, 1, 9]).median(), Some(Duration::from_millis(5)));
        assert_eq!(times(&[4, 1, 3, 2]).median(), Some(Duration::from_millis(2)));
        assert_eq!(times(&[]).median(), None);
    }

    #[test]
    fn the_ratio_is_to_the_best_peer() {
        let lines = [
            line("a", vec![times(&[10, 9, 12]), times(&[40]), times(&[20, 5, 60])]),
            line("b", vec![times(&[100]), times(&[25]), Times::default()]),
            line("c", vec![times(&[100]), Times::default(), Times::default()]),
        ];
        let text = table(&["Tidegate".to_owned(), "One".to_owned(), "Other".to_owned()], &lines);
        let expected = "| Question | Tidegate | One | Other | ratio |\n|---|---:|---:|---:|---:|\n\
            | `a`: what | 10 (9.0..12) | 40 (40..40) | 20 (5.0..60) | 2.00 |\n\
            | `b`: what | 100 (100..100) | 25 (25..25) | - | 0.25 |\n\
            | `c`: what | 100 (100..100) | - | - | - |\n\n\
            Tidegate is first in 1 of 2; geometric mean of the ratios 0.71.\n";
        assert_eq!(text, expected);
        assert!(costs(&lines).ends_with("\n| `c` | 4.0 | 1000 | 2.5 |\n"), "{}", costs(&lines));
    }
}
