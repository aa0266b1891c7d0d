//! Errors with which nothing has failed.

use super::Error;

impl Error {
    /// Whether it says that a kernel is not for the device, or not for its driver. Nothing has failed then, and others
    /// may run.
    pub fn is_misfit(&self) -> bool {
        matches!(
            self,
            Error::KernelNeeds { .. }
                | Error::KernelDoesNotFit { .. }
                | Error::GpuTooOld { .. }
                | Error::PtxLacks { .. }
                | Error::DriverTooOld { .. }
                | Error::NoPtx { .. }
        )
    }
}
