//! The questions: a folder each, with the SQL of each system in a file of its own.
//!
//! `@name` in a file is filled with a value that all systems get alike. `tidegate.sql` begins with the endpoint that is
//! asked and the parameters that it is sent; without a statement after them the endpoint's own query answers. A file may
//! have several statements, each ended by `;` at the end of a line: their times are added.

use std::path::Path;

/// What `@name` stands for.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// One request to Tidegate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) endpoint: String,
    /// Names and values, the statement among them as `sql`.
    pub(crate) parameters: Vec<(String, String)>,
}

/// A question, ready to be asked.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) requests: Vec<Request>,
    folder: std::path::PathBuf,
    parameters: Parameters,
}

impl Question {
    /// The statements of a peer.
    ///
    /// # Errors
    /// Where its file is not there or names a parameter that there is none of.
    pub(crate) fn statements(&self, peer: &str) -> Result<Vec<String>, String> {
        let text = read(&self.folder.join(format!("{peer}.sql")))?;
        let text: String =
            text.lines().filter(|line| !line.starts_with("--")).map(|line| format!("{line}\n")).collect();
        split(&text).iter().map(|statement| fill(statement, &self.parameters, true)).collect()
    }
}

/// The questions of a folder: all, or those that are named, in the order of the names.
///
/// # Errors
/// A name that is not there, or a file that cannot be read.
pub(crate) fn questions(folder: &Path, names: &[String], parameters: &Parameters) -> Result<Vec<Question>, String> {
    let mut all: Vec<String> = std::fs::read_dir(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        return Err(format!("there is no question {unknown}; there are {}", all.join(", ")));
    }
    let chosen = if names.is_empty() { all } else { names.to_vec() };
    chosen.into_iter().map(|name| question(folder, name, parameters)).collect()
}

fn question(folder: &Path, name: String, parameters: &Parameters) -> Result<Question, String> {
    let folder = folder.join(&name);
    let file = folder.join("tidegate.sql");
    let text = read(&file)?;
    let (mut about, mut endpoint, mut sent, mut sql) = (String::new(), None, Vec::new(), String::new());
    for line in text.lines() {
        let comment = line.strip_prefix("-- ");
        if let Some(name) = comment.and_then(|comment| comment.strip_prefix("endpoint: ")) {
            endpoint = Some(name.trim().to_owned());
        } else if let Some(parameter) = comment.and_then(|comment| comment.strip_prefix("parameter: ")) {
            let (name, value) = parameter.split_once(" = ").ok_or_else(|| format!("{}: {line}", file.display()))?;
            sent.push((name.to_owned(), fill(value, parameters, false)?));
        } else if let Some(comment) = comment {
            about = comment.to_owned();
        } else {
            sql.push_str(line);
            sql.push('\n');
        }
    }
    let endpoint = endpoint.ok_or_else(|| format!("{}: no line names an endpoint", file.display()))?;
    let mut requests = Vec::new();
    for statement in split(&sql) {
        let mut parameters = sent.iter().cloned().chain([("sql".to_owned(), fill(&statement, parameters, true)?)]);
        requests.push(Request { endpoint: endpoint.clone(), parameters: parameters.by_ref().collect() });
    }
    if requests.is_empty() {
        requests.push(Request { endpoint, parameters: sent });
    }
    Ok(Question { name, about, requests, folder, parameters: parameters.clone() })
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// The statements of a text.
fn split(text: &str) -> Vec<String> {
    text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

/// A text with the values in the places of `@name`, as text literals of SQL if they are `quoted`.
fn fill(text: &str, parameters: &Parameters, quoted: bool) -> Result<String, String> {
    let mut pieces = text.split('@');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(piece.len());
        let (name, rest) = piece.split_at(end);
        let value = parameters.iter().find(|(known, _)| *known == name);
        let (_, value) = value.ok_or_else(|| format!("there is no parameter @{name}"))?;
        if quoted {
            filled.push_str(&format!("'{}'", value.replace('\'', "''")));
        } else {
            filled.push_str(value);
        }
        filled.push_str(rest);
    }
    Ok(filled)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_filled() {
        let parameters = vec![("id", "it's".to_owned()), ("now", "2026".to_owned())];
        assert_eq!(fill("id = @id AND t < @now", &parameters, true).unwrap(), "id = 'it''s' AND t < '2026'");
        assert_eq!(fill("@now", &parameters, false).unwrap(), "2026");
        assert_eq!(fill("@soon", &parameters, true).unwrap_err(), "there is no parameter @soon");
    }

    #[test]
    fn every_question_has_a_statement_of_every_system() {
        let parameters =
            ["project", "id", "now", "day"].into_iter().map(|name| (name, name.to_owned())).collect::<Vec<_>>();
        let folder = crate::root().join("xtask/bench/questions");
        let all = questions(&folder, &[], &parameters).unwrap();
        assert!(all.len() >= 13);
        for question in all {
            for peer in ["duckdb", "chdb", "postgres"] {
                assert_eq!(question.statements(peer).unwrap().len(), question.requests.len(), "{}", question.name);
            }
            assert!(!question.about.is_empty());
        }
        assert!(questions(&folder, &["newst".to_owned()], &parameters).unwrap_err().contains("newest"));
    }
}
