//! Operands for measuring: pieces of memory that all shapes share, cut into sets of A, B, D and, where it is asked for,
//! C.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::matrix::view::{MatrixView, MatrixViewMut};
use crate::verify::{Distribution, random_vector, rng};
use ndarray::{ArrayView1, Axis};
use regemm_kernels::element::{Element, Yields};
use regemm_kernels::layout::Layouts;
use std::ops::Range;

/// Random elements that are drawn; the operands repeat them. A prime (2^22 - 3), so that no two rows or columns of a
/// matrix are equal whatever its leading dimension.
const DRAWN: usize = 4_194_301;

/// Operands begin at multiples of this many elements: as aligned as memory that the device allocates.
const ALIGNMENT: usize = 128;

/// The rotating operands take at least this many times the L2 cache.
const L2_MULTIPLE: u64 = 3;

/// Sets of operands that are too large to be found in the L2: of two in turn, none finds its own end there.
const FEWEST_SETS: u64 = 2;

/// Sets of operands of changing shapes, handed out in turn so that no product finds its operands in the L2 cache.
///
/// A, B and C hold random normal elements. What D holds is not defined. C and D are of the type `D`.
pub struct Rotation<T, D = T> {
    device: Device,
    seed: u64,
    layout: SetLayout,
    sets: usize,
    /// The set that is handed out next.
    next: usize,
    /// A row of random elements, of which A and B are parts.
    inputs: Option<Matrix<T>>,
    /// Another, of which C is a part.
    addends: Option<Matrix<D>>,
    /// A row of which D is a part. Apart from the others, because sums of sums would grow.
    outputs: Option<Matrix<D>>,
}

/// A, B, room for D, and C.
pub struct OperandSet<'a, T, D = T> {
    /// A as it is stored: `m x k`, or `k x m` where it is transposed.
    pub a: MatrixView<'a, T>,
    /// B as it is stored: `k x n`, or `n x k` where it is transposed.
    pub b: MatrixView<'a, T>,
    /// C, `m x n`, or without rows where the layout has none.
    pub c: MatrixView<'a, D>,
    /// D, `m x n`.
    pub d: MatrixViewMut<'a, D>,
}

impl<T: Element> Rotation<T> {
    /// No operands yet; `seed` draws their elements.
    pub fn new(device: &Device, seed: u64) -> Self {
        Self::widening(device, seed)
    }

    /// Operands of `m x n x k` products, row-major and packed.
    ///
    /// # Errors
    /// The device has no room for them, or fails.
    pub fn of_product(device: &Device, shape: (usize, usize, usize), seed: u64) -> Result<Self> {
        Rotation::in_layouts(device, Layouts::NN, shape, seed)
    }

    /// As [`Rotation::of_product`], with A and B stored in these layouts.
    ///
    /// # Errors
    /// As for [`Rotation::of_product`].
    pub fn in_layouts(
        device: &Device,
        layouts: Layouts,
        (m, n, k): (usize, usize, usize),
        seed: u64,
    ) -> Result<Self> {
        let mut rotation = Rotation::new(device, seed);
        rotation.fit(SetLayout::packed_in(layouts, m, n, k))?;
        Ok(rotation)
    }
}

impl<T: Element + Yields<D>, D: Element<Acc = T::Acc>> Rotation<T, D> {
    /// No operands yet, of products whose results may be of another type than factors.
    pub fn widening(device: &Device, seed: u64) -> Self {
        Rotation {
            device: device.clone(),
            seed,
            layout: SetLayout::default(),
            sets: 0,
            next: 0,
            inputs: None,
            addends: None,
            outputs: None,
        }
    }

    /// Makes room for the largest of these layouts at once, so that no later [`Rotation::fit`] of one of them fills
    /// memory again.
    ///
    /// # Errors
    /// The device has no room, or fails.
    pub fn reserve(&mut self, layouts: &[SetLayout]) -> Result<()> {
        let rooms = layouts.iter().map(|layout| layout.room(self.sets_of(layout)));
        self.make_room(rooms.fold(Room::default(), Room::or_more))
    }

