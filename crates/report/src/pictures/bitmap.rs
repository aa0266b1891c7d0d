//! plotters' bitmap backend at a higher density, with text where the SVG backend puts it.
//!
//! Drawing functions count in CSS pixels. This multiplies what they draw by [`PNG_SCALE`]; text is drawn at the larger
//! size, and its baseline is placed as in SVG, since plotters places it elsewhere on a bitmap.

use super::style::{FONT_UNIT, PAPER, PNG_SCALE};
use plotters::backend::BitMapBackend;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{FontDesc, IntoTextStyle};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

const SCALE: i32 = PNG_SCALE as i32;

/// Ascent and descent of DejaVu Sans together, in em: plotters takes a size to mean both.
const LINE_HEIGHT: f64 = 0.928 + 0.236;
/// Height of its small letters, in em.
const X_HEIGHT: f64 = 0.547;
/// Where SVG puts the baseline below a position that means the top, in em.
const TOP_TO_BASELINE: f64 = 0.76;

/// RGB pixels.
pub(super) struct Pixels {
    bytes: Vec<u8>,
    /// In CSS pixels.
    size: (u32, u32),
}

impl Pixels {
    /// Blank ones for a picture of this size in CSS pixels.
    pub fn new(size: (u32, u32)) -> Self {
        let count = (size.0 * PNG_SCALE) as usize * (size.1 * PNG_SCALE) as usize;
        Pixels { bytes: [PAPER.0, PAPER.1, PAPER.2].repeat(count), size }
    }

    fn physical(&self) -> (u32, u32) {
        (self.size.0 * PNG_SCALE, self.size.1 * PNG_SCALE)
    }

    /// As a PNG file.
    pub fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let (width, height) = self.physical();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.bytes)?;
        writer.finish()?;
        Ok(file)
    }
}

/// The backend.
pub(super) struct Bitmap<'a> {
    inner: BitMapBackend<'a>,
    size: (u32, u32),
}

impl<'a> Bitmap<'a> {
    pub fn new(pixels: &'a mut Pixels) -> Self {
        let physical = pixels.physical();
        let size = pixels.size;
        Bitmap { inner: BitMapBackend::with_buffer(&mut pixels.bytes, physical), size }
    }
}

/// A style with lines of the bitmap's density.
struct Dense<'s, S>(&'s S);

impl<S: BackendStyle> BackendStyle for Dense<'_, S> {
    fn color(&self) -> BackendColor {
        self.0.color()
    }

    fn stroke_width(&self) -> u32 {
        self.0.stroke_width() * PNG_SCALE
    }
}

fn dense((x, y): BackendCoord) -> BackendCoord {
    (x * SCALE, y * SCALE)
}

type Drawn<'a> = Result<(), DrawingErrorKind<<BitMapBackend<'a> as DrawingBackend>::ErrorType>>;

impl<'a> DrawingBackend for Bitmap<'a> {
    type ErrorType = <BitMapBackend<'a> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn<'a> {
        self.inner.ensure_prepared()
    }

    fn present(&mut self) -> Drawn<'a> {
        self.inner.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn<'a> {
        let (x, y) = dense(point);
        self.inner.draw_rect((x, y), (x + SCALE, y + SCALE), &color, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn<'a> {
        self.inner.draw_path([dense(from), dense(to)], &Dense(style))
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn<'a> {
        let ((left, top), (right, bottom)) = (dense(upper_left), dense(bottom_right));
        if fill {
            return self.inner.draw_rect((left, top), (right, bottom), style, true);
        }
        let outline =
            [(left, top), (right, top), (right, bottom), (left, bottom), (left, top), (right, top)];
        self.inner.draw_path(outline, &Dense(style))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn<'a> {
        self.inner.draw_path(path.into_iter().map(dense), &Dense(style))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn<'a> {
        self.inner.draw_circle(dense(center), radius * PNG_SCALE, &Dense(style), fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        vertices: I,
        style: &S,
    ) -> Drawn<'a> {
        self.inner.fill_polygon(vertices.into_iter().map(dense), style)
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        position: BackendCoord,
    ) -> Drawn<'a> {
        let em = style.size() / FONT_UNIT * f64::from(PNG_SCALE);
        let font_size = em * LINE_HEIGHT;
        let font = FontDesc::new(style.family(), font_size, style.style());
        let font_error = |error| DrawingErrorKind::FontError(Box::new(error));
        let ((left, _), (right, _)) = font.layout_box(text).map_err(font_error)?;
        let start = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => (left - right) / 2,
            HPos::Right => left - right,
        };
        let baseline = em
            * match style.anchor().v_pos {
                VPos::Top => TOP_TO_BASELINE,
                VPos::Center => X_HEIGHT / 2.0,
                VPos::Bottom => -X_HEIGHT / 2.0,
            };
        // plotters draws with the baseline half a size below the position.
        let top = (baseline - font_size / 2.0).round() as i32;
        let (x, y) = dense(position);
        let transform = style.transform();
        let ground = style.color();
        let styled = font.into_text_style(&self.size).color(&PAPER);
        let drawn = styled.draw(text, (0, 0), |dx, dy, pixel| {
            let (dx, dy) = transform.transform(dx + start, dy + top);
            let color = BackendColor { alpha: pixel.alpha * ground.alpha, rgb: ground.rgb };
            self.inner.draw_pixel((x + dx, y + dy), color)
        });
        drawn.map_err(font_error)?
    }
}
