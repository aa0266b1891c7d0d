//! Which device is opened, and which kernels it takes.

use crate::support::{Driver, in_child};
use crate::{Log, count, kernel, matrix};
use regemm::{Device, DeviceSpec, Error, Gemm, Operand, Resource};

#[test]
fn without_a_driver_the_simulator_is_used_and_the_reason_is_known() {
    let name = "opening::without_a_driver_the_simulator_is_used_and_the_reason_is_known";
    in_child(name, Driver::None, &[], |_| {
        assert!(Device::auto().unwrap().is_sim());
        for error in [Device::cuda_devices().unwrap_err(), Device::cuda(0).unwrap_err()] {
            let Error::NoDriver { why } = &error else { panic!("{error}") };
            assert!(why.contains("libcuda.so.1"), "{why}");
            assert!(error.to_string().contains("`sim` works without one"), "{error}");
        }
    });
}

#[test]
fn a_driver_without_a_device() {
    in_child(
        "opening::a_driver_without_a_device",
        Driver::Fake,
        &[("FAKE_CUDA_DEVICES", "0")],
        |_| {
            assert_eq!(Device::cuda_devices().unwrap(), 0);
            assert!(Device::auto().unwrap().is_sim());
            let error = Device::cuda(0).unwrap_err();
            assert!(matches!(error, Error::NoSuchDevice { ordinal: 0, count: 0 }), "{error}");
        },
    );
}

/// The oldest driver that can run a kernel. It can be asked for less, and some functions have other names.
#[test]
fn a_driver_before_cuda_11_is_enough_for_turing() {
    let name = "opening::a_driver_before_cuda_11_is_enough_for_turing";
    let old = [("FAKE_CUDA_VERSION", "10000"), ("FAKE_CUDA_CAPABILITY", "7.5")];
    in_child(name, Driver::Fake, &old, |path| {
        let device = Device::cuda(0).unwrap();
        let info = device.info();
        assert_eq!((info.driver_version, info.max_blocks_per_multiprocessor), (Some((10, 0)), 16));
        let (a, mut d) = (matrix(&device), matrix(&device));
        Gemm::new(&a, &a).kernel(kernel()).run(&mut d).unwrap();
        let mut log = Log::new(path);
        drop((a, d, device));
        assert_eq!(log.next().last().unwrap(), "release");
    });
}

/// Clocks, the width of the memory's bus and the L2 cache: without them a device works as well.
#[test]
fn what_the_driver_does_not_know_of_a_device_is_absent() {
    let name = "opening::what_the_driver_does_not_know_of_a_device_is_absent";
    let unknown = [("FAKE_CUDA_UNKNOWN", "13 36 37 38")];
    in_child(name, Driver::Fake, &unknown, |_| {
        let device = Device::cuda(0).unwrap();
        let info = device.info();
        assert_eq!((info.clock_khz, info.memory_bandwidth, info.l2_bytes), (None, None, None));
        let a = matrix(&device);
        Gemm::new(&a, &a).run(&mut matrix(&device)).unwrap();
    });
}

/// The stub that the toolkit links against is no driver.
#[test]
fn the_toolkits_stub_is_no_driver() {
    in_child(
        "opening::the_toolkits_stub_is_no_driver",
        Driver::Fake,
        &[("FAKE_CUDA_INIT", "34")],
        |_| {
            let error = Device::cuda_devices().unwrap_err();
            assert!(matches!(error, Error::NoDriver { .. }), "{error}");
            assert!(Device::auto().unwrap().is_sim());
        },
    );
}

/// `CUDA_ERROR_SYSTEM_NOT_READY`, say: a GPU is there, and nobody should find out by how slow the simulator is.
#[test]
fn a_driver_that_does_not_work_is_an_error() {
    let name = "opening::a_driver_that_does_not_work_is_an_error";
    in_child(name, Driver::Fake, &[("FAKE_CUDA_INIT", "802")], |_| {
        let errors = [
            Device::auto().map(drop).unwrap_err(),
            Device::cuda(0).map(drop).unwrap_err(),
            Device::cuda_devices().map(drop).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, Error::Cuda { call: "cuInit", code: 802, .. }), "{error}");
        }
    });
}

#[test]
fn a_device_is_opened_described_and_closed() {
    let name = "opening::a_device_is_opened_described_and_closed";
    in_child(name, Driver::Fake, &[("FAKE_CUDA_DEVICES", "2")], |path| {
        let mut log = Log::new(path);
        let device = Device::auto().unwrap();
        assert!(!device.is_sim());
        assert_eq!(device.spec(), DeviceSpec::Cuda(0));
        let info = device.info();
        assert_eq!((info.name.as_str(), info.compute_capability), ("Fake GPU", Some((9, 0))));
        assert_eq!(info.driver_version, Some((12, 4)));
        // 3,201 MHz, two transfers a clock, 6,144 bits.
        assert_eq!(info.memory_bandwidth, Some(4_916_736_000_000));

        // Opened again it is the same device: memory of one handle works with the other.
        let again = Device::cuda(0).unwrap();
        let (a, b) = (matrix(&device), matrix(&again));
        Gemm::new(&a, &b).kernel(kernel()).run(&mut matrix(&device)).unwrap();
        drop((device, a));
        assert_eq!(count(&log.next(), "retain"), 1);
        drop((again, b));
        let lines = log.next();
        assert_eq!(lines.last().unwrap(), "release");
        assert_eq!(count(&lines, "unload"), 1);

        let error = Device::cuda(2).unwrap_err();
        assert!(error.to_string().contains("cuda:0 to cuda:1"), "{error}");
        // The second device is in use by somebody else, which the driver says with a code that cust does not know.
        let error = Device::cuda(1).unwrap_err();
        assert!(error.to_string().contains("CUDA_ERROR_DEVICE_UNAVAILABLE (46)"), "{error}");
    });
}