    /// Lays out the sets anew. Keeps the memory if it is large enough.
    ///
    /// # Errors
    /// The device has no room for them, or fails.
    pub fn fit(&mut self, layout: SetLayout) -> Result<()> {
        let sets = self.sets_of(&layout);
        self.make_room(layout.room(sets))?;
        (self.layout, self.sets, self.next) = (layout, sets, 0);
        Ok(())
    }

    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// The first set, whichever is next: for what is not measured.
    ///
    /// # Errors
    /// [`Error::NotMeasurable`] before [`Rotation::fit`].
    pub fn first_set(&mut self) -> Result<OperandSet<'_, T, D>> {
        self.set(0)
    }

    /// The next set. Everyone who takes part in a measurement takes from the same rotation: the set is another than the
    /// one before, and all sets have been used since it was.
    ///
    /// # Errors
    /// [`Error::NotMeasurable`] before [`Rotation::fit`].
    pub fn next_set(&mut self) -> Result<OperandSet<'_, T, D>> {
        let set = self.next;
        self.next = (set + 1) % self.sets.max(1);
        self.set(set)
    }

    fn set(&mut self, set: usize) -> Result<OperandSet<'_, T, D>> {
        let (Some(inputs), Some(addends), Some(outputs)) =
            (&self.inputs, &self.addends, &mut self.outputs)
        else {
            return Err(Error::NotMeasurable { why: "there is no memory for operands yet".into() });
        };
        let SetLayout { a, b, c, d } = self.layout;
        let first = set * (a.len() + b.len());
        let output = outputs.view_mut().slice(0..1, d.range(set * d.len()))?;
        Ok(OperandSet {
            a: part_of(inputs, a, first)?,
            b: part_of(inputs, b, first + a.len())?,
            c: part_of(addends, c, set * c.len())?,
            d: output.folded(d.rows, d.cols, d.ld)?,
        })
    }

    /// How many sets of a layout take more memory than the L2 holds; one on the simulator, which has none, and where
    /// two would take more than half of the memory.
    fn sets_of(&self, layout: &SetLayout) -> usize {
        let info = self.device.info();
        let bytes = layout.bytes::<T, D>().max(1);
        let Some(l2) = info.l2_bytes else { return 1 };
        let most = (info.memory_bytes / 2 / bytes).max(1);
        (l2 * L2_MULTIPLE).div_ceil(bytes).max(FEWEST_SETS).min(most) as usize
    }

    /// Makes sure that there is memory for so many elements.
    fn make_room(&mut self, room: Room) -> Result<()> {
        // The old memory goes before the new comes, so that both need not fit.
        if !has_room(&self.outputs, room.outputs) {
            self.outputs = None;
            self.outputs = Some(self.device.matrix(1, room.outputs)?);
        }
        if !has_room(&self.addends, room.addends) {
            self.addends = None;
            self.addends = Some(random_row(&self.device, (self.seed, ADDENDS), room.addends)?);
        }
        if !has_room(&self.inputs, room.inputs) {
            self.inputs = None;
            self.inputs = Some(random_row(&self.device, (self.seed, INPUTS), room.inputs)?);
        }
        Ok(())
    }
}

/// The streams of generators from which elements are drawn, so that C is none of the factors.
const INPUTS: u64 = 0;
const ADDENDS: u64 = 2;

/// Whether a row has so many elements.
fn has_room<T: Element>(row: &Option<Matrix<T>>, elements: usize) -> bool {
    row.as_ref().is_some_and(|row| row.cols() >= elements)
}

/// A row of so many elements: some that are drawn, again and again.
fn random_row<T: Element>(
    device: &Device,
    (seed, stream): (u64, u64),
    elements: usize,
) -> Result<Matrix<T>> {
    let mut row = device.matrix(1, elements)?;
    let drawn = elements.min(DRAWN);
    let values = random_vector(&mut rng(seed, stream), drawn, Distribution::Normal);
    for start in (0..elements).step_by(drawn.max(1)) {
        let part = start..elements.min(start + drawn);
        let values = ArrayView1::from(&values[..part.len()]).insert_axis(Axis(0));
        row.view_mut().slice(0..1, part)?.copy_from(&values)?;
    }
    Ok(row)
}

