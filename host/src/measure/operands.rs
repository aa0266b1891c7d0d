//! Operands for measuring: one piece of memory that all shapes share, cut into sets of A, B and D.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::matrix::view::{MatrixView, MatrixViewMut};
use crate::verify::{Distribution, random_vector, rng};
use ndarray::{ArrayView1, Axis};
use regemm_kernels::element::Element;
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
/// A and B hold random normal elements. What D holds is not defined.
pub struct Rotation<T> {
    device: Device,
    seed: u64,
    layout: SetLayout,
    sets: usize,
    /// The set that is handed out next.
    next: usize,
    /// A row of random elements, of which A and B are parts.
    inputs: Option<Matrix<T>>,
    /// A row of which D is a part. Apart from the others, because sums of sums would grow.
    outputs: Option<Matrix<T>>,
}

/// A, B and room for D.
pub struct OperandSet<'a, T> {
    /// A as it is stored: `m x k`, or `k x m` where it is transposed.
    pub a: MatrixView<'a, T>,
    /// B as it is stored: `k x n`, or `n x k` where it is transposed.
    pub b: MatrixView<'a, T>,
    /// D, `m x n`.
    pub d: MatrixViewMut<'a, T>,
}

impl<T: Element> Rotation<T> {
    /// No operands yet; `seed` draws their elements.
    pub fn new(device: &Device, seed: u64) -> Self {
        let (inputs, outputs) = (None, None);
        let device = device.clone();
        Rotation { device, seed, layout: SetLayout::default(), sets: 0, next: 0, inputs, outputs }
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

    /// Makes room for the largest of these layouts at once, so that no later [`Rotation::fit`] of one of them fills
    /// memory again.
    ///
    /// # Errors
    /// The device has no room, or fails.
    pub fn reserve(&mut self, layouts: &[SetLayout]) -> Result<()> {
        let rooms = layouts.iter().map(|layout| layout.room(self.sets_of(layout)));
        let most = rooms.fold((0, 0), |most, room| (most.0.max(room.0), most.1.max(room.1)));
        self.make_room(most)
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
    pub fn first_set(&mut self) -> Result<OperandSet<'_, T>> {
        self.set(0)
    }

    /// The next set. Everyone who takes part in a measurement takes from the same rotation: the set is another than the
    /// one before, and all sets have been used since it was.
    ///
    /// # Errors
    /// [`Error::NotMeasurable`] before [`Rotation::fit`].
    pub fn next_set(&mut self) -> Result<OperandSet<'_, T>> {
        let set = self.next;
        self.next = (set + 1) % self.sets.max(1);
        self.set(set)
    }

    fn set(&mut self, set: usize) -> Result<OperandSet<'_, T>> {
        let (Some(inputs), Some(outputs)) = (&self.inputs, &mut self.outputs) else {
            return Err(Error::NotMeasurable { why: "there is no memory for operands yet" });
        };
        let SetLayout { a, b, d } = self.layout;
        let first = set * (a.len() + b.len());
        let input = |part: Part, start| {
            inputs.view().slice(0..1, part.range(start))?.folded(part.rows, part.cols, part.ld)
        };
        let output = outputs.view_mut().slice(0..1, d.range(set * d.len()))?;
        Ok(OperandSet {
            a: input(a, first)?,
            b: input(b, first + a.len())?,
            d: output.folded(d.rows, d.cols, d.ld)?,
        })
    }

    /// How many sets of a layout take more memory than the L2 holds; one on the simulator, which has none, and where two
    /// would take more than half of the memory.
    fn sets_of(&self, layout: &SetLayout) -> usize {
        let info = self.device.info();
        let bytes = layout.bytes::<T>().max(1);
        let Some(l2) = info.l2_bytes else { return 1 };
        let most = (info.memory_bytes / 2 / bytes).max(1);
        (l2 * L2_MULTIPLE).div_ceil(bytes).max(FEWEST_SETS).min(most) as usize
    }

    /// Makes sure that there is memory for so many elements of A and B, and of D.
    fn make_room(&mut self, (inputs, outputs): (usize, usize)) -> Result<()> {
        let room = |matrix: &Option<Matrix<T>>| matrix.as_ref().map(Matrix::cols);
        // The old memory goes before the new comes, so that both need not fit.
        if room(&self.outputs).is_none_or(|room| room < outputs) {
            self.outputs = None;
            self.outputs = Some(self.device.matrix(1, outputs)?);
        }
        if room(&self.inputs).is_none_or(|room| room < inputs) {
            self.inputs = None;
            let mut matrix = self.device.matrix(1, inputs)?;
            let drawn = inputs.min(DRAWN);
            let values = random_vector(&mut rng(self.seed, 0), drawn, Distribution::Normal);
            for start in (0..inputs).step_by(drawn.max(1)) {
                let part = start..inputs.min(start + drawn);
                let values = ArrayView1::from(&values[..part.len()]).insert_axis(Axis(0));
                matrix.view_mut().slice(0..1, part)?.copy_from(&values)?;
            }
            self.inputs = Some(matrix);
        }
        Ok(())
    }
}

/// Where the operands of one product are within the memory of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetLayout {
    /// A as it lies in memory.
    pub a: Part,
    /// B as it lies in memory.
    pub b: Part,
    /// D.
    pub d: Part,
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
            d: part((m, n)),
        }
    }

    /// Bytes of one set.
    pub fn bytes<T>(&self) -> u64 {
        ((self.a.len() + self.b.len() + self.d.len()) * size_of::<T>()) as u64
    }

    /// Elements of so many sets: of A and B, and of D.
    fn room(&self, sets: usize) -> (usize, usize) {
        (sets * (self.a.len() + self.b.len()), sets * self.d.len())
    }
}

impl Part {
    /// A matrix without gaps between its rows.
    pub fn packed(rows: usize, cols: usize) -> Part {
        Part { rows, cols, ld: cols }
    }

    /// Elements that are set aside.
    fn len(&self) -> usize {
        (self.rows * self.ld).next_multiple_of(ALIGNMENT)
    }

    fn range(&self, start: usize) -> Range<usize> {
        start..start + self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: SetLayout = SetLayout {
        a: Part { rows: 5, cols: 8, ld: 9 },
        b: Part { rows: 8, cols: 12, ld: 13 },
        d: Part { rows: 5, cols: 12, ld: 13 },
    };

    #[test]
    fn sets_share_no_memory_and_are_random() {
        let mut rotation = Rotation::<f32>::new(&Device::sim(), 1);
        rotation.make_room(LAYOUT.room(3)).unwrap();
        (rotation.layout, rotation.sets) = (LAYOUT, 3);
        let mut ranges = Vec::new();
        for _ in 0..3 {
            let OperandSet { a, b, d } = rotation.next_set().unwrap();
            assert_eq!([a.rows(), a.cols(), a.ld(), b.rows()], [5, 8, 9, 8]);
            let values = a.to_vec().unwrap();
            assert!(values.iter().all(|x| x.is_finite()) && values[0] != values[1]);
            for view in [a, b, d.view()] {
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
            let OperandSet { a, b, d } = rotation.first_set().unwrap();
            let stored = [(a.rows(), a.cols()), (b.rows(), b.cols()), (d.rows(), d.cols())];
            assert_eq!(stored, [layouts.a.stored(3, 5), layouts.b.stored(5, 4), (3, 4)]);
        }
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
