//! Tensor maps as the driver makes them, each once.

use super::context::check_code;
use super::{CudaDevice, lock};
use crate::error::{Error, Result};
use cuda_driver::newer::{self, TensorMapEncodeTiled};
use cuda_std::bulk_copy::TensorMap;
use cuda_std::tensor_map::{MAX_RANK, TiledTensor};
use rustc_hash::FxHashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

/// The driver's function, looked up once: a look-up costs more than a map.
static ENCODE: LazyLock<Option<TensorMapEncodeTiled>> =
    LazyLock::new(newer::tensor_map_encode_tiled);

/// Maps that were made before, by what they are of. A map depends on nothing else, the address among it, so that one is
/// right for whatever comes to lie there; and to find it takes a fraction of the time that the driver takes.
pub(super) type Maps = Mutex<FxHashMap<TiledTensor, TensorMap>>;

/// Most maps that are remembered; then all are forgotten.
const MOST: usize = 1024;

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
        if let Some(map) = lock(&self.maps).get(tensor) {
            return Ok(*map);
        }
        let map = self.encode(tensor)?;
        let mut maps = lock(&self.maps);
        if maps.len() >= MOST {
            maps.clear();
        }
        maps.insert(*tensor, map);
        Ok(map)
    }

    /// The same, made anew.
    fn encode(&self, tensor: &TiledTensor) -> Result<TensorMap> {
        let too_old = || Error::DriverTooOld {
            found: self.info.driver_version.unwrap_or_default(),
            needed: NEEDED,
            what: "a tensor map".to_owned(),
        };
        if self.info.driver_version.is_some_and(|version| version < NEEDED) {
            return Err(too_old());
        }
        let encode = ENCODE.ok_or_else(too_old)?;
        let _bound = self.context.bind()?;
        let mut map = newer::TensorMap { opaque: [0; TensorMap::WORDS] };
        // SAFETY: the driver's function reads as many dimensions from the arrays as the rank says, at most as many as
        // they have, and writes the map; it does not follow the tensor's address.
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
