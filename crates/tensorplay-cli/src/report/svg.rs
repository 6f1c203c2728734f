//! A [`Picture`] as SVG.

use std::fmt::Write;

use super::picture::{Anchor, HEIGHT, Ink, Picture, Shape, WIDTH};

/// The text of the file.
pub(super) fn svg(picture: &Picture) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"Inter, system-ui, Helvetica, Arial, sans-serif\" role=\"img\">\n<title>{}</title>\n",
        escaped(&picture.title)
    );
    for shape in &picture.shapes {
        draw(&mut svg, shape);
    }
    svg += "</svg>\n";
    svg
}

fn draw(svg: &mut String, shape: &Shape) {
    // Writing to a string cannot fail.
    let _ = match shape {
        Shape::Rectangle { x, y, width, height, ink } => {
            let fill = colour(*ink);
            writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>")
        }
        Shape::Area { x, columns, ink } => {
            let mut path = String::new();
            let mut last = None;
            for (index, (upper, _)) in columns.iter().enumerate() {
                corner(&mut path, &mut last, *x + index as f64, *upper, index + 1 == columns.len());
            }
            last = None;
            for (index, (_, lower)) in columns.iter().enumerate().rev() {
                corner(&mut path, &mut last, *x + index as f64 + 1.0, *lower, index == 0);
            }
            if let Some(first) = columns.first() {
                let _ = write!(path, "H{x:.0}V{:.1}", first.0);
            }
            writeln!(svg, "<path d=\"{path}Z\" fill=\"{}\"/>", colour(*ink))
        }
        Shape::Steps { x, columns, ink } => {
            let mut path = String::new();
            let mut last = None;
            for (index, upper) in columns.iter().enumerate() {
                corner(&mut path, &mut last, *x + index as f64, *upper, index + 1 == columns.len());
            }
            writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>",
                colour(*ink)
            )
        }
        Shape::Line { from, to, ink } => writeln!(
            svg,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{}\"/>",
            from.0,
            from.1,
            to.0,
            to.1,
            colour(*ink)
        ),
        Shape::Text { x, y, size, anchor, ink, text } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
                colour(*ink),
                escaped(text)
            )
        }
    };
}

/// Goes level to `x` and then to the height of the column there, if it is another than before.
fn corner(path: &mut String, last: &mut Option<f64>, x: f64, y: f64, is_last: bool) {
    let _ = match *last {
        None if path.is_empty() => write!(path, "M{x:.0} {y:.1}"),
        None => write!(path, "H{x:.0}V{y:.1}"),
        Some(before) if (before - y).abs() > 0.05 => write!(path, "H{x:.0}V{y:.1}"),
        Some(_) if is_last => write!(path, "H{x:.0}"),
        Some(_) => return,
    };
    *last = Some(y);
}

fn colour(ink: Ink) -> String {
    let [red, green, blue] = ink.rgb();
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
