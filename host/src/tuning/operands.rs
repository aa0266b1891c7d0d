//! Operands for measuring: one piece of memory that all shapes share, cut into A, B and D.

use super::class::Shape;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::matrix::view::{MatrixView, MatrixViewMut};
use crate::verify::{Distribution, random_vector, rng};
use ndarray::{ArrayView1, Axis};
use regemm_kernels::element::Element;
use std::ops::Range;

/// Random elements that are drawn; the operands repeat them.
const DRAWN: usize = 1 << 22;

/// Operands begin at multiples of this many elements: as aligned as memory that the device allocates.
const ALIGNMENT: usize = 128;

/// Memory for sets of operands.
pub(super) struct Operands<T> {
    device: Device,
    seed: u64,
    /// A row of random elements, of which A and B are parts.
    inputs: Option<Matrix<T>>,
    /// A row of which D is a part. Apart from the others, because sums of sums would grow.
    outputs: Option<Matrix<T>>,
}

/// A, B and D.
type Set<'a, T> = (MatrixView<'a, T>, MatrixView<'a, T>, MatrixViewMut<'a, T>);

impl<T: Element> Operands<T> {
    /// No memory yet.
    pub fn new(device: &Device, seed: u64) -> Self {
        Operands { device: device.clone(), seed, inputs: None, outputs: None }
    }

    /// Makes sure that there is memory for so many sets of operands.
    pub fn make_room(&mut self, layout: &Layout, sets: usize) -> Result<()> {
        let Layout { a, b, d } = layout;
        let room = |matrix: &Option<Matrix<T>>| matrix.as_ref().map_or(0, Matrix::cols);
        let (inputs, outputs) = (sets * (a.len() + b.len()), sets * d.len());
        // The old memory goes before the new comes, so that both need not fit.
        if room(&self.outputs) < outputs {
            self.outputs = None;
            self.outputs = Some(self.device.matrix(1, outputs)?);
        }
        if room(&self.inputs) < inputs {
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

    /// The operands of a set that there is room for.
    pub fn set(&mut self, layout: &Layout, set: usize) -> Result<Set<'_, T>> {
        let (Some(inputs), Some(outputs)) = (&self.inputs, &mut self.outputs) else {
            return Err(Error::NotMeasurable { why: "there is no memory for operands yet" });
        };
        let Layout { a, b, d } = layout;
        let first = set * (a.len() + b.len());
        let input = |part: &Part, start| {
            inputs.view().slice(0..1, part.range(start))?.folded(part.rows, part.cols, part.ld)
        };
        let output = outputs.view_mut().slice(0..1, d.range(set * d.len()))?;
        Ok((input(a, first)?, input(b, first + a.len())?, output.folded(d.rows, d.cols, d.ld)?))
    }
}

/// Where the operands of one product are within the memory of a set.
pub(super) struct Layout {
    pub a: Part,
    pub b: Part,
    pub d: Part,
}

/// A matrix in a range of elements.
pub(super) struct Part {
    pub rows: usize,
    pub cols: usize,
    pub ld: usize,
}

impl Layout {
    /// Of matrices that make a product of this shape.
    pub fn of<T: Element>(shape: Shape) -> Layout {
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
        // Rows of whole vectors lose their alignment by a leading dimension that is none.
        let packed = Shape::packed(T::DTYPE, shape.m, shape.n, shape.k);
        let gap = usize::from(packed.aligned && !shape.aligned);
        let part = |rows, cols| Part { rows, cols, ld: cols + gap };
        Layout { a: part(m, k), b: part(k, n), d: part(m, n) }
    }

    /// Bytes of one set.
    pub fn bytes<T>(&self) -> u64 {
        ((self.a.len() + self.b.len() + self.d.len()) * size_of::<T>()) as u64
    }
}

impl Part {
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
    use regemm_kernels::element::Dtype;

    #[test]
    fn operands_are_laid_out_as_their_shape_says() {
        for (dtype_aligned, shape_aligned) in [(true, true), (true, false), (false, false)] {
            let n = if dtype_aligned { 64 } else { 63 };
            let shape = Shape { m: 100, n, k: 32, aligned: shape_aligned };
            let Layout { a, b, d } = Layout::of::<f32>(shape);
            assert_eq!([a.rows, a.cols, b.rows, b.cols], [100, 32, 32, n as usize]);
            let vectors = |part: &Part| Shape::has_vectors(Dtype::F32, 0, part.cols, part.ld);
            assert_eq!(vectors(&a) && vectors(&b) && vectors(&d), shape_aligned, "{shape}");
            for part in [a, b, d] {
                assert!(part.len() >= part.rows * part.ld && part.len() % ALIGNMENT == 0);
            }
        }
    }

    #[test]
    fn sets_share_no_memory_and_are_random() {
        let shape = Shape { m: 5, n: 12, k: 8, aligned: false };
        let layout = Layout::of::<f32>(shape);
        let mut operands = Operands::<f32>::new(&Device::sim(), 1);
        operands.make_room(&layout, 3).unwrap();
        let mut ranges = Vec::new();
        for set in 0..3 {
            let (a, b, d) = operands.set(&layout, set).unwrap();
            assert_eq!([a.rows(), a.cols(), a.ld(), b.rows()], [5, 8, 9, 8]);
            let values = a.to_vec().unwrap();
            assert!(values.iter().all(|x| x.is_finite()) && values[0] != values[1]);
            for view in [a, b, d.view()] {
                let bytes = (view.rows() * view.ld() * 4) as u64;
                ranges.push(view.address()..view.address() + bytes);
            }
        }
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
        assert!(operands.set(&layout, 3).is_err(), "there is room for three");
    }
}
