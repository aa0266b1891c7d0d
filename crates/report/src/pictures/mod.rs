//! Records as pictures, each as SVG and as PNG from one drawing function.
//!
//! | file | what it holds |
//! |---|---|
//! | `ladder.rs` | the ladder as bars |
//! | `versus.rs` | ratios to the vendor's best as bars |
//! | `heat_map.rs` | a sweep as a heat map |
//! | `roofline.rs` | kernels below the roofs of a device |
//! | `accuracy.rs` | errors as curves over the depth |
//! | `legend.rs` | a row of keys above a picture |
//! | `labels.rs` | places for labels that cover nothing |
//! | [`style`] | colours, fonts |
//! | `bitmap.rs` | the SVG backend's geometry in pixels |

mod accuracy;
mod bitmap;
mod heat_map;
mod labels;
mod ladder;
mod legend;
mod roofline;
pub mod style;
#[cfg(test)]
mod tests;
mod versus;

use crate::roofline::Roofline;
use crate::versus::Record as Versus;
use crate::{accuracy as studies, ladder as ladders, sweep};
use bitmap::Bitmap;
use plotters::coord::Shift;
use plotters::prelude::*;

/// A picture that can be had in two formats.
pub struct Drawing<'a> {
    subject: Subject<'a>,
}

enum Subject<'a> {
    Ladder(&'a ladders::Record),
    HeatMap(heat_map::HeatMap<'a>),
    Roofline(&'a Roofline),
    Versus(&'a Versus),
    Accuracy(accuracy::Curves<'a>),
}

/// The kernels as bars, a group a size, the vendor's library and the peak as lines.
pub fn ladder(record: &ladders::Record) -> Drawing<'_> {
    Drawing { subject: Subject::Ladder(record) }
}

/// The speeds of a sweep at one size: block tiles down, thread tiles across, a panel for each loop order and staging.
pub fn heat_map(record: &sweep::Record, size: usize) -> Drawing<'_> {
    Drawing { subject: Subject::HeatMap(heat_map::HeatMap::new(record, size)) }
}

/// The kernels below the roofs of a device, both axes logarithmic.
pub fn roofline(roofline: &Roofline) -> Drawing<'_> {
    Drawing { subject: Subject::Roofline(roofline) }
}

/// The ratio to the vendor's best as a bar around a line at one, a row a case, with the mean of each group.
pub fn versus(record: &Versus) -> Drawing<'_> {
    Drawing { subject: Subject::Versus(record) }
}

/// Errors over the depth, both axes logarithmic: a panel a kind of data and measure, a curve a mode.
pub fn accuracy(record: &studies::Record) -> Drawing<'_> {
    Drawing { subject: Subject::Accuracy(accuracy::Curves::new(record)) }
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The plotting crate cannot draw it.
    #[error("the picture cannot be drawn: {0}")]
    Draw(String),
    /// The pixels cannot be encoded.
    #[error("the picture cannot be written as PNG: {0}")]
    Encode(#[from] png::EncodingError),
}

/// Where pictures are drawn.
type Area<B> = DrawingArea<B, Shift>;

/// What drawing on a backend gives.
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

impl Drawing<'_> {
    /// Width and height in CSS pixels.
    pub fn size(&self) -> (u32, u32) {
        match &self.subject {
            Subject::Ladder(_) => ladder::SIZE,
            Subject::HeatMap(heat_map) => heat_map.size(),
            Subject::Roofline(_) => roofline::SIZE,
            Subject::Versus(record) => versus::size(record),
            Subject::Accuracy(_) => accuracy::SIZE,
        }
    }

    /// The picture as SVG.
    ///
    /// # Errors
    /// [`PictureError::Draw`], such as for numbers that are not finite.
    pub fn svg(&self) -> Result<String, PictureError> {
        let mut svg = String::new();
        self.draw_on(SVGBackend::with_string(&mut svg, self.size()))?;
        Ok(svg)
    }

    /// The picture as PNG, with [`style::PNG_SCALE`] pixels for a CSS pixel in each direction.
    ///
    /// # Errors
    /// [`PictureError`], such as for numbers that are not finite.
    pub fn png(&self) -> Result<Vec<u8>, PictureError> {
        let mut pixels = bitmap::Pixels::new(self.size());
        self.draw_on(Bitmap::new(&mut pixels))?;
        Ok(pixels.encode()?)
    }

    fn draw_on<B: DrawingBackend>(&self, backend: B) -> Result<(), PictureError> {
        style::register_fonts();
        let area = backend.into_drawing_area();
        self.draw(&area)
            .and_then(|()| area.present())
            .map_err(|error| PictureError::Draw(error.to_string()))
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        area.fill(&style::PAPER)?;
        match &self.subject {
            Subject::Ladder(record) => ladder::draw(record, area),
            Subject::HeatMap(heat_map) => heat_map.draw(area),
            Subject::Roofline(roofline) => roofline::draw(roofline, area),
            Subject::Versus(record) => versus::draw(record, area),
            Subject::Accuracy(curves) => curves.draw(area),
        }
    }
}
