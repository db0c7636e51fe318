//! How fast an error budget burns, over several windows at once.

use tidegate_sdk::{Problem, Request, Response, Table, endpoint, statement};

/// An alert: it fires while both windows burn faster than `threshold`.
struct Alert {
    severity: &'static str,
    long: Window,
    short: Window,
    threshold: f64,
}

#[derive(Clone, Copy)]
struct Window {
    name: &'static str,
    minutes: i64,
}

const ALERTS: [Alert; 4] = [
    Alert { severity: "page", long: window("1h", 60), short: window("5m", 5), threshold: 14.4 },
    Alert { severity: "page", long: window("6h", 360), short: window("30m", 30), threshold: 6.0 },
    Alert { severity: "ticket", long: window("1d", 1440), short: window("2h", 120), threshold: 3.0 },
    Alert { severity: "ticket", long: window("3d", 4320), short: window("6h", 360), threshold: 1.0 },
];

const fn window(name: &'static str, minutes: i64) -> Window {
    Window { name, minutes }
}

/// Requests of a window.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Count {
    requests: i64,
    errors: i64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
    }

    /// How many times faster than `budget` allows, to six digits; 0 where nothing was asked for.
    fn burn(self, budget: f64) -> f64 {
        let requests = self.requests.max(1);
        (self.errors as f64 / requests as f64 / budget * 1e6).round() / 1e6
    }
}

/// The windows of an alert, summed.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Sums {
    long: Count,
    short: Count,
}

fn handle(request: &Request) -> Result<Response, Problem> {
    let objective = request.float64("objective")?;
    if !(objective > 0.0 && objective < 1.0) {
        return Err(Problem::invalid_argument("objective must be between 0 and 1, such as 0.999"));
    }
    let mut rows = statement("default").run()?.rows();
    let ago = rows.column::<i64>("minutes_ago")?;
    let (requests, errors) = (rows.column::<i64>("requests")?, rows.column::<i64>("errors")?);
    let mut sums = [Sums::default(); ALERTS.len()];
    while let Some(row) = rows.next()? {
        let Some(ago) = row.get(ago) else { continue };
        let count =
            Count { requests: row.get(requests).unwrap_or_default(), errors: row.get(errors).unwrap_or_default() };
        add(&mut sums, ago, count);
    }
    Response::table(table(&sums, 1.0 - objective))
}

/// Adds what happened `ago` minutes ago to each window that it lies in.
fn add(sums: &mut [Sums; ALERTS.len()], ago: i64, count: Count) {
    for (alert, sums) in ALERTS.iter().zip(sums) {
        if ago < alert.long.minutes {
            sums.long.add(count);
        }
        if ago < alert.short.minutes {
            sums.short.add(count);
        }
    }
}

type Row = (&'static str, bool, f64, &'static str, f64, i64, i64, &'static str, f64, i64, i64);

fn table(sums: &[Sums; ALERTS.len()], budget: f64) -> Table<Row> {
    let mut table = Table::new([
        "severity",
        "firing",
        "threshold",
        "long_window",
        "long_burn",
        "long_requests",
        "long_errors",
        "short_window",
        "short_burn",
        "short_requests",
        "short_errors",
    ]);
    for (Alert { severity, long, short, threshold }, sums) in ALERTS.iter().zip(sums) {
        let (long_burn, short_burn) = (sums.long.burn(budget), sums.short.burn(budget));
        table.push((
            *severity,
            long_burn > *threshold && short_burn > *threshold,
            *threshold,
            long.name,
            long_burn,
            sums.long.requests,
            sums.long.errors,
            short.name,
            short_burn,
            sums.short.requests,
            sums.short.errors,
        ));
    }
    table
}

endpoint!(handle);

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Count = Count { requests: 1, errors: 1 };

    #[test]
    fn a_minute_is_in_the_windows_that_reach_back_to_it() {
        let reached = |ago| {
            let mut sums = [Sums::default(); ALERTS.len()];
            add(&mut sums, ago, ONE);
            sums.map(|sums| (sums.long.requests, sums.short.requests))
        };
        assert_eq!(reached(0), [(1, 1); 4]);
        assert_eq!(reached(4), [(1, 1); 4]);
        assert_eq!(reached(5), [(1, 0), (1, 1), (1, 1), (1, 1)]);
        assert_eq!(reached(59), [(1, 0), (1, 0), (1, 1), (1, 1)]);
        assert_eq!(reached(60), [(0, 0), (1, 0), (1, 1), (1, 1)]);
        assert_eq!(reached(4319), [(0, 0), (0, 0), (0, 0), (1, 0)]);
        assert_eq!(reached(4320), [(0, 0); 4]);
    }

    #[test]
    fn a_burn_rate_is_errors_over_budget() {
        assert_eq!(Count { requests: 1000, errors: 1 }.burn(0.001), 1.0);
        assert_eq!(Count { requests: 100, errors: 50 }.burn(0.5), 1.0);
        assert_eq!(Count { requests: 10, errors: 0 }.burn(0.001), 0.0);
        assert_eq!(Count::default().burn(0.001), 0.0);
    }
}
