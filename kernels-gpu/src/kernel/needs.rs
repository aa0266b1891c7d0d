//! What a kernel needs of a device.

use core::fmt;
use cuda_std::{cluster, mma, registers, wgmma};

/// What a kernel needs of a device beyond room for its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Needs {
    /// Nothing.
    #[default]
    Nothing,
    /// Tensor cores that multiply f16, bf16 and TF32 ([`cuda_std::mma`]): compute capability 8.0 and later.
    TensorCores,
    /// Tensor cores that multiply f64 ([`cuda_std::mma::double`]): compute capability 8.0 and later. Not all are fast.
    DoubleTensorCores,
    /// The same, and [clusters](cuda_std::cluster) of blocks: compute capability 9.0, for which alone kernels are
    /// compiled that have them.
    DoubleTensorCoresInClusters,
    /// Warpgroups that hand registers over to others ([`cuda_std::registers`]): compute capability 9.0.
    RegisterTransfers,
    /// Instructions of whole warpgroups ([`cuda_std::wgmma`]), and bulk copies to feed them: compute capability 9.0.
    WarpgroupProducts,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Needs {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Needs::Nothing => "nothing",
            Needs::TensorCores => "tensor cores for f16, bf16 and TF32 (compute capability 8.0)",
            Needs::DoubleTensorCores => "tensor cores for f64 (compute capability 8.0)",
            Needs::DoubleTensorCoresInClusters => {
                "tensor cores for f64, and clusters of blocks (compute capability 9.0 alone)"
            }
            Needs::RegisterTransfers => {
                "warpgroups that hand registers over (compute capability 9.0 alone)"
            }
            Needs::WarpgroupProducts => {
                "matrix instructions of warpgroups (compute capability 9.0 alone)"
            }
        }
    }

    /// Whether what the kernel is compiled for has it: of others nothing is compiled but the end of their launch.
    pub const fn met_by_target(self) -> bool {
        match self {
            Needs::Nothing => true,
            Needs::TensorCores => mma::AVAILABLE,
            Needs::DoubleTensorCores => mma::double::AVAILABLE,
            Needs::DoubleTensorCoresInClusters => {
                mma::double::AVAILABLE && cluster::AVAILABLE && registers::AVAILABLE
            }
            Needs::RegisterTransfers => registers::AVAILABLE,
            Needs::WarpgroupProducts => wgmma::AVAILABLE,
        }
    }

    /// Whether PTX that is compiled for this compute capability has it, or for its features of exactly this one (the
    /// `a` of `sm_90a`): [`met_by_target`](Self::met_by_target), as the host sees it.
    pub const fn met_by_ptx(self, (major, _): (u32, u32), has_own_features: bool) -> bool {
        match self {
            Needs::Nothing => true,
            Needs::TensorCores | Needs::DoubleTensorCores => major >= 8,
            Needs::DoubleTensorCoresInClusters
            | Needs::RegisterTransfers
            | Needs::WarpgroupProducts => major == 9 && has_own_features,
        }
    }

    /// Whether a device of this compute capability has it.
    pub const fn met_by(self, (major, minor): (u32, u32)) -> bool {
        match self {
            Needs::Nothing => true,
            Needs::TensorCores | Needs::DoubleTensorCores => major >= 8,
            Needs::DoubleTensorCoresInClusters
            | Needs::RegisterTransfers
            | Needs::WarpgroupProducts => major == 9 && minor == 0,
        }
    }
}
