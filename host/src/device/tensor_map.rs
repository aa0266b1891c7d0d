//! Tensor maps: what bulk copies of kernels need to know of a matrix ([`cuda_std::bulk_copy`]). The driver makes those
//! of a GPU, the simulator its own; both keep to the same rules, which are checked here.

use super::{Device, Machine};
use crate::error::{Error, Result};
use crate::matrix::view::MatrixView;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ALIGNMENT, ElementType, TiledTensor};
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::maps::BoxShape;

/// What an element type is called in a tensor map.
fn element_type(dtype: Dtype) -> ElementType {
    match dtype {
        Dtype::F32 => ElementType::F32,
        Dtype::F64 => ElementType::F64,
        Dtype::F16 => ElementType::F16,
        Dtype::Bf16 => ElementType::Bf16,
    }
}

/// The smallest box: what can be copied in any can be copied in this.
const SMALLEST: BoxShape = BoxShape { rows: 1, cols: ALIGNMENT as u32, swizzle: Swizzle::None };

impl<T: Element> MatrixView<'_, T> {
    /// `count` such matrices, the first elements of which are `stride` elements apart, as bulk copies find them. Where
    /// `stride` is zero that is one, which all share.
    fn tensor(&self, (count, stride): (usize, usize), boxes: BoxShape) -> TiledTensor {
        let bytes = |elements: usize| (elements as u64).saturating_mul(size_of::<T>() as u64);
        let count = if stride == 0 { 1 } else { count as u64 };
        TiledTensor::matrices(
            element_type(T::DTYPE),
            self.address(),
            (count, self.rows() as u64, self.cols() as u64),
            (bytes(stride), bytes(self.ld())),
            (boxes.rows, boxes.cols),
            boxes.swizzle,
        )
    }

    /// Whether bulk copies can take `count` such matrices, `stride` elements apart. Of those without elements there is
    /// nothing to take.
    pub(crate) fn takes_bulk_copies(&self, batch: (usize, usize)) -> bool {
        let empty = self.rows() == 0 || self.cols() == 0 || batch.0 == 0;
        empty || self.tensor(batch, SMALLEST).check().is_ok()
    }

    /// Whether rows end at a multiple of 16 bytes, which is what bulk stores write: where a row ends before, they write
    /// beyond it (found on an H200; the manual says that what lies outside of a tensor is not written).
    pub(crate) fn has_whole_rows(&self) -> bool {
        (self.cols() as u64 * size_of::<T>() as u64).is_multiple_of(ALIGNMENT)
    }

    /// A map of `count` such matrices, `stride` elements apart, in such boxes. It is of use as long as the matrices
    /// live.
    ///
    /// # Errors
    /// [`Error::TensorMap`] where bulk copies cannot take a matrix or the box: mostly an address or a leading dimension
    /// that is no multiple of 16 bytes, or a matrix without elements. [`Error::DriverTooOld`] before CUDA 12.0, or a
    /// failure of the driver.
    pub(crate) fn tensor_map(&self, batch: (usize, usize), boxes: BoxShape) -> Result<TensorMap> {
        self.device().tensor_map(&self.tensor(batch, boxes))
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

    /// A matrix that is no batch.
    const SINGLE: (usize, usize) = (1, 0);

    fn boxes(rows: u32, cols: u32, swizzle: Swizzle) -> BoxShape {
        BoxShape { rows, cols, swizzle }
    }

    #[test]
    fn the_simulator_takes_what_the_rules_allow() {
        let device = Device::sim();
        let matrix = device.matrix_with_ld::<bf16>(200, 70, 72).unwrap();
        let map =
            |view: MatrixView<'_, bf16>, swizzle| view.tensor_map(SINGLE, boxes(128, 64, swizzle));
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
    fn what_bulk_copies_take() {
        let device = Device::sim();
        let takes = |ld: usize, first: usize, batch| {
            let matrix = device.matrix_with_ld::<bf16>(10, 70, ld).unwrap();
            matrix.view().slice(1..9, first..70).unwrap().takes_bulk_copies(batch)
        };
        assert!(takes(72, 0, SINGLE) && takes(72, 64, SINGLE) && takes(72, 0, (9, 0)));
        assert!(!takes(71, 0, SINGLE) && !takes(72, 4, SINGLE));
        assert!(takes(72, 0, (9, 720)) && takes(72, 0, (9, 8 * 72)) && !takes(72, 0, (9, 724)));
        assert!(!takes(72, 0, (9, 72)), "matrices that lie in each other");
        let side_by_side = |first: usize, batch| {
            let matrix = device.matrix::<bf16>(10, 240).unwrap();
            let part = matrix.view().slice(0..10, first..first + 24).unwrap();
            part.takes_bulk_copies(batch)
        };
        assert!(side_by_side(0, (10, 24)) && side_by_side(24, (3, 72)));
        assert!(!side_by_side(4, (9, 24)) && !side_by_side(0, (10, 20)));
        let empty = device.matrix_with_ld::<bf16>(0, 3, 3).unwrap();
        assert!(empty.view().takes_bulk_copies(SINGLE));
        let has_whole_rows = |cols: usize| {
            let matrix = device.matrix_with_ld::<bf16>(10, 70, 72).unwrap();
            matrix.view().slice(0..10, 0..cols).unwrap().has_whole_rows()
        };
        assert!(has_whole_rows(64) && !has_whole_rows(63) && !has_whole_rows(68));
    }

    #[test]
    fn the_driver_is_told_all_of_it() {
        let name = "device::tensor_map::tests::the_driver_is_told_all_of_it";
        in_child(name, Driver::Fake, &[], |log| {
            let device = Device::cuda(0).unwrap();
            let matrix = device.matrix_with_ld::<bf16>(10, 70, 72).unwrap();
            let map =
                matrix.view().tensor_map((3, 800), boxes(128, 64, Swizzle::Bytes128)).unwrap();
            assert_eq!(map.opaque[0], matrix.view().address());
            // It is told once for all maps of the same memory in the same boxes.
            let same = matrix.view().tensor_map((3, 800), boxes(128, 64, Swizzle::Bytes128));
            assert_eq!(same.unwrap(), map);
            matrix.view().tensor_map((3, 800), boxes(64, 64, Swizzle::Bytes128)).unwrap();
            let log = std::fs::read_to_string(log).unwrap();
            assert_eq!(log.lines().filter(|line| line.starts_with("tensor map")).count(), 2);
            let expected = "tensor map type 9 dims [70, 10, 3] strides [144, 1600] box [64, 128, 1] steps [1, 1, 1] interleave 0 swizzle 3 \
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
            let error = matrix.view().tensor_map(SINGLE, boxes(32, 32, Swizzle::None)).unwrap_err();
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
            let error = matrix.view().tensor_map(SINGLE, boxes(32, 32, Swizzle::None)).unwrap_err();
            let Error::DriverTooOld { found: (11, 8), needed: (12, 0), .. } = error else {
                panic!("{error}")
            };
        });
    }
}
