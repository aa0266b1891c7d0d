//! The built-in epilogue.

use super::{Epilogue, Short};
use crate::element::{Accumulator, Element};
use crate::epilogue::activation::Activation;
use crate::epilogue::pairs::{self, Fetched, FetchedVectors, PAIRS, Pairs, PairsAt, ROWS};
use crate::params::MatrixRef;
use crate::slices::mover::VECTOR_BYTES;
use cuda_std::device_inline;
use cuda_std::hint;
use cuda_std::memory::GlobalPtr;

/// Along which axis of D the bias vector runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BiasAxis {
    /// No bias.
    #[default]
    None = 0,
    /// One value a column of D: a vector of `n` elements, added to every row.
    Column = 1,
    /// One value a row of D: a vector of `m` elements, added to every column.
    Row = 2,
}

impl BiasAxis {
    /// Along which axis of the sums it runs, which are those of the transpose of D where A and B are
    /// [swapped](crate::swapped).
    #[device_inline]
    const fn of_sums(self, swapped: bool) -> Self {
        match self {
            BiasAxis::Column if swapped => BiasAxis::Row,
            BiasAxis::Row if swapped => BiasAxis::Column,
            axis => axis,
        }
    }
}

/// The built-in epilogue: `activation(alpha * sum + beta * C + bias)`.
///
/// Activation and bias are chosen at run time by branches that are the same for a whole launch, so they do not multiply
/// the number of kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Linear<T: Element> {
    /// C, `m x n`; not read where `beta` is zero.
    pub c: MatrixRef<T>,
    /// The bias vector, `n` or `m` elements as `bias_axis` says.
    pub bias: GlobalPtr<T>,
    /// Elements from the C of one product of a batch to that of the next; zero where they share one.
    pub c_stride: u64,
    /// Elements from the bias of one product of a batch to that of the next; zero where they share one.
    pub bias_stride: u64,
    /// Factor of the product. Where it is zero the host passes `k = 0`, so that A and B are not read.
    pub alpha: T::Acc,
    /// Factor of C.
    pub beta: T::Acc,
    /// Slope of leaky ReLU below zero.
    pub slope: T::Acc,
    /// Along which axis the bias runs.
    pub bias_axis: BiasAxis,
    /// The function applied last.
    pub activation: Activation,
}

impl<T: Element> Linear<T> {
    /// The epilogue that only stores the sum: `alpha = 1`, `beta = 0`, no bias, no activation.
    pub fn identity() -> Self {
        Linear {
            c: MatrixRef::NULL,
            bias: GlobalPtr::null(),
            c_stride: 0,
            bias_stride: 0,
            alpha: T::Acc::ONE,
            beta: T::Acc::ZERO,
            slope: T::Acc::constant(0.01),
            bias_axis: BiasAxis::None,
            activation: Activation::None,
        }
    }
}

impl<T: Element> Epilogue<T> for Linear<T> {
    #[device_inline]
    fn of_product(self, index: u32) -> Self {
        Linear {
            c: self.c.shifted(u64::from(index) * self.c_stride),
            bias: self.bias.add(u64::from(index) * self.bias_stride),
            ..self
        }
    }

    #[device_inline]
    fn only_scales(&self) -> Option<T::Acc> {
        let plain = !self.reads_c_of_f32()
            && anew::<T>(self.bias_axis as u32) == BiasAxis::None as u32
            && anew::<T>(self.activation as u32) == Activation::None as u32;
        plain.then_some(self.alpha)
    }

    #[device_inline]
    fn short(&self) -> Option<Short<T::Acc>> {
        // What is worked out here stays here: in registers all through the loops before it would take them from the
        // sums.
        let activation = hint::opaque(self.activation as u32);
        let bias_axis = hint::opaque(self.bias_axis as u32);
        let reads_c = self.reads_c();
        let by_tanh = activation == Activation::GeluTanh as u32;
        let has_gelu = by_tanh || activation == Activation::GeluErf as u32;
        let has_none = activation == Activation::None as u32;
        let is_short = bias_axis != BiasAxis::Row as u32
            && (!reads_c && has_gelu && T::has_short_gelu(by_tanh) || has_none);
        let of_c = reads_c.then_some(self.beta);
        is_short.then_some(Short { factor: self.alpha, has_gelu, by_tanh, of_c })
    }

