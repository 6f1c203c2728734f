//! A picture of live bytes over time, as SVG.

use std::fmt::Write;
use std::path::Path;

use tensorplay::prelude::*;

use crate::memory::{Point, bytes};

/// The picture's size, and what is left free around the curve.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 64.0;
/// So many columns of the curve, each with the least and the most of its time.
const COLUMNS: usize = 800;

/// Writes the picture.
pub(crate) fn write(path: &Path, points: &[Point]) -> Result<()> {
    std::fs::write(path, draw(points)).map_err(|error| {
        Error::new(ErrorKind::Io, format!("{} cannot be written: {error}", path.display())).with_source(error)
    })
}

fn draw(points: &[Point]) -> String {
    let end = points.last().map_or(1.0, |(seconds, _)| seconds.max(1e-9));
    let most = points.iter().map(|(_, live)| *live).max().unwrap_or(0).max(1);
    let x = |seconds: f64| MARGIN + seconds / end * (WIDTH - 2.0 * MARGIN);
    let y = |live: f64| HEIGHT - MARGIN / 2.0 - live / most as f64 * (HEIGHT - MARGIN);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Live bytes over time</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let (live, seconds) = (share * most as f64, share * end);
        let _ = writeln!(
            picture,
            "<path d=\"M{MARGIN} {0:.1}H{1:.1}\" stroke=\"#ddd\"/><text x=\"{2:.1}\" y=\"{3:.1}\" \
             text-anchor=\"end\">{4}</text><text x=\"{5:.1}\" y=\"{6:.1}\" text-anchor=\"middle\">{seconds:.1} s</text>",
            y(live),
            WIDTH - MARGIN,
            MARGIN - 6.0,
            y(live) + 4.0,
            bytes(live as i64),
            x(seconds),
            HEIGHT - 12.0
        );
    }
    picture.push_str("<path fill=\"none\" stroke=\"#1667c1\" d=\"");
    for (column, (seconds, least, largest)) in columns(points, end).into_iter().enumerate() {
        let command = if column == 0 { 'M' } else { 'L' };
        let _ = write!(picture, "{command}{:.1} {:.1}V{:.1}", x(seconds), y(least as f64), y(largest as f64));
    }
    picture.push_str("\"/>\n</svg>\n");
    picture
}

/// The least and the most live bytes of each column that has any.
fn columns(points: &[Point], end: f64) -> Vec<(f64, u64, u64)> {
    let mut columns: Vec<Option<(u64, u64)>> = vec![None; COLUMNS];
    for (seconds, live) in points {
        let column = ((seconds / end * COLUMNS as f64) as usize).min(COLUMNS - 1);
        let (least, most) = columns[column].unwrap_or((*live, *live));
        columns[column] = Some((least.min(*live), most.max(*live)));
    }
    let of_column = |(column, range): (usize, Option<(u64, u64)>)| {
        range.map(|(least, most)| ((column as f64 + 0.5) / COLUMNS as f64 * end, least, most))
    };
    columns.into_iter().enumerate().filter_map(of_column).collect()
}
