//! A row of keys above a picture, so that they cover no data.

use super::style::{INK, LABEL, text};
use super::{Area, Drawn};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// What stands beside a name.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// A bar of a colour.
    Bar(RGBColor),
    /// A line of a colour.
    Line(RGBColor),
    /// A dashed line.
    Dashes(RGBColor),
    /// A ring.
    Ring(RGBColor),
    /// A disc.
    Disc(RGBColor),
}

/// Width of a mark.
const MARK: i32 = 16;
const MARK_TO_NAME: i32 = 5;
const BETWEEN: i32 = 16;
/// Height of a line of keys.
pub(super) const LINE: i32 = 20;
/// Width of the lines in pictures and in their keys.
pub(super) const STROKE: u32 = 3;
/// Dashes and the gaps between them.
pub(super) const DASH: i32 = 6;

/// The keys, wrapped where the width ends. Gives the height they take.
pub(super) fn draw<B: DrawingBackend>(
    area: &Area<B>,
    (left, top): (i32, i32),
    keys: &[(String, Mark)],
) -> Result<i32, DrawingAreaErrorKind<B::ErrorType>> {
    let width = area.dim_in_pixel().0 as i32;
    let style = text(LABEL, INK, HPos::Left, VPos::Center);
    let (mut x, mut y) = (left, top + LINE / 2);
    for (name, mark) in keys {
        let taken = MARK + MARK_TO_NAME + area.estimate_text_size(name, &style)?.0 as i32;
        if x > left && x + taken > width - left {
            (x, y) = (left, y + LINE);
        }
        draw_mark(area, *mark, (x, y))?;
        area.draw_text(name, &style, (x + MARK + MARK_TO_NAME, y))?;
        x += taken + BETWEEN;
    }
    Ok(y + LINE / 2 - top)
}

fn draw_mark<B: DrawingBackend>(area: &Area<B>, mark: Mark, (x, y): (i32, i32)) -> Drawn<B> {
    const HALF: i32 = 6;
    const RADIUS: i32 = 5;
    let center = (x + MARK / 2, y);
    match mark {
        Mark::Bar(color) => area.draw(&Rectangle::new(
            [(x + 2, y - HALF), (x + 2 + 2 * HALF, y + HALF)],
            color.filled(),
        )),
        Mark::Line(color) => {
            area.draw(&PathElement::new([(x, y), (x + MARK, y)], color.stroke_width(STROKE)))
        }
        Mark::Dashes(color) => dashes(area, (x, x + MARK), y, color),
        Mark::Ring(color) => area.draw(&Circle::new(center, RADIUS, color.stroke_width(2))),
        Mark::Disc(color) => area.draw(&Circle::new(center, RADIUS, color.filled())),
    }
}

/// A dashed horizontal line.
pub(super) fn dashes<B: DrawingBackend>(
    area: &Area<B>,
    (left, right): (i32, i32),
    y: i32,
    color: RGBColor,
) -> Drawn<B> {
    let mut x = left;
    while x < right {
        let end = (x + DASH).min(right);
        area.draw(&PathElement::new([(x, y), (end, y)], color.stroke_width(2)))?;
        x = end + DASH * 2 / 3;
    }
    Ok(())
}
