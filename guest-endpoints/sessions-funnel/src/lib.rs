//! How far sessions get through steps.

mod funnel;

use std::time::Duration;

use tidegate_sdk::{Problem, Request, Response, Table, endpoint, statement};

use crate::funnel::{Funnel, Reached};

fn handle(request: &Request) -> Result<Response, Problem> {
    let text = request.text("steps")?;
    let steps: Vec<&str> = text.split(',').map(str::trim).collect();
    if !(2..=10).contains(&steps.len()) || steps.iter().any(|step| !step.starts_with('/')) {
        return Err(Problem::invalid_argument("steps must be 2 to 10 beginnings of paths, such as /cart,/orders"));
    }
    let gap = request.int64("gap_minutes")?;
    if !(1..=1440).contains(&gap) {
        return Err(Problem::invalid_argument("gap_minutes must be from 1 to 1440"));
    }
    if !(1..=720).contains(&request.int64("hours")?) {
        return Err(Problem::invalid_argument("hours must be from 1 to 720"));
    }

    let mut rows = statement("default").run()?.rows();
    let (user, path) = (rows.column::<str>("user")?, rows.column::<str>("path")?);
    let at = rows.column::<tidegate_sdk::Timestamp>("at")?;
    let mut funnel = Funnel::new(&steps, Duration::from_secs(gap.unsigned_abs() * 60));
    while let Some(row) = rows.next()? {
        if let (Some(user), Some(at)) = (row.get(user), row.get(at)) {
            funnel.see(user, at, row.get(path).unwrap_or_default());
        }
    }

    let (sessions, reached) = funnel.finish();
    let mut table = Table::new(["step", "path", "sessions", "share", "share_of_previous", "median_seconds"]);
    let mut previous = sessions;
    for ((step, path), Reached { sessions: reached, median }) in (1_u32..).zip(steps).zip(reached) {
        table.push((step, path, reached, share(reached, sessions), share(reached, previous), median));
        previous = reached;
    }
    Ok(Response::table(table)?.note("sessions", &sessions.to_string()))
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

endpoint!(handle);
