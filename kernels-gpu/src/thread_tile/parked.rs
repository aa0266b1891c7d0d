//! D as the place of sums that are not finished.

use super::{Arrangement, ThreadTile, copied};
use crate::element::Element;
use crate::kernel::GemmKernel;
use crate::params::GemmParams;
use crate::tile::Origin;
use cuda_std::device_inline;
use cuda_std::unroll;

/// D as the place of sums that are not finished, for element types that are their own accumulators: nothing is rounded.
impl<
    T: Element<Acc = T>,
    K: GemmKernel<Element = T>,
    const TM: usize,
    const TN: usize,
    P: Arrangement<K>,
> ThreadTile<K, TM, TN, P>
{
    /// Writes the sums to D as they are, those that lie in it.
    ///
    /// # Safety
    /// D is valid for its shape.
    #[device_inline]
    #[track_caller]
    pub unsafe fn park<E>(&self, params: &GemmParams<T, E>, origin: Origin) {
        // SAFETY: as promised by the caller; vectors are aligned where `wide` holds.
        unsafe {
            if Self::wide(params) {
                self.park_vectors(params, origin, Self::COL_VECTOR);
            } else {
                self.park_vectors(params, origin, 1);
            }
        }
    }

    /// As [`park`](Self::park) for a D that is known to consist of whole, aligned vectors. Sums are
    /// [copied](crate::element::Accumulator::copied) before, as for [`store`](Self::store).
    ///
    /// # Safety
    /// As for [`park`](Self::park); D's rows start at multiples of a vector and have a multiple of its length.
    #[device_inline]
    #[track_caller]
    pub unsafe fn park_whole_vectors<E>(&self, params: &GemmParams<T, E>, origin: Origin) {
        unroll!(i < TM, {
            let row = self.row_of_d(origin, i);
            let sums = copied::<T, TN>(&self.sums[i]);
            unroll!(j < TN / Self::COL_VECTOR, {
                let col = self.col_of_d(origin, j);
                let inside = row < params.m && col < params.n;
                let sums = &sums[j * Self::COL_VECTOR..(j + 1) * Self::COL_VECTOR];
                // SAFETY: as promised by the caller; all of a vector lies in D where its first element does.
                unsafe { params.d.at(row, col).store_slice_if(inside, sums) };
            });
        });
    }

    #[device_inline]
    #[track_caller]
    unsafe fn park_vectors<E>(&self, params: &GemmParams<T, E>, origin: Origin, len: usize) {
        for i in 0..TM {
            let row = self.row_of_d(origin, i);
            for j in 0..TN / Self::COL_VECTOR {
                let col = self.col_of_d(origin, j);
                let (target, inside) = (params.d.at(row, col), elements_inside(params, row, col));
                for e in 0..Self::COL_VECTOR / len {
                    let first = e * len;
                    let from = j * Self::COL_VECTOR + first;
                    let sums = &self.sums[i][from..from + len];
                    // SAFETY: as promised by the caller; elements of D where the predicate holds.
                    unsafe {
                        target.add(first as u64).store_slice_if((first as u32) < inside, sums)
                    };
                }
            }
        }
    }

    /// Reads the sums back that [`park`](Self::park) wrote to D; those outside of it are zero.
    ///
    /// # Safety
    /// D is valid for its shape, and this thread has parked sums there.
    #[device_inline]
    #[track_caller]
    pub unsafe fn resume<E>(&mut self, params: &GemmParams<T, E>, origin: Origin) {
        // SAFETY: as promised by the caller; vectors are aligned where `wide` holds.
        unsafe {
            if Self::wide(params) {
                self.resume_vectors(params, origin);
            } else {
                self.resume_elements(params, origin);
            }
        }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn resume_vectors<E>(&mut self, params: &GemmParams<T, E>, origin: Origin) {
        let vector = Self::COL_VECTOR;
        for i in 0..TM {
            let row = self.row_of_d(origin, i);
            for j in 0..TN / vector {
                let col = self.col_of_d(origin, j);
                let inside = elements_inside(params, row, col) > 0;
                let sums = &mut self.sums[i][j * vector..(j + 1) * vector];
                // SAFETY: as promised by the caller; all of a vector lies in D where its first element does.
                unsafe { params.d.at(row, col).load_slice_if(inside, sums) };
            }
        }
    }

    /// Element by element this is so much code that the compiler may keep the loop over rows. Registers cannot be
    /// indexed, so each row comes in at the bottom while the others move up: after the last all are in their places.
    #[device_inline]
    #[track_caller]
    unsafe fn resume_elements<E>(&mut self, params: &GemmParams<T, E>, origin: Origin) {
        for i in 0..TM {
            let row = self.row_of_d(origin, i);
            let mut sums = [T::ZERO; TN];
            for j in 0..TN / Self::COL_VECTOR {
                let col = self.col_of_d(origin, j);
                let (source, inside) = (params.d.at(row, col), elements_inside(params, row, col));
                for e in 0..Self::COL_VECTOR {
                    // SAFETY: as promised by the caller; an element of D where the predicate holds.
                    let sum = unsafe { source.add(e as u64).load_if((e as u32) < inside) };
                    sums[j * Self::COL_VECTOR + e] = sum;
                }
            }
            for row in 1..TM {
                self.sums[row - 1] = self.sums[row];
            }
            self.sums[TM - 1] = sums;
        }
    }
}

/// Elements of D in row `row` from `col` on.
#[device_inline]
fn elements_inside<T: Element, E>(params: &GemmParams<T, E>, row: u32, col: u32) -> u32 {
    if row < params.m { params.n.saturating_sub(col) } else { 0 }
}
