//! Tensor maps as the driver makes them.

use super::CudaDevice;
use super::context::check_code;
use crate::error::{Error, Result};
use cuda_driver::newer;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::tensor_map::{MAX_RANK, TiledTensor};
use std::ffi::c_void;

/// First version of CUDA with tensor maps.
const NEEDED: (u32, u32) = (12, 0);

/// `CU_TENSOR_MAP_INTERLEAVE_NONE`
const NO_INTERLEAVE: i32 = 0;

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: loads fetch whole lines into the L2.
const PROMOTION_128_BYTES: i32 = 2;

/// `CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE`: zeros outside.
const FILL_ZEROS: i32 = 0;

/// Elements of a box are neighbours in the tensor.
const ELEMENT_STRIDES: [u32; MAX_RANK] = [1; MAX_RANK];

impl CudaDevice {
    /// The map of a tensor that keeps the rules of [`TiledTensor::check`].
    pub fn tensor_map(&self, tensor: &TiledTensor) -> Result<TensorMap> {
        let too_old = || Error::DriverTooOld {
            found: self.info.driver_version.unwrap_or_default(),
            needed: NEEDED,
            what: "a tensor map".to_owned(),
        };
        if self.info.driver_version.is_some_and(|version| version < NEEDED) {
            return Err(too_old());
        }
        let encode = newer::tensor_map_encode_tiled().ok_or_else(too_old)?;
        let _bound = self.context.bind()?;
        let mut map = newer::TensorMap { opaque: [0; TensorMap::WORDS] };
        // SAFETY: the driver's function reads as many dimensions from the arrays as the rank says, at most as many as they have, and
        // writes the map; it does not follow the tensor's address.
        let code = unsafe {
            encode(
                &mut map,
                tensor.element as i32,
                tensor.rank,
                tensor.address as *mut c_void,
                tensor.dims.as_ptr(),
                tensor.strides.as_ptr(),
                tensor.box_dims.as_ptr(),
                ELEMENT_STRIDES.as_ptr(),
                NO_INTERLEAVE,
                tensor.swizzle as i32,
                PROMOTION_128_BYTES,
                FILL_ZEROS,
            )
        };
        check_code("cuTensorMapEncodeTiled", code)?;
        Ok(TensorMap { opaque: map.opaque })
    }
}
