//! The symbols that `cust_raw` links: without a driver, and forwarded to one.

mod support;

use cuda_driver::{LoadError, load, newer, result};
use cust_raw as sys;
use std::ptr;
use support::{Driver, in_child};

#[test]
fn without_a_driver_everything_says_no_device() {
    in_child("without_a_driver_everything_says_no_device", Driver::None, &[], |_| {
        // First through a symbol, before anything was loaded explicitly.
        let mut count = -1;
        // SAFETY: the pointers are to locals or null, and nothing is dereferenced without a driver.
        let codes = unsafe {
            [
                sys::cuInit(0),
                sys::cuDeviceGetCount(&mut count),
                sys::cuMemFree_v2(0),
                sys::cuLaunchKernel(
                    ptr::null_mut(),
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    0,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                ),
            ]
        };
        assert!(codes.iter().all(|code| *code as i32 == result::NO_DEVICE), "{codes:?}");
        assert_eq!(count, -1);

        let error = load().unwrap_err();
        assert!(matches!(error, LoadError::NotFound { .. }));
        assert!(error.to_string().contains("libcuda.so.1"), "{error}");
        assert!(error.to_string().contains("NVIDIA driver"), "{error}");
        assert!(error.to_string().contains("file too short"), "the loader's words: {error}");
        assert_eq!(result::describe(result::NO_DEVICE), None);
        assert!(newer::tensor_map_encode_tiled().is_none());
    });
}

#[test]
fn all_arguments_reach_the_driver() {
    in_child("all_arguments_reach_the_driver", Driver::Fake, &[], |log| {
        load().unwrap();
        // SAFETY: the stand-in looks at the values of its arguments and nothing behind them.
        let code = unsafe {
            sys::cuLaunchKernel(
                ptr::without_provenance_mut(1001),
                u32::MAX,
                3,
                5,
                7,
                11,
                13,
                17,
                ptr::without_provenance_mut(19),
                ptr::null_mut(),
                ptr::without_provenance_mut(23),
            )
        };
        assert_eq!(code as i32, result::SUCCESS);
        let expected = "launch function 1001 4294967295 3 5 x 7 11 13 shared 17 stream 19 without \
                        parameters, extra 23\n";
        assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
    });
}

#[test]
fn a_tensor_map_is_encoded() {
    in_child("a_tensor_map_is_encoded", Driver::Fake, &[], |log| {
        let encode = newer::tensor_map_encode_tiled().unwrap();
        let mut map = newer::TensorMap { opaque: [0; 16] };
        let (dims, strides) = ([70_u64, 200, 3], [144_u64, 28_800]);
        let (boxes, steps) = ([64_u32, 128, 1], [1_u32, 2, 3]);
        let address = ptr::without_provenance_mut(0x1000);
        // SAFETY: the pointers are to locals, of as many elements as the rank asks for; the stand-in does not follow
        // the address.
        let mut encode = |rank: u32, address| unsafe {
            let (dims, strides) = (dims.as_ptr(), strides.as_ptr());
            let (boxes, steps) = (boxes.as_ptr(), steps.as_ptr());
            encode(&mut map, 9, rank, address, dims, strides, boxes, steps, 0, 3, 2, 1)
        };
        assert_eq!(encode(3, address), result::SUCCESS);
        assert_ne!(encode(6, address), result::SUCCESS);
        assert_ne!(encode(3, ptr::without_provenance_mut(0x1008)), result::SUCCESS);
        assert_eq!(map.opaque[0], 0x1000);
        let expected = "tensor map type 9 dims [70, 200, 3] strides [144, 28800] box [64, 128, 1] steps [1, 2, 3] \
                        interleave 0 swizzle 3 promotion 2 fill 1\n";
        assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
    });
}

#[test]
fn results_come_back() {
    in_child("results_come_back", Driver::Fake, &[("FAKE_CUDA_VERSION", "11080")], |_| {
        let (mut version, mut address) = (0, 0);
        // SAFETY: the pointers are to locals.
        unsafe {
            assert_eq!(sys::cuDriverGetVersion(&mut version) as i32, result::SUCCESS);
            assert_eq!(version, 11080);
            assert_eq!(sys::cuMemAlloc_v2(&mut address, 100) as i32, result::SUCCESS);
            assert_ne!(address, 0);
            assert_eq!(sys::cuMemFree_v2(address) as i32, result::SUCCESS);
            assert_eq!(
                sys::cuMemAlloc_v2(&mut address, usize::MAX),
                sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY
            );
        }
        let (name, _) = result::describe(2).unwrap();
        assert_eq!(name, "CUDA_ERROR_OUT_OF_MEMORY");
    });
}

#[test]
fn a_function_that_the_driver_lacks_is_not_supported() {
    in_child("a_function_that_the_driver_lacks_is_not_supported", Driver::Fake, &[], |_| {
        // SAFETY: the driver has no such function, so nothing is called.
        let code = unsafe { sys::cuGraphDestroy(ptr::null_mut()) };
        assert_eq!(code as i32, result::NOT_SUPPORTED);
        assert!(newer::launch_kernel_ex().is_none());
    });
}

/// `cust` knows it by its name since CUDA 11.0.
#[test]
fn a_function_with_an_older_name_is_found() {
    let old = [("FAKE_CUDA_VERSION", "10000")];
    in_child("a_function_with_an_older_name_is_found", Driver::Fake, &old, |log| {
        // SAFETY: the stand-in only writes it down.
        let code = unsafe { sys::cuDevicePrimaryCtxRelease_v2(0) };
        assert_eq!(code as i32, result::SUCCESS);
        assert_eq!(std::fs::read_to_string(log).unwrap(), "release\n");
    });
}

#[test]
fn a_code_that_cust_does_not_know_becomes_unknown() {
    in_child("a_code_that_cust_does_not_know_becomes_unknown", Driver::Fake, &[], |_| {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is to a local. The stand-in refuses all devices but the first.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, 1) };
        assert_eq!(code as i32, result::UNKNOWN);
        let foreign = result::take_foreign().unwrap();
        let (name, _) = result::describe(foreign).unwrap();
        assert_eq!(name, "CUDA_ERROR_DEVICE_UNAVAILABLE");
    });
}
