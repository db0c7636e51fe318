//! Latency by route: quantiles of the window that ends now, and the change against the one before.

mod route;

use std::collections::BTreeMap;

use tidegate_sdk::{Problem, Request, Response, Table, endpoint, statement};

use crate::route::route;

/// The longest window, in minutes.
const MOST_MINUTES: i64 = 1440;

/// Milliseconds that the requests of one route took.
#[derive(Debug, Default)]
struct Samples {
    recent: Vec<f64>,
    before: Vec<f64>,
}

fn handle(request: &Request) -> Result<Response, Problem> {
    if !(1..=MOST_MINUTES).contains(&request.int64("minutes")?) {
        return Err(Problem::invalid_argument("minutes must be from 1 to 1440"));
    }
    let mut rows = statement("default").run()?.rows();
    let (recent, milliseconds) = (rows.column::<bool>("recent")?, rows.column::<f64>("milliseconds")?);
    let (method, path) = (rows.column::<str>("method")?, rows.column::<str>("path")?);

    let mut routes: BTreeMap<String, Samples> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let Some(milliseconds) = row.get(milliseconds) else { continue };
        let name = [row.get(method).unwrap_or("?"), " ", &route(row.get(path).unwrap_or_default())].concat();
        let samples = routes.entry(name).or_default();
        let window = if row.get(recent) == Some(true) { &mut samples.recent } else { &mut samples.before };
        window.push(milliseconds);
    }
    Response::table(table(routes))
}

/// A row for each route that was called in the window that ends now, the most called first.
fn table(routes: BTreeMap<String, Samples>) -> Table<Row> {
    let mut routes: Vec<(String, Samples)> =
        routes.into_iter().filter(|(_, samples)| !samples.recent.is_empty()).collect();
    routes.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.recent.len()));
    let mut table =
        Table::new(["route", "requests", "p50", "p95", "p99", "requests_before", "p95_before", "p95_change"]);
    for (name, Samples { mut recent, mut before }) in routes {
        recent.sort_by(f64::total_cmp);
        before.sort_by(f64::total_cmp);
        let (now, then) = (quantile(&recent, 95), quantile(&before, 95));
        table.push((
            name,
            recent.len(),
            quantile(&recent, 50),
            now,
            quantile(&recent, 99),
            before.len(),
            then,
            change(now, then),
        ));
    }
    table
}

type Row = (String, usize, Option<f64>, Option<f64>, Option<f64>, usize, Option<f64>, Option<f64>);

/// The smallest of the values, which are sorted, that `percent` of them do not exceed.
fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// By which share of `then` the value rose or fell.
fn change(now: Option<f64>, then: Option<f64>) -> Option<f64> {
    let (now, then) = (now?, then.filter(|then| *then > 0.0)?);
    Some((now - then) / then)
}

endpoint!(handle);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 50), Some(50.0));
        assert_eq!(quantile(&hundred, 95), Some(95.0));
        assert_eq!(quantile(&hundred, 99), Some(99.0));
        assert_eq!(quantile(&[10.0, 20.0, 30.0], 50), Some(20.0));
        assert_eq!(quantile(&[10.0, 20.0, 30.0], 95), Some(30.0));
        assert_eq!(quantile(&[7.0], 1), Some(7.0));
        assert_eq!(quantile(&[], 50), None);
    }

    #[test]
    fn a_change_needs_something_to_compare_with() {
        assert_eq!(change(Some(150.0), Some(100.0)), Some(0.5));
        assert_eq!(change(Some(50.0), Some(100.0)), Some(-0.5));
        assert_eq!(change(Some(1.0), Some(0.0)), None);
        assert_eq!(change(Some(1.0), None), None);
        assert_eq!(change(None, Some(1.0)), None);
    }

    #[test]
    fn routes_that_are_gone_are_left_out() {
        let samples = |recent: &[f64], before: &[f64]| Samples { recent: recent.into(), before: before.into() };
        let routes = [
            ("GET /a".to_owned(), samples(&[1.0], &[])),
            ("GET /b".to_owned(), samples(&[2.0, 1.0], &[4.0])),
            ("GET /gone".to_owned(), samples(&[], &[9.0])),
        ];
        assert_eq!(table(routes.into()).len(), 2);
    }
}
