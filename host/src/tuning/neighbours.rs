//! The measured shapes near a shape, and what each of them counts.
//!
//! Distances are those of the binary logarithms of m, n and k. What is known there is told of the shape by
//! [kriging](super::kriging); whether enough is known is a question of how near it is, for which shapes count by
//! inverse distances (D. Shepard, "A two-dimensional interpolation function for irregularly-spaced data", ACM 1968).

use super::class::Shape;
use super::table::Source;

/// Measured shapes farther away than this say nothing about a shape, unless there are enough for trends: octaves.
pub(super) const REACH: f64 = 2.25;

/// Most measured shapes that count: those around a cell of a grid in three directions.
pub(super) const MOST: usize = 8;

/// Sizes of m, n and k from here on are alike, as far as distances go. Binary logarithms. With so many rows or columns
/// every device is full; depth goes on to matter, since where D is small it is what fills the device.
const ALIKE: [f64; 3] = [14.0, 14.0, 16.0];

/// The size from which on depths are alike where D is as large as that in both directions. The smaller D is, by its
/// elements, the later that begins.
const ALIKE_DEPTH_OF_LARGE: f64 = 14.0;

/// A measured shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub shape: Shape,
    /// Where its times come from.
    source: Source,
    /// Whether it was measured with another number of multiprocessors.
    is_scaled: bool,
    place: [f64; 3],
}

impl Site {
    pub fn new(shape: Shape, source: Source, is_scaled: bool) -> Site {
        Site { shape, source, is_scaled, place: place(shape) }
    }
}

/// Where a shape lies: binary logarithms of its sizes.
fn place(shape: Shape) -> [f64; 3] {
    let sizes = [shape.m, shape.n, shape.k];
    let [m, n, k] =
        std::array::from_fn(|axis| f64::from(sizes[axis].max(1)).log2().min(ALIKE[axis]));
    let short_of_large = ALIKE[0] + ALIKE[1] - (m + n);
    [m, n, k.min(ALIKE_DEPTH_OF_LARGE + short_of_large)]
}

/// The measured shapes near a shape.
pub(super) struct Neighbours {
    /// Index and squared distance, the nearest first.
    found: [(usize, f64); MOST],
    places: [[f64; 3]; MOST],
    count: usize,
    nearest: Site,
    /// Whether the nearest is the shape itself, which then is the only one.
    pub is_itself: bool,
}

impl Neighbours {
    /// Those of a shape among these, each with an index; none where none is within so many octaves.
    pub fn among<'s>(
        measured: impl IntoIterator<Item = (usize, &'s Site)>,
        shape: Shape,
        reach: f64,
    ) -> Option<Neighbours> {
        let place = place(shape);
        let mut found = [(usize::MAX, reach * reach); MOST];
        let mut places = [[0.0; 3]; MOST];
        let (mut count, mut nearest) = (0, None);
        for (index, site) in measured {
            let is_itself = site.shape == shape;
            // Others may be alike as far as distances go.
            let distance = if is_itself { -1.0 } else { square(place, site.place) };
            if distance > found[MOST - 1].1 {
                continue;
            }
            // Insertion into a short sorted list; the last one falls off. Equals keep the order of the table.
            let mut at = count.min(MOST - 1);
            while at > 0 && found[at - 1].1 > distance {
                found[at] = found[at - 1];
                places[at] = places[at - 1];
                at -= 1;
            }
            found[at] = (index, distance);
            places[at] = site.place;
            if at == 0 {
                nearest = Some(*site);
            }
            count = (count + 1).min(MOST);
        }
        let nearest = nearest?;
        let is_itself = nearest.shape == shape;
        if is_itself {
            (found[0].1, count) = (0.0, 1);
        }
        Some(Neighbours { found, places, count, nearest, is_itself })
    }

    /// The nearest, and where its times come from.
    pub fn nearest(&self) -> (Shape, Source) {
        (self.nearest.shape, self.nearest.source)
    }

    /// Whether that is the very shape, measured with as many multiprocessors.
    pub fn is_exact(&self) -> bool {
        self.is_itself && !self.nearest.is_scaled
    }

    /// Indices and squared distances, the nearest first.
    pub fn places(&self) -> impl Iterator<Item = (usize, f64)> + Clone {
        self.found[..self.count].iter().copied()
    }

    /// The squared distance between two of them, by their order.
    pub fn square_between(&self, a: usize, b: usize) -> f64 {
        square(self.places[a], self.places[b])
    }
}

fn square(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.into_iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

/// How near what is known of something is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nearness {
    known: f64,
    unknown: f64,
}

impl Nearness {
    /// Counts a place at this squared distance: the inverse of the distance's fourth power, bounded.
    pub fn count(&mut self, square: f64, is_known: bool) {
        /// Squared octaves that make no difference.
        const NOTHING: f64 = 1e-6;
        let weight = (square + NOTHING).powi(-2);
        *(if is_known { &mut self.known } else { &mut self.unknown }) += weight;
    }

    /// Whether it is known on anything.
    pub fn is_any(&self) -> bool {
        self.known > 0.0
    }

    /// Whether it is known on most of what is near.
    pub fn is_most(&self) -> bool {
        self.known > self.unknown
    }
}