/// The part of a row that begins at `start`, as a matrix.
fn part_of<T: Element>(row: &Matrix<T>, part: Part, start: usize) -> Result<MatrixView<'_, T>> {
    row.view().slice(0..1, part.range(start))?.folded(part.rows, part.cols, part.ld)
}

/// Where the operands of one product are within the memory of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetLayout {
    /// A as it lies in memory.
    pub a: Part,
    /// B as it lies in memory.
    pub b: Part,
    /// C; empty where the product has none.
    pub c: Part,
    /// D.
    pub d: Part,
}

/// Elements that there is to be memory for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    /// Of A and B.
    inputs: usize,
    /// Of C.
    addends: usize,
    /// Of D.
    outputs: usize,
}

impl Room {
    /// The larger of each.
    fn or_more(self, other: Room) -> Room {
        Room {
            inputs: self.inputs.max(other.inputs),
            addends: self.addends.max(other.addends),
            outputs: self.outputs.max(other.outputs),
        }
    }
}

/// A matrix in a range of elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Leading dimension: at least the number of columns.
    pub ld: usize,
}

impl SetLayout {
    /// Of an `m x n x k` product of row-major matrices without gaps.
    pub fn packed(m: usize, n: usize, k: usize) -> SetLayout {
        SetLayout::packed_in(Layouts::NN, m, n, k)
    }

    /// As [`SetLayout::packed`], with A and B stored in these layouts.
    pub fn packed_in(layouts: Layouts, m: usize, n: usize, k: usize) -> SetLayout {
        let part = |(rows, cols)| Part::packed(rows, cols);
        SetLayout {
            a: part(layouts.a.stored(m, k)),
            b: part(layouts.b.stored(k, n)),
            c: Part::default(),
            d: part((m, n)),
        }
    }

    /// Bytes of one set with factors of `T`, and C and D of `D`.
    pub fn bytes<T, D>(&self) -> u64 {
        let Room { inputs, addends, outputs } = self.room(1);
        let of_factors = inputs.saturating_mul(size_of::<T>());
        let of_results = addends.saturating_add(outputs).saturating_mul(size_of::<D>());
        of_factors.saturating_add(of_results) as u64
    }

    /// The elements of so many sets.
    fn room(&self, sets: usize) -> Room {
        let inputs = self.a.len().saturating_add(self.b.len());
        Room {
            inputs: inputs.saturating_mul(sets),
            addends: self.c.len().saturating_mul(sets),
            outputs: self.d.len().saturating_mul(sets),
        }
    }
}

impl Part {
    /// A matrix without gaps between its rows.
    pub fn packed(rows: usize, cols: usize) -> Part {
        Part { rows, cols, ld: cols }
    }

    /// Elements that are set aside: more than there can be where they are too many to be counted.
    fn len(&self) -> usize {
        let elements = self.rows.checked_mul(self.ld);
        elements.and_then(|n| n.checked_next_multiple_of(ALIGNMENT)).unwrap_or(usize::MAX)
    }

