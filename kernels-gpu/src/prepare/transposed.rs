//! A kernel for factors in one pair of layouts, as one for those in another.
//!
//! A launch before it transposes what lies otherwise ([`mod@crate::prepare::repack`]), and the kernel does not know.
//! Each element then goes through the multiprocessors once more, where kernels that transpose slices on their way
//! ([`crate::slices::staged`]) do so for each tile of D.

use crate::element::Dtype;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Summation, launched_as};
use crate::layout::{Layouts, OperandLayouts};
use crate::params::GemmParams;
use core::marker::PhantomData;
use cuda_std::device_inline;

/// The kernel `K`, for factors that are stored in the layouts `L`. It makes bulk copies: others are not told where
/// copies of factors lie.
pub struct Transposed<K, L>(PhantomData<(K, L)>);

impl<K: GemmKernel, L: OperandLayouts> GemmKernel for Transposed<K, L> {
    type Element = K::Element;
    type Target = K::Target;
    const DTYPE: Dtype = K::DTYPE;
    const STORED: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = K::SUMMATION;
    launched_as!(K);

    #[device_inline]
    unsafe fn run<E: Epilogue<Self::Target>>(params: GemmParams<Self::Element, E, Self::Target>) {
        const { assert!(K::BOXES.is_some(), "bulk copies are told where copies of factors lie") };
        // SAFETY: as promised by the caller: the factors are in the layouts of `K` by now.
        unsafe { K::run(params) }
    }
}