    #[device_inline]
    #[track_caller]
    unsafe fn fetch(&self, at: &PairsAt) -> Fetched {
        let mut fetched = Fetched::default();
        // NaN in C must not reach D where beta is zero, so C is not even read.
        if self.reads_c() {
            // SAFETY: only elements inside of D are read; the host has checked C's shape.
            fetched.elements = unsafe { at.load(self.c) };
        }
        fetched
    }

    #[device_inline]
    #[track_caller]
    unsafe fn fetch_vectors(&self, at: &PairsAt) -> FetchedVectors {
        let mut vectors = FetchedVectors::default();
        // SAFETY: only elements for rows and columns of D are read; the host has checked the bias's length.
        unsafe {
            match self.bias_axis.of_sums(at.swapped) {
                BiasAxis::None => {}
                BiasAxis::Column => vectors.of_cols = at.load_of_cols(self.bias),
                BiasAxis::Row => vectors.of_rows = at.load_of_rows(self.bias),
            }
        }
        vectors
    }

    /// `fma(beta, c, bias)`, as in [`apply_vector`](Self::apply_vector).
    #[device_inline]
    fn addends(
        &self,
        at: &PairsAt,
        vectors: &FetchedVectors,
        fetched: &Fetched,
    ) -> (T::Acc, Pairs<T::Acc>) {
        let widened = |words| pairs::unpack(words).map(T::widen);
        let mut addends = match self.bias_axis.of_sums(at.swapped) {
            // Where there is no bias zeros have been fetched.
            BiasAxis::None | BiasAxis::Column => [vectors.of_cols.map(widened); ROWS],
            BiasAxis::Row => widened(vectors.of_rows).map(|of_row| [[of_row; 2]; PAIRS]),
        };
        if self.reads_c_of_f32() {
            for i in 0..ROWS {
                for j in 0..PAIRS {
                    let c = widened(fetched.elements[i][j]);
                    let [low, high] = addends[i][j];
                    addends[i][j] =
                        [T::Acc::fma(self.beta, c[0], low), T::Acc::fma(self.beta, c[1], high)];
                }
            }
        }
        (self.alpha, addends)
    }

    #[device_inline]
    unsafe fn finish(&self, values: &mut Pairs<T::Acc>, _at: &PairsAt) {
        if self.activation != Activation::None {
            let mut all = [T::Acc::ZERO; ROWS * PAIRS * 2];
            all.copy_from_slice(values.as_flattened().as_flattened());
            let all = T::activate(self.activation, all, self.slope);
            values.as_flattened_mut().as_flattened_mut().copy_from_slice(&all);
        }
    }

    #[device_inline]
    unsafe fn apply(&self, sum: T::Acc, row: u32, col: u32) -> T::Acc {
        let mut sums = [sum];
        // SAFETY: as promised by the caller.
        unsafe { self.apply_vector(&mut sums, row, col, 1) };
        sums[0]
    }

    /// `activation(fma(alpha, sum, fma(beta, c, bias)))`: two roundings before the activation.
    ///
    /// One short loop a term, so that each unrolls and the values stay in registers.
    #[device_inline]
    unsafe fn apply_vector(&self, sums: &mut [T::Acc], row: u32, col: u32, inside: u32) {
        let len = sums.len();
        let mut addends = [T::Acc::ZERO; VECTOR_BYTES];
        // SAFETY: only elements inside of D are read; the host has checked C's shape and the bias's length.
        unsafe {
            match self.bias_axis {
                BiasAxis::None => {}
                BiasAxis::Column => {
                    for j in 0..len {
                        let bias = self.bias.add(col as u64 + j as u64);
                        addends[j] = bias.load_if((j as u32) < inside).widen();
                    }
                }
                BiasAxis::Row => {
                    let bias = self.bias.add(row as u64).load().widen();
                    for j in 0..len {
                        addends[j] = bias;
                    }
                }
            }
            // NaN in C must not reach D where beta is zero, so C is not even read.
            if self.beta != T::Acc::ZERO {
                for j in 0..len {
                    let c = self.c.at(row, col).add(j as u64).load_if((j as u32) < inside);
                    addends[j] = T::Acc::fma(self.beta, c.widen(), addends[j]);
                }
            }
        }
        for j in 0..len {
            sums[j] = T::Acc::fma(self.alpha, sums[j], addends[j]);
        }
        if self.activation != Activation::None {
            // Half a vector at a time: what the one value waits for, the other fills, and that in half the code.
            if len.is_multiple_of(2) && size_of::<T::Acc>() == size_of::<f32>() {
                self.activate::<2>(sums);
            } else {
                self.activate::<1>(sums);
            }
        }
    }

