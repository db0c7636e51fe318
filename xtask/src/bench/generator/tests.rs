//! The generator: same seed, same bytes; skew; JSON and CSV that say the same.

use std::collections::HashMap;

use serde_json::Value;

use super::{EDGE, END, Form, Generator, OUTPUT, Plan, START};

fn made(records: u64, seed: u64, form: Form) -> Generator {
    let mut generator = Generator::new(Plan { records, seed, form, later: false });
    while generator.step() {}
    generator
}

/// The lines of one source as JSON.
fn lines(generator: &Generator, place: usize) -> Vec<Value> {
    let part = &generator.parts[place];
    let lines = part.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// A record without the arrays that senders of the hosted kind put around it.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(list) if list.len() == 1 && list[0].is_object() => bare(&list[0]),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), bare(value))).collect(),
        other => other.clone(),
    }
}

/// The fields of CSV rows that have no line breaks in them.
fn rows(generator: &Generator, place: usize) -> Vec<Vec<Option<String>>> {
    let text = std::str::from_utf8(&generator.parts[place].bytes).unwrap();
    let row = |line: &str| {
        let (mut fields, mut rest) = (Vec::new(), line);
        while !rest.is_empty() {
            let field = if let Some(quoted) = rest.strip_prefix('"') {
                let mut end = 0;
                while !quoted[end..].starts_with('"') || quoted[end..].starts_with("\"\"") {
                    end += if quoted[end..].starts_with('"') { 2 } else { 1 };
                    while !quoted.is_char_boundary(end) {
                        end += 1;
                    }
                }
                rest = &quoted[end + 1..];
                Some(quoted[..end].replace("\"\"", "\""))
            } else {
                let (plain, _) = rest.split_once(',').unwrap_or((rest, ""));
                rest = &rest[plain.len()..];
                (plain != "\\N").then(|| plain.to_owned())
            };
            rest = rest.strip_prefix(',').unwrap_or(rest);
            fields.push(field);
        }
        fields
    };
    text.lines().map(row).collect()
}

#[test]
fn the_same_seed_makes_the_same_bytes() {
    for form in [Form::Lines, Form::Rows] {
        let (one, same, other) = (made(2_000, 7, form), made(2_000, 7, form), made(2_000, 8, form));
        for place in [EDGE, OUTPUT] {
            assert!(!one.parts[place].bytes.is_empty());
            assert!(one.parts[place].bytes == same.parts[place].bytes);
            assert!(one.parts[place].bytes != other.parts[place].bytes);
        }
    }
}

#[test]
fn a_third_is_of_one_project_and_the_tail_is_long() {
    let generator = made(20_000, 1, Form::Lines);
    let mut counts: HashMap<String, usize> = HashMap::new();
    for line in lines(&generator, EDGE) {
        *counts.entry(line["project"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let of = |rank: usize| counts.get(&generator.projects()[rank]).copied().unwrap_or_default();
    assert!((6_300..7_000).contains(&of(0)), "{}", of(0));
    assert!(of(1) > 2_000 && of(1) < of(0) && of(10) < of(1) / 5, "{} {}", of(1), of(10));
    assert!(counts.len() > 45 && of(49) > 0 && of(49) < 120, "{} {}", counts.len(), of(49));
}

#[test]
fn every_source_has_json_lines_of_seven_days_in_order() {
    let generator = made(5_000, 3, Form::Lines);
    for place in 0..9 {
        let lines = lines(&generator, place);
        assert_eq!(lines.len() as u64, generator.parts[place].records);
        assert!(lines.len() > 20, "source {place} has {}", lines.len());
        assert!(lines.iter().all(|line| bare(line)["metadata"].is_object()));
    }
    let edges = lines(&generator, EDGE);
    assert_eq!(edges.len(), 5_000);
    let times: Vec<i64> = edges
        .iter()
        .map(|line| match &line["timestamp"] {
            Value::Number(number) => number.as_i64().unwrap(),
            text => chrono::DateTime::parse_from_rfc3339(text.as_str().unwrap()).unwrap().timestamp_micros(),
        })
        .collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(times[0] >= START && times[0] < START + 3_600_000_000);
    assert!(times[4_999] < END && times[4_999] > END - 3_600_000_000);
    // Both kinds of senders.
    assert!(
        edges.iter().any(|line| line["metadata"].is_array()) && edges.iter().any(|line| line["metadata"].is_object())
    );
}

#[test]
fn rows_say_what_lines_say() {
    let (of_lines, of_rows) = (made(3_000, 5, Form::Lines), made(3_000, 5, Form::Rows));
    for (place, columns) in
        [(EDGE, super::edge::COLUMNS.as_slice()), (OUTPUT, super::services::OUTPUT_COLUMNS.as_slice())]
    {
        let (lines, rows) = (lines(&of_lines, place), rows(&of_rows, place));
        assert_eq!(lines.len(), rows.len());
        for (line, row) in lines.iter().zip(&rows) {
            assert_eq!(row.len(), columns.len(), "{row:?}");
            let field = |name: &str| row[columns.iter().position(|column| *column == name).unwrap()].clone();
            let metadata: Value = serde_json::from_str(&field("metadata").unwrap()).unwrap();
            assert_eq!(metadata, bare(&line["metadata"]));
            assert_eq!(field("id").as_deref(), line["id"].as_str());
            assert_eq!(field("event_message").as_deref(), line["event_message"].as_str());
            if place == EDGE {
                let (request, response) = (&metadata["request"], &metadata["response"]);
                assert_eq!(field("url").as_deref(), request["url"].as_str());
                assert_eq!(field("search").as_deref(), request["search"].as_str());
                assert_eq!(field("auth_user").as_deref(), request["sb"]["auth_user"].as_str());
                assert_eq!(field("status_code").unwrap(), response["status_code"].to_string());
                assert_eq!(field("origin_time").unwrap(), response["origin_time"].to_string());
            }
        }
    }
}

#[test]
fn what_functions_print_has_the_request_id_of_an_edge_record() {
    let generator = made(3_000, 9, Form::Lines);
    let ids: std::collections::HashSet<String> =
        lines(&generator, EDGE).iter().map(|line| bare(line)["metadata"]["request_id"].to_string()).collect();
    let printed = lines(&generator, OUTPUT);
    assert!(printed.len() > 100);
    assert!(printed.iter().all(|line| ids.contains(&bare(line)["metadata"]["request_id"].to_string())));
}

#[test]
fn later_records_are_of_other_projects_and_times() {
    let mut later = Generator::new(Plan { records: 1_000, seed: 5, form: Form::Lines, later: true });
    while later.step() {}
    let earlier = made(10, 5, Form::Lines);
    for line in lines(&later, EDGE) {
        let project = line["project"].as_str().unwrap();
        assert!(project.starts_with("later") && !earlier.projects().iter().any(|name| name == project));
    }
    assert!(later.parts[OUTPUT].bytes.is_empty());
}
