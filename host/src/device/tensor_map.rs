//! Tensor maps: what bulk copies of kernels need to know of a matrix ([`cuda_std::bulk_copy`]). The driver makes those of a GPU, the
//! simulator its own; both keep to the same rules, which are checked here.

use super::{Device, Machine};
use crate::error::{Error, Result};
use crate::matrix::view::MatrixView;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use regemm_kernels::element::{Dtype, Element};

/// What an element type is called in a tensor map.
fn element_type(dtype: Dtype) -> ElementType {
    match dtype {
        Dtype::F32 => ElementType::F32,
        Dtype::F64 => ElementType::F64,
        Dtype::F16 => ElementType::F16,
        Dtype::Bf16 => ElementType::Bf16,
    }
}

impl<T: Element> MatrixView<'_, T> {
    /// A map of the matrix in boxes of `box_shape` (rows, columns). It is of use as long as the matrix lives.
    ///
    /// # Errors
    /// [`Error::TensorMap`] where bulk copies cannot take the matrix or the box: mostly an address or a leading dimension that is no
    /// multiple of 16 bytes, or a matrix without elements. [`Error::DriverTooOld`] before CUDA 12.0, or a failure of the driver.
    pub(crate) fn tensor_map(&self, box_shape: (u32, u32), swizzle: Swizzle) -> Result<TensorMap> {
        let stride = self.ld() as u64 * size_of::<T>() as u64;
        let shape = (self.rows() as u64, self.cols() as u64);
        let element = element_type(T::DTYPE);
        let tensor =
            TiledTensor::matrix(element, self.address(), shape, stride, box_shape, swizzle);
        self.device().tensor_map(&tensor)
    }
}

impl Device {
    /// The map of a tensor in the memory of this device.
    fn tensor_map(&self, tensor: &TiledTensor) -> Result<TensorMap> {
        tensor.check().map_err(Error::TensorMap)?;
        match self.machine() {
            Machine::Cuda(cuda) => cuda.tensor_map(tensor),
            Machine::Sim(sim) => sim.tensor_map(tensor),
        }
    }
}

#[cfg(test)]
#[path = "../../../crates/cuda_driver/tests/support/mod.rs"]
#[allow(dead_code, reason = "these tests need no machine without a driver")]
mod support;

#[cfg(test)]
mod tests {
    use super::support::{Driver, in_child};
    use super::*;
    use cuda_std::tensor_map::TensorMapError;
    use half::bf16;

    const BOX: (u32, u32) = (128, 64);

    #[test]
    fn the_simulator_takes_what_the_rules_allow() {
        let device = Device::sim();
        let matrix = device.matrix_with_ld::<bf16>(200, 70, 72).unwrap();
        let map = |view: MatrixView<'_, bf16>, swizzle| view.tensor_map(BOX, swizzle);
        let whole = map(matrix.view(), Swizzle::Bytes128).unwrap();
        assert_ne!(whole, map(matrix.view(), Swizzle::None).unwrap());
        // A part that begins 16 bytes further on.
        map(matrix.view().slice(1..4, 8..20).unwrap(), Swizzle::Bytes128).unwrap();

        let error = map(matrix.view().slice(0..1, 1..3).unwrap(), Swizzle::None).unwrap_err();
        assert!(matches!(error, Error::TensorMap(TensorMapError::Address { .. })), "{error}");
        let odd = device.matrix_with_ld::<bf16>(200, 70, 71).unwrap();
        let error = map(odd.view(), Swizzle::None).unwrap_err();
        let Error::TensorMap(TensorMapError::Stride { found: 142, .. }) = error else {
            panic!("{error}")
        };
        let empty = device.matrix::<bf16>(0, 8).unwrap();
        let error = map(empty.view(), Swizzle::None).unwrap_err();
        assert!(matches!(error, Error::TensorMap(TensorMapError::Dim { .. })), "{error}");
        let error = map(matrix.view(), Swizzle::Bytes64).unwrap_err();
        assert!(matches!(error, Error::TensorMap(TensorMapError::SwizzledRow { .. })), "{error}");
    }

    #[test]
    fn the_driver_is_told_all_of_it() {
        let name = "device::tensor_map::tests::the_driver_is_told_all_of_it";
        in_child(name, Driver::Fake, &[], |log| {
            let device = Device::cuda(0).unwrap();
            let matrix = device.matrix_with_ld::<bf16>(200, 70, 72).unwrap();
            let map = matrix.view().tensor_map(BOX, Swizzle::Bytes128).unwrap();
            assert_eq!(map.opaque[0], matrix.view().address());
            let log = std::fs::read_to_string(log).unwrap();
            let expected = "tensor map type 9 dims [70, 200] strides [144] box [64, 128] steps [1, 1] interleave 0 swizzle 3 \
                            promotion 2 fill 0";
            assert!(log.lines().any(|line| line == expected), "{log}");
        });
    }

    #[test]
    fn a_driver_that_refuses() {
        let name = "device::tensor_map::tests::a_driver_that_refuses";
        in_child(name, Driver::Fake, &[("FAKE_CUDA_CAPABILITY", "8.0")], |_| {
            let device = Device::cuda(0).unwrap();
            let matrix = device.matrix::<f32>(32, 32).unwrap();
            let error = matrix.view().tensor_map((32, 32), Swizzle::None).unwrap_err();
            let call = "cuTensorMapEncodeTiled";
            assert!(matches!(error, Error::Cuda { call: c, .. } if c == call), "{error}");
        });
    }

    #[test]
    fn a_driver_before_tensor_maps() {
        let name = "device::tensor_map::tests::a_driver_before_tensor_maps";
        in_child(name, Driver::Fake, &[("FAKE_CUDA_VERSION", "11080")], |_| {
            let device = Device::cuda(0).unwrap();
            let matrix = device.matrix::<f32>(32, 32).unwrap();
            let error = matrix.view().tensor_map((32, 32), Swizzle::None).unwrap_err();
            let Error::DriverTooOld { found: (11, 8), needed: (12, 0), .. } = error else {
                panic!("{error}")
            };
        });
    }
}
