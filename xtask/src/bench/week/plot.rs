//! Samples as a plot in SVG: a panel for each column, over the days of the first one.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const PANEL: f64 = 110.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 24.0;

/// A panel for each column but the first, which is the place on the horizontal axis, and the last.
pub(super) fn svg<const N: usize>(samples: &[[f64; N]], columns: &[&str; N]) -> String {
    let panels = N.saturating_sub(2);
    let height = panels as f64 * PANEL + TOP;
    let end = samples.iter().filter_map(|sample| sample.first()).fold(1.0_f64, |most, at| most.max(*at)).ceil();
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - 10.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (panel, name) in columns.iter().enumerate().skip(1).take(panels) {
        let values = || samples.iter().filter_map(move |sample| Some((*sample.first()?, *sample.get(panel)?)));
        let most = values().fold(1.0_f64, |most, (_, value)| most.max(value));
        let base = (panel as f64) * PANEL;
        let y = |value: f64| base - value / most * (PANEL - TOP - 8.0);
        let _ = writeln!(out, "<text x=\"4\" y=\"{:.0}\">{name}</text>", base - PANEL + TOP - 4.0);
        let _ = writeln!(out, "<text x=\"4\" y=\"{:.0}\">{most:.0}</text>", y(most) + 10.0);
        let _ = writeln!(out, "<text x=\"4\" y=\"{base:.0}\">0</text>");
        for day in 0..=end as u32 {
            let at = x(f64::from(day));
            let _ = writeln!(out, "<path d=\"M{at:.1} {base:.1}V{:.1}\" stroke=\"#ddd\"/>", y(most));
        }
        let points: Vec<String> = values().map(|(at, value)| format!("{:.1},{:.1}", x(at), y(value))).collect();
        let _ = writeln!(out, "<polyline fill=\"none\" stroke=\"#06c\" points=\"{}\"/>", points.join(" "));
        let _ = writeln!(out, "<path d=\"M{LEFT} {base:.1}H{:.0}\" stroke=\"#888\"/>", WIDTH - 10.0);
    }
    for day in 0..end as u32 {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.0}\">day {}</text>",
            x(f64::from(day)) + 4.0,
            height - 8.0,
            day + 1
        );
    }
    out.push_str("</svg>\n");
    out
}
