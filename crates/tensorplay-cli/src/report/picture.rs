//! [`Picture`]: the timeline as shapes, which [`svg`](super::svg) and [`png`](super::png) draw.

use super::story::{Level, Story, peak};
use crate::size::ByteSize;

/// In units of SVG; the PNG has twice as many pixels.
pub(super) const WIDTH: usize = 1040;
pub(super) const HEIGHT: usize = 400;

const LEFT: usize = 84;
const RIGHT: usize = 20;
const TOP: usize = 74;
const BOTTOM: usize = 40;
/// Columns of the plot.
const COLUMNS: usize = WIDTH - LEFT - RIGHT;

/// A colour by its part in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Paper,
    Text,
    Quiet,
    Grid,
    Allocated,
    Free,
    Reserved,
    Warning,
}

impl Ink {
    /// Red, green, blue. They differ in lightness too, so that colour need not tell them apart.
    pub(super) fn rgb(self) -> [u8; 3] {
        match self {
            Self::Paper => [0xff, 0xff, 0xff],
            Self::Text => [0x1d, 0x1f, 0x23],
            Self::Quiet => [0x64, 0x6a, 0x73],
            Self::Grid => [0xe3, 0xe1, 0xdc],
            Self::Allocated => [0x00, 0x72, 0xb2],
            Self::Free => [0xdd, 0xd9, 0xd1],
            Self::Reserved => [0x6f, 0x75, 0x80],
            Self::Warning => [0xb3, 0x26, 0x1e],
        }
    }
}

/// How text stands to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One thing to draw, in the order of drawing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Rectangle {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        ink: Ink,
    },
    /// One column after the other, each a unit wide, from its upper to its lower edge.
    Area {
        x: f64,
        columns: Vec<(f64, f64)>,
        ink: Ink,
    },
    /// A line over the upper edges of columns.
    Steps {
        x: f64,
        columns: Vec<f64>,
        ink: Ink,
    },
    Line {
        from: (f64, f64),
        to: (f64, f64),
        ink: Ink,
    },
    /// `y` is the base line; `size` the height of a capital's em.
    Text {
        x: f64,
        y: f64,
        size: f64,
        anchor: Anchor,
        ink: Ink,
        text: String,
    },
}

/// The timeline of a device's story.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) shapes: Vec<Shape>,
}

impl Picture {
    pub(super) fn new(title: &str, story: &Story) -> Self {
        let levels = story.levels();
        let columns = columns(&levels);
        let top = columns.iter().map(|(allocated, reserved)| (*allocated).max(*reserved)).max().unwrap_or(0);
        let top = (top.max(1) as f64) * 1.04;
        let tall = (HEIGHT - TOP - BOTTOM) as f64;
        let base = (HEIGHT - BOTTOM) as f64;
        let y = |bytes: u64| base - tall * bytes as f64 / top;
        let mut picture = Self { title: title.to_owned(), shapes: Vec::new() };
        picture.shapes.push(Shape::Rectangle {
            x: 0.0,
            y: 0.0,
            width: WIDTH as f64,
            height: HEIGHT as f64,
            ink: Ink::Paper,
        });
        picture.head(&levels);
        picture.grid(top, &y);
        let x = LEFT as f64;
        let free = columns.iter().map(|(allocated, reserved)| (y(*reserved.max(allocated)), y(*allocated)));
        picture.shapes.push(Shape::Area { x, columns: free.collect(), ink: Ink::Free });
        let allocated = columns.iter().map(|(allocated, _)| (y(*allocated), base));
        picture.shapes.push(Shape::Area { x, columns: allocated.collect(), ink: Ink::Allocated });
        let reserved = columns.iter().map(|(_, reserved)| y(*reserved));
        picture.shapes.push(Shape::Steps { x, columns: reserved.collect(), ink: Ink::Reserved });
        for refusal in &story.refusals {
            let x = LEFT as f64 + COLUMNS as f64 * (refusal.event + 1) as f64 / (story.events + 1) as f64;
            picture.line((x, TOP as f64 - 6.0), (x, base), Ink::Warning);
        }
        picture.foot(story, base);
        picture
    }

    fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, ink: Ink, text: impl Into<String>) {
        self.shapes.push(Shape::Text { x, y, size, anchor, ink, text: text.into() });
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        self.shapes.push(Shape::Line { from, to, ink });
    }

    fn head(&mut self, levels: &[Level]) {
        let at = |of: fn(&Level) -> u64| of(&levels[peak(levels, of)]);
        let (reserved, allocated) = (at(|level| level.reserved), at(|level| level.allocated));
        self.text((LEFT as f64, 28.0), 17.0, Anchor::Start, Ink::Text, self.title.clone());
        let mut x = LEFT as f64;
        let keys = [
            (Ink::Allocated, format!("allocated, at most {}", ByteSize(allocated))),
            (Ink::Reserved, format!("reserved, at most {}", ByteSize(reserved))),
            (Ink::Free, "reserved and free".to_owned()),
        ];
        for (ink, text) in keys {
            self.shapes.push(Shape::Rectangle { x, y: 42.0, width: 11.0, height: 11.0, ink });
            let long = text.chars().count() as f64;
            self.text((x + 17.0, 52.0), 13.0, Anchor::Start, Ink::Quiet, text);
            x += 44.0 + 9.2 * long;
        }
    }

    /// Lines at round numbers of bytes.
    fn grid(&mut self, top: f64, y: &impl Fn(u64) -> f64) {
        let mut step = 1u64;
        while top / step as f64 > 5.0 {
            step *= 2;
        }
        for bytes in (0..).map(|n| n * step).take_while(|bytes| *bytes as f64 <= top) {
            let at = y(bytes);
            self.line((LEFT as f64, at), ((WIDTH - RIGHT) as f64, at), Ink::Grid);
            let label = if bytes == 0 { "0".to_owned() } else { ByteSize(bytes).to_string() };
            self.text((LEFT as f64 - 9.0, at + 4.5), 12.0, Anchor::End, Ink::Quiet, label.replace(".00", ""));
        }
    }

    fn foot(&mut self, story: &Story, base: f64) {
        let y = base + 22.0;
        self.text((LEFT as f64, y), 12.0, Anchor::Start, Ink::Quiet, "first event");
        let right = (WIDTH - RIGHT) as f64;
        self.text((right, y), 12.0, Anchor::End, Ink::Quiet, format!("event {}", story.events));
        if let Some(last) = story.times.last() {
            let middle = (LEFT as f64 + right) / 2.0;
            let seconds = *last as f64 / 1e6;
            self.text((middle, y), 12.0, Anchor::Middle, Ink::Quiet, format!("{seconds:.3} s in all"));
        }
    }
}

/// The most allocated and reserved bytes of each column.
fn columns(levels: &[Level]) -> Vec<(u64, u64)> {
    let column = |index: usize| {
        let from = index * levels.len() / COLUMNS;
        // Where there are fewer moments than columns, several show the same.
        let to = ((index + 1) * levels.len() / COLUMNS).max(from + 1);
        let most = |of: fn(&Level) -> u64| levels[from..to].iter().map(of).max().unwrap_or(0);
        (most(|level| level.allocated), most(|level| level.reserved))
    };
    (0..COLUMNS).map(column).collect()
}
