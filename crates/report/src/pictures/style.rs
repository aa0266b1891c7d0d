//! Colours and fonts of all pictures.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::sync::Once;

/// Pixels of a PNG for a CSS pixel, in each direction: sharp on screens of high density.
pub const PNG_SCALE: u32 = 2;

/// The ground of a picture. A page may replace this colour, [`INK`], [`FAINT`] and [`GRID`] where it is dark; no data
/// has one of them.
pub const PAPER: RGBColor = RGBColor(0xfe, 0xfe, 0xfe);
/// Text and axes.
pub const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
/// Text of less weight, and what could not be measured.
pub const FAINT: RGBColor = RGBColor(0x6e, 0x77, 0x81);
/// Lines that help to read a value.
pub const GRID: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);

/// The vendor's library, and what was measured on the roofline: vermilion of the palette by M. Okabe and K. Ito, "Color
/// Universal Design", 2008.
pub const ACCENT: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
/// What a device allows: reddish purple of the same palette.
pub const LIMIT: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
/// A second limit: bluish green of the same palette.
pub const SECOND_LIMIT: RGBColor = RGBColor(0x00, 0x9e, 0x73);

/// Font sizes in CSS pixels.
pub const TITLE: f64 = 18.0;
/// See [`TITLE`].
pub const LABEL: f64 = 13.5;
/// See [`TITLE`].
pub const SMALL: f64 = 12.0;

/// plotters' size of a font of one CSS pixel: its SVG backend divides by this.
pub(super) const FONT_UNIT: f64 = 1.24;
pub(super) const FAMILY: &str = "sans-serif";

/// Support points of the colour map "viridis" by S. van der Walt and N. Smith (2015), in equal steps: lightness grows
/// evenly, and it reads the same with any colour blindness.
const VIRIDIS: [RGBColor; 9] = [
    RGBColor(0x44, 0x01, 0x54),
    RGBColor(0x47, 0x2d, 0x7b),
    RGBColor(0x3b, 0x52, 0x8b),
    RGBColor(0x2c, 0x72, 0x8e),
    RGBColor(0x21, 0x91, 0x8c),
    RGBColor(0x28, 0xae, 0x80),
    RGBColor(0x5e, 0xc9, 0x62),
    RGBColor(0xad, 0xdc, 0x30),
    RGBColor(0xfd, 0xe7, 0x25),
];

/// The colour of a value from 0 to 1, from dark to light.
pub(super) fn scale(value: f64) -> RGBColor {
    // What is no number is shown as nothing.
    let value = if value > 0.0 { value.min(1.0) } else { 0.0 };
    let position = value * (VIRIDIS.len() - 1) as f64;
    let below = (position as usize).min(VIRIDIS.len() - 2);
    let share = position - below as f64;
    let (low, high) = (VIRIDIS[below], VIRIDIS[below + 1]);
    let mix = |low: u8, high: u8| {
        (f64::from(low) + share * (f64::from(high) - f64::from(low))).round() as u8
    };
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

/// The colour of one of `count` things in an order. The ends of the scale stay out: they fade into a dark or a light
/// page.
pub(super) fn step(index: usize, count: usize) -> RGBColor {
    const FIRST: f64 = 0.2;
    const LAST: f64 = 0.92;
    let steps = count.saturating_sub(1).max(1) as f64;
    scale(FIRST + (LAST - FIRST) * index as f64 / steps)
}

/// Black or white, whichever reads better on a colour.
pub(super) fn text_on(ground: RGBColor) -> RGBColor {
    // Relative luminance and the limit of equal contrast: Web Content Accessibility Guidelines 2.1.
    const EQUAL_CONTRAST: f64 = 0.179;
    let linear = |channel: u8| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    let luminance =
        0.2126 * linear(ground.0) + 0.7152 * linear(ground.1) + 0.0722 * linear(ground.2);
    if luminance > EQUAL_CONTRAST { BLACK } else { WHITE }
}

/// Text of a size in CSS pixels, placed by the given sides.
pub(super) fn text(pixels: f64, color: RGBColor, x: HPos, y: VPos) -> TextStyle<'static> {
    (FAMILY, pixels * FONT_UNIT).into_font().color(&color).pos(Pos::new(x, y))
}

/// The same in bold.
pub(super) fn bold(pixels: f64, color: RGBColor, x: HPos, y: VPos) -> TextStyle<'static> {
    let font = (FAMILY, pixels * FONT_UNIT, FontStyle::Bold).into_font();
    font.color(&color).pos(Pos::new(x, y))
}

/// Makes the fonts known to plotters, once.
pub(super) fn register_fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A font that cannot be read shows as an error at the first text.
        let _ = plotters::style::register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular());
        let _ = plotters::style::register_font(FAMILY, FontStyle::Bold, dejavu::sans::bold());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_passes_its_support_points_and_stays_inside() {
        assert_eq!(scale(0.0), VIRIDIS[0]);
        assert_eq!(scale(0.5), VIRIDIS[4]);
        assert_eq!(scale(1.0), VIRIDIS[8]);
        assert_eq!(scale(7.0), VIRIDIS[8]);
        assert_eq!(scale(f64::NAN), VIRIDIS[0]);
    }

    #[test]
    fn text_stands_out_from_its_ground() {
        assert_eq!(text_on(VIRIDIS[0]), WHITE);
        assert_eq!(text_on(VIRIDIS[8]), BLACK);
    }
}