/// The driver's answer to what nobody asked for is no reason for what fails later.
#[test]
fn a_failure_is_told_by_its_own_code() {
    let codes = [("FAKE_CUDA_STREAM_DESTROY", "46"), ("FAKE_CUDA_IS_CAPTURING", "999")];
    in_child("opening::a_failure_is_told_by_its_own_code", Driver::Fake, &codes, |_| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        drop(device.stream().unwrap());
        let error = Gemm::new(&a, &a).kernel(kernel()).enqueue(&stream, &mut d).unwrap_err();
        assert!(
            matches!(error, Error::Cuda { call: "cuStreamIsCapturing", code: 999, .. }),
            "{error}"
        );
    });
}

#[test]
fn a_kernel_is_loaded_once_and_launched_as_the_table_says() {
    let name = "opening::a_kernel_is_loaded_once_and_launched_as_the_table_says";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (a, b) = (matrix(&device), matrix(&device));
        let mut d = device.matrix::<f32>(32, 32).unwrap();
        let mut log = Log::new(path);
        for _ in 0..2 {
            Gemm::new(&a, &b).kernel(kernel()).run(&mut d).unwrap();
        }
        let lines = log.next();
        assert_eq!(count(&lines, "load sm_90a"), 1, "{lines:#?}");
        assert_eq!(count(&lines, "launch naive_f32 4 1 1 x 256 1 1"), 2, "{lines:#?}");
        assert_eq!(count(&lines, "finish stream"), 2, "run waits for its work: {lines:#?}");
        let report = device.kernel_report(regemm::kernels::find("naive_f32").unwrap()).unwrap();
        assert_eq!((report.arch, report.resident_blocks), (Some("sm_90a"), Some(8)));
    });
}

#[test]
fn simulator_and_gpu_do_not_mix() {
    in_child("opening::simulator_and_gpu_do_not_mix", Driver::Fake, &[], |_| {
        let (gpu, sim) = (Device::cuda(0).unwrap(), Device::sim());
        let (a, b) = (matrix(&gpu), matrix(&sim));
        let error = Gemm::new(&a, &b).run(&mut matrix(&gpu)).unwrap_err();
        let Error::DeviceMismatch { operand: Operand::B, found, expected } = error else {
            panic!("{error}")
        };
        assert_eq!((found, expected), (DeviceSpec::Sim, DeviceSpec::Cuda(0)));
    });
}

#[test]
fn a_gpu_that_is_older_than_the_ptx() {
    let old = [("FAKE_CUDA_CAPABILITY", "7.0")];
    in_child("opening::a_gpu_that_is_older_than_the_ptx", Driver::Fake, &old, |_| {
        let device = Device::cuda(0).unwrap();
        let a = matrix(&device);
        let error = Gemm::new(&a, &a).kernel(kernel()).run(&mut matrix(&device)).unwrap_err();
        assert!(matches!(error, Error::GpuTooOld { capability: (7, 0), .. }), "{error}");
        assert!(error.to_string().contains("sm_75"), "{error}");
    });
}

#[test]
fn a_driver_that_is_too_old_for_the_ptx() {
    let old = [("FAKE_CUDA_VERSION", "9020")];
    in_child("opening::a_driver_that_is_too_old_for_the_ptx", Driver::Fake, &old, |_| {
        let device = Device::cuda(0).unwrap();
        let a = matrix(&device);
        let error = Gemm::new(&a, &a).kernel(kernel()).run(&mut matrix(&device)).unwrap_err();
        assert!(
            matches!(error, Error::DriverTooOld { found: (9, 2), needed: (10.., _), .. }),
            "{error}"
        );
        assert!(error.to_string().contains("update the driver"), "{error}");
    });
}

#[test]
fn a_refused_module_is_reported_with_the_compilers_message() {
    let refusal = [("FAKE_CUDA_REFUSE_PTX", "line 7: unknown instruction")];
    let name = "opening::a_refused_module_is_reported_with_the_compilers_message";
    in_child(name, Driver::Fake, &refusal, |_| {
        let device = Device::cuda(0).unwrap();
        let a = matrix(&device);
        let error = Gemm::new(&a, &a).kernel(kernel()).run(&mut matrix(&device)).unwrap_err();
        assert!(
            matches!(error, Error::Cuda { call: "cuModuleLoadDataEx", code: 218, .. }),
            "{error}"
        );
        for part in ["CUDA_ERROR_INVALID_PTX", "naive_f32", "line 7: unknown instruction"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    });
}

#[test]
fn a_kernel_with_more_shared_memory_than_a_block_can_have_is_not_loaded() {
    let name = "opening::a_kernel_with_more_shared_memory_than_a_block_can_have_is_not_loaded";
    // That of Turing.
    const SHARED: u64 = 64 << 10;
    in_child(name, Driver::Fake, &[("FAKE_CUDA_SHARED", "65536")], |path| {
        let device = Device::cuda(0).unwrap();
        let mut log = Log::new(path);
        let report = |name| device.kernel_report(regemm::kernels::find(name).unwrap());
        let error = report("warpgroup_bf16").unwrap_err();
        let Error::KernelDoesNotFit { resource: Resource::SharedMemory, needed, available, .. } =
            error
        else {
            panic!("{error}")
        };
        assert!(needed > available && available == SHARED, "{error}");
        assert_eq!(count(&log.next(), "load"), 0);
        assert!(report("pipelined_f32").is_ok());
    });
}
