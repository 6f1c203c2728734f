//! A [`Picture`] as PNG: drawn with smooth edges, and written in PNG's plainest form.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::letters::{ADVANCE, CAPITAL, points, strokes};
use super::picture::{Anchor, HEIGHT, Ink, Picture, Shape, WIDTH};

/// Pixels for a unit.
const SCALE: usize = 2;

/// The bytes of the file.
pub(super) fn png(picture: &Picture) -> Vec<u8> {
    let mut raster = Raster { pixels: vec![[0xff; 3]; WIDTH * SCALE * HEIGHT * SCALE] };
    picture.shapes.iter().for_each(|shape| raster.draw(shape));
    raster.encode().expect("a vector takes what is written to it")
}

struct Raster {
    pixels: Vec<[u8; 3]>,
}

impl Raster {
    const WIDTH: usize = WIDTH * SCALE;
    const HEIGHT: usize = HEIGHT * SCALE;

    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rectangle { x, y, width, height, ink } => {
                for column in pixel(*x)..pixel(x + width) {
                    self.column(column, *y, y + height, *ink);
                }
            }
            Shape::Area { x, columns, ink } => {
                for (index, (upper, lower)) in columns.iter().enumerate() {
                    let from = x + index as f64;
                    (pixel(from)..pixel(from + 1.0))
                        .for_each(|column| self.column(column, *upper, *lower, *ink));
                }
            }
            Shape::Steps { x, columns, ink } => {
                let mut last = columns.first().copied().unwrap_or(0.0);
                for (index, y) in columns.iter().enumerate() {
                    let x = x + index as f64;
                    self.stroke((x, last), (x, *y), 0.75, *ink);
                    self.stroke((x, *y), (x + 1.0, *y), 0.75, *ink);
                    last = *y;
                }
            }
            Shape::Line { from, to, ink } => self.stroke(*from, *to, 0.5, *ink),
            Shape::Text { x, y, size, anchor, ink, text } => {
                let unit = size * 0.72 / CAPITAL;
                let long = (text.chars().count() as f64 * ADVANCE - 2.0) * unit;
                let start = match anchor {
                    Anchor::Start => *x,
                    Anchor::Middle => x - long / 2.0,
                    Anchor::End => x - long,
                };
                for (index, character) in text.chars().enumerate() {
                    let left = start + index as f64 * ADVANCE * unit;
                    let at = |(across, down): (f64, f64)| (left + across * unit, y + (down - CAPITAL) * unit);
                    for stroke in strokes(character).split(' ') {
                        let points: Vec<_> = points(stroke).map(at).collect();
                        points.windows(2).for_each(|ends| self.stroke(ends[0], ends[1], size * 0.05, *ink));
                    }
                }
            }
        }
    }

    /// Fills a column of pixels from one height to another, its ends by the part that is covered.
    fn column(&mut self, column: usize, upper: f64, lower: f64, ink: Ink) {
        let (upper, lower) = (upper * SCALE as f64, lower * SCALE as f64);
        for row in (upper.max(0.0) as usize)..(lower.max(0.0).ceil() as usize).min(Self::HEIGHT) {
            let covered = (lower.min(row as f64 + 1.0) - upper.max(row as f64)).clamp(0.0, 1.0);
            self.blend(column, row, covered, ink);
        }
    }

    /// A line with round ends, `half` as thick to each side.
    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), half: f64, ink: Ink) {
        let scale = SCALE as f64;
        let ((x0, y0), (x1, y1)) = ((from.0 * scale, from.1 * scale), (to.0 * scale, to.1 * scale));
        let half = half * scale;
        let reach = half + 1.0;
        let span = |a: f64, b: f64, end: usize| {
            let (low, high) = (a.min(b) - reach, a.max(b) + reach);
            (low.max(0.0) as usize)..(high.max(0.0).ceil() as usize).min(end)
        };
        let (dx, dy) = (x1 - x0, y1 - y0);
        let length = dx * dx + dy * dy;
        for row in span(y0, y1, Self::HEIGHT) {
            for column in span(x0, x1, Self::WIDTH) {
                let (x, y) = (column as f64 + 0.5 - x0, row as f64 + 0.5 - y0);
                let along = if length > 0.0 { ((x * dx + y * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
                let distance = (x - along * dx).hypot(y - along * dy);
                self.blend(column, row, (half + 0.5 - distance).clamp(0.0, 1.0), ink);
            }
        }
    }

    fn blend(&mut self, column: usize, row: usize, covered: f64, ink: Ink) {
        if column >= Self::WIDTH || row >= Self::HEIGHT {
            return;
        }
        let pixel = &mut self.pixels[row * Self::WIDTH + column];
        for (there, new) in pixel.iter_mut().zip(ink.rgb()) {
            let mixed = f64::from(*there) + (f64::from(new) - f64::from(*there)) * covered;
            *there = mixed.round() as u8;
        }
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut rows = ZlibEncoder::new(Vec::new(), Compression::best());
        for row in self.pixels.chunks(Self::WIDTH) {
            // No filter.
            rows.write_all(&[0])?;
            rows.write_all(row.as_flattened())?;
        }
        let mut header = Vec::new();
        header.extend((Self::WIDTH as u32).to_be_bytes());
        header.extend((Self::HEIGHT as u32).to_be_bytes());
        // Eight bits of red, green and blue, in the standard's only compression, filtering and order.
        header.extend([8, 2, 0, 0, 0]);
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        chunk(&mut file, b"IHDR", &header);
        chunk(&mut file, b"IDAT", &rows.finish()?);
        chunk(&mut file, b"IEND", &[]);
        Ok(file)
    }
}

/// The pixel column in which a place lies.
fn pixel(x: f64) -> usize {
    (x * SCALE as f64).round().max(0.0) as usize
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let mut check = Crc::new();
    check.update(name);
    check.update(data);
    file.extend(name);
    file.extend(data);
    file.extend(check.sum().to_be_bytes());
}