    fn range(&self, start: usize) -> Range<usize> {
        start..start + self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    const LAYOUT: SetLayout = SetLayout {
        a: Part { rows: 5, cols: 8, ld: 9 },
        b: Part { rows: 8, cols: 12, ld: 13 },
        c: Part { rows: 5, cols: 12, ld: 14 },
        d: Part { rows: 5, cols: 12, ld: 13 },
    };

    /// 2^64 + 2^20 elements are not as many as 2^20.
    #[test]
    fn sizes_that_cannot_be_counted_are_refused() {
        let cols = 1 << 20;
        let large = Part { rows: (1 << 44) + 1, cols, ld: cols };
        let layout = SetLayout { d: large, ..LAYOUT };
        assert!(layout.bytes::<f32, f32>() > isize::MAX as u64);
        let mut rotation = Rotation::<f32>::new(&Device::sim(), 1);
        assert!(matches!(rotation.fit(layout), Err(Error::SizeOverflow { .. })));
        assert!(matches!(rotation.reserve(&[layout]), Err(Error::SizeOverflow { .. })));
        assert!(rotation.first_set().is_err());
        // Nor is there room for it in what has room for something else.
        let row = Device::sim().matrix::<f32>(1, cols).unwrap();
        let folded = row.view().folded(large.rows, large.cols, large.ld);
        assert!(matches!(folded, Err(Error::SizeOverflow { .. })));
    }

    #[test]
    fn sets_share_no_memory_and_are_random() {
        let mut rotation = Rotation::<f32>::new(&Device::sim(), 1);
        rotation.make_room(LAYOUT.room(3)).unwrap();
        (rotation.layout, rotation.sets) = (LAYOUT, 3);
        let mut ranges = Vec::new();
        for _ in 0..3 {
            let OperandSet { a, b, c, d } = rotation.next_set().unwrap();
            assert_eq!([a.rows(), a.cols(), a.ld(), b.rows()], [5, 8, 9, 8]);
            assert_eq!([c.rows(), c.cols(), c.ld()], [5, 12, 14]);
            for random in [a, b, c] {
                let values = random.to_vec().unwrap();
                assert!(values.iter().all(|x| x.is_finite()) && values[0] != values[1]);
            }
            for view in [a, b, c, d.view()] {
                let bytes = (view.rows() * view.ld() * 4) as u64;
                ranges.push(view.address()..view.address() + bytes);
            }
        }
        let first = rotation.first_set().unwrap().a.address();
        assert_eq!(rotation.next_set().unwrap().a.address(), first, "three sets in turn");
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
    }

    #[test]
    fn transposed_factors_are_stored_as_their_transposes() {
        for layouts in Layouts::ALL {
            let mut rotation =
                Rotation::<f32>::in_layouts(&Device::sim(), layouts, (3, 4, 5), 1).unwrap();
            let OperandSet { a, b, c, d } = rotation.first_set().unwrap();
            assert_eq!(c.rows(), 0, "there is none unless it is asked for");
            let stored = [(a.rows(), a.cols()), (b.rows(), b.cols()), (d.rows(), d.cols())];
            assert_eq!(stored, [layouts.a.stored(3, 5), layouts.b.stored(5, 4), (3, 4)]);
        }
    }

    #[test]
    fn results_and_addends_may_be_longer_than_factors() {
        let mut rotation = Rotation::<f16, f32>::widening(&Device::sim(), 1);
        rotation.fit(LAYOUT).unwrap();
        let OperandSet { a, c, d, .. } = rotation.first_set().unwrap();
        let _: (MatrixView<'_, f16>, MatrixView<'_, f32>, MatrixViewMut<'_, f32>) = (a, c, d);
        let [a, b, c, d] = [LAYOUT.a, LAYOUT.b, LAYOUT.c, LAYOUT.d].map(|part| part.len() as u64);
        assert_eq!(LAYOUT.bytes::<f16, f32>(), 2 * (a + b) + 4 * (c + d));
    }

    #[test]
    fn there_is_nothing_before_a_layout_and_memory_is_kept_for_a_smaller_one() {
        let mut rotation = Rotation::<f32>::new(&Device::sim(), 1);
        assert!(rotation.first_set().is_err());
        rotation.reserve(&[SetLayout::packed(4, 4, 4), LAYOUT]).unwrap();
        rotation.fit(LAYOUT).unwrap();
        let before = rotation.first_set().unwrap().a.address();
        rotation.fit(SetLayout::packed(4, 4, 4)).unwrap();
        assert_eq!(rotation.first_set().unwrap().a.address(), before);
        assert_eq!(rotation.sets(), 1, "the simulator has no cache");
    }
}
