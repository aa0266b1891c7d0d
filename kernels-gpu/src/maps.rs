//! What bulk copies must be told of A and B.
//!
//! A kernel that brings its slices by bulk copies ([`cuda_std::bulk_copy`]) says in boxes of which shape it does so
//! ([`GemmKernel::BOXES`](crate::kernel::GemmKernel::BOXES)). The launch makes a map of each factor as it is stored, in such boxes,
//! and passes the maps as parameters of their own, since copies need their addresses. The entry that
//! [`gemm_kernels!`](crate::gemm_kernels) makes of a row with `factors = mapped` hands those addresses on in [`GemmParams::maps`].
//!
//! Copies take rows that begin at multiples of 16 bytes. Of factors in other rows the maps are those of copies, which a launch before
//! has made ([`crate::repack`]); what lies behind the end of a row is zero to the kernel either way.
//!
//! A map has three dimensions: columns, rows, and matrices of a batch. Matrices are counted from that of the launch's first
//! product, and there is a single one where all products share it.

use crate::params::GemmParams;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::swizzle::Swizzle;
use cuda_std::thread;

/// What one bulk copy brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoxShape {
    /// Rows of what is stored.
    pub rows: u32,
    /// Columns of what is stored.
    pub cols: u32,
    /// How they lie in shared memory.
    pub swizzle: Swizzle,
}

/// What bulk copies bring of both factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Boxes {
    /// Of A.
    pub a: BoxShape,
    /// Of B.
    pub b: BoxShape,
}

/// Where the maps of both factors are.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    a: *const TensorMap,
    b: *const TensorMap,
}

impl Maps {
    /// None.
    pub const NONE: Self = Maps { a: core::ptr::null(), b: core::ptr::null() };

    /// Those of A and B.
    #[inline(always)]
    pub const fn new(a: &TensorMap, b: &TensorMap) -> Self {
        Maps { a, b }
    }
}

/// One factor as bulk copies find it.
#[derive(Clone, Copy)]
pub struct MappedFactor<'a> {
    /// The map.
    pub map: &'a TensorMap,
    /// Which of its matrices is that of the running block's product.
    pub index: i32,
}

impl<T: crate::element::Element, E> GemmParams<T, E> {
    /// A and B of the running block's product.
    ///
    /// # Safety
    /// These are the parameters of a kernel that has maps.
    #[inline(always)]
    pub unsafe fn mapped_factors(&self) -> (MappedFactor<'_>, MappedFactor<'_>) {
        let factor = |map: *const TensorMap, stride: u64| MappedFactor {
            // SAFETY: the entry refers to its own parameters, which live as long as the launch.
            map: unsafe { &*map },
            index: if stride == 0 { 0 } else { thread::block_idx_y() as i32 },
        };
        (factor(self.maps.a, self.a_stride), factor(self.maps.b, self.b_stride))
    }
}