    /// The same for several rows. A bias per column is loaded once, C of all rows at a time, and the activation is
    /// applied to a row at a time by one copy of its code.
    #[device_inline]
    unsafe fn apply_rows<const R: usize, const N: usize>(
        &self,
        sums: &mut [[T::Acc; N]; R],
        row: u32,
        col: u32,
        inside: (u32, u32),
    ) {
        let mut addends = [[T::Acc::ZERO; N]; R];
        // SAFETY: only elements inside of D are read; the host has checked C's shape and the bias's length.
        unsafe {
            match self.bias_axis {
                BiasAxis::None => {}
                BiasAxis::Column => {
                    let bias = self.bias.add(col as u64);
                    for j in 0..N {
                        let bias = bias.add(j as u64).load_if((j as u32) < inside.1).widen();
                        for i in 0..R {
                            addends[i][j] = bias;
                        }
                    }
                }
                BiasAxis::Row => {
                    let bias = self.bias.add(row as u64);
                    for i in 0..R {
                        let bias = bias.add(i as u64).load_if((i as u32) < inside.0).widen();
                        addends[i] = [bias; N];
                    }
                }
            }
            if self.beta != T::Acc::ZERO {
                let mut c = self.c.at(row, col);
                for i in 0..R {
                    for j in 0..N {
                        let inside = (i as u32) < inside.0 && (j as u32) < inside.1;
                        let c = c.add(j as u64).load_if(inside).widen();
                        addends[i][j] = T::Acc::fma(self.beta, c, addends[i][j]);
                    }
                    c = c.add(self.c.ld);
                }
            }
        }
        for i in 0..R {
            for j in 0..N {
                sums[i][j] = T::Acc::fma(self.alpha, sums[i][j], addends[i][j]);
            }
        }
        if self.activation != Activation::None {
            for _ in 0..hint::opaque(R as u32) {
                let first = self.activation.apply_to_each(sums[0], self.slope);
                for i in 1..R {
                    sums[i - 1] = sums[i];
                }
                sums[R - 1] = first;
            }
        }
    }
}

/// A word of the epilogue's, looked at each time anew where results are of f32: what is known of it takes a predicate
/// all through the loops before, of which these leave none.
#[device_inline]
fn anew<T: Element>(word: u32) -> u32 {
    if const { size_of::<T>() == size_of::<u32>() } { hint::opaque(word) } else { word }
}

impl<T: Element> Linear<T> {
    /// Whether there is a C, asked each time anew where sums are of f32: the answer takes a predicate all through the
    /// loops before.
    #[device_inline]
    fn reads_c(&self) -> bool {
        if const { size_of::<T::Acc>() == size_of::<u32>() } {
            let bits = (self.beta.to_f64() as f32).to_bits();
            // Of both zeros all bits but the sign are zero.
            hint::opaque(bits) << 1 != 0
        } else {
            self.beta != T::Acc::ZERO
        }
    }

    /// Whether there is a C, asked anew where results are of f32, as by [`anew`].
    #[device_inline]
    fn reads_c_of_f32(&self) -> bool {
        if const { size_of::<T>() == size_of::<u32>() } {
            self.reads_c()
        } else {
            self.beta != T::Acc::ZERO
        }
    }

    /// Applies the activation to values whose number is a multiple of `N`.
    ///
    /// One copy of its code works on the first half of a vector, then on the second: see `ThreadTile::store`.
    #[device_inline]
    fn activate<const N: usize>(&self, values: &mut [T::Acc]) {
        let rounds = values.len() / N;
        if rounds == 2 {
            // A predicate, which takes no register from the sums as a counter does.
            let mut again = hint::opaque(1) != 0;
            loop {
                self.activate_first::<N>(values);
                if !again {
                    break;
                }
                again = false;
            }
        } else {
            for _ in 0..rounds {
                self.activate_first::<N>(values);
            }
        }
    }

    /// Applies the activation to the first `N` values and puts them behind the others.
    #[device_inline]
    fn activate_first<const N: usize>(&self, values: &mut [T::Acc]) {
        let mut first = [T::Acc::ZERO; N];
        first.copy_from_slice(&values[..N]);
        let first = self.activation.apply_to_each(first, self.slope);
        let others = values.len() - N;
        for j in 0..others {
            values[j] = values[j + N];
        }
        values[others..].copy_from_slice(&first);
    }
}
