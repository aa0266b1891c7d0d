//! The CUDA half of the library without a GPU: against a driver that computes nothing but writes down what it is asked
//! (`crates/cuda_driver/tests/fake/libcuda.rs`). Its work never finishes by itself, so its log shows every wait.

#[path = "../crates/cuda_driver/tests/support/mod.rs"]
mod support;

use regemm::kernels::{Repack, Why};
use regemm::measure::{Sampling, alternate};
use regemm::ndarray::Array2;
use regemm::tuning::Tuning;
use regemm::{
    BatchViewMut, Device, DeviceSpec, Error, Gemm, KernelChoice, Matrix, MatrixView, MatrixViewMut,
    Operand, Precision, Resource, Stream, bf16,
};
use std::ffi::c_void;
use std::path::Path;
use support::{Driver, in_child};

fn kernel() -> KernelChoice {
    KernelChoice::Named("naive".into())
}

/// The lines of the log since the last call.
struct Log<'a> {
    path: &'a Path,
    read: usize,
}

impl Log<'_> {
    fn new(path: &Path) -> Log<'_> {
        let mut log = Log { path, read: 0 };
        log.next();
        log
    }

    fn next(&mut self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path).unwrap_or_default();
        let lines: Vec<_> = text.lines().skip(self.read).map(str::to_owned).collect();
        self.read += lines.len();
        // Only launches differ by more than their first words.
        let launch = |line: String| match line.split_once(" stream ") {
            Some((launch, rest)) if launch.starts_with("launch") => {
                let stream = rest.split(' ').next().unwrap_or_default();
                format!("{} on stream {stream}", launch.replace(" shared 0", ""))
            }
            _ => line,
        };
        lines.into_iter().map(launch).collect()
    }
}

fn matrix(device: &Device) -> Matrix<f32> {
    device.matrix(32, 32).unwrap()
}

fn enqueue(stream: &Stream, a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>) {
    let report = Gemm::new(a, b).kernel(kernel()).enqueue(stream, d).unwrap();
    assert!(report.launched && report.counters.is_none());
}

/// The number that the driver gave the stream of the last launch.
fn launched_on(lines: &[String]) -> String {
    let launch = lines.iter().rfind(|line| line.starts_with("launch")).unwrap();
    launch.rsplit(' ').next().unwrap().to_owned()
}

fn count(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(what)).count()
}

#[test]
fn without_a_driver_the_simulator_is_used_and_the_reason_is_known() {
    let name = "without_a_driver_the_simulator_is_used_and_the_reason_is_known";
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
    in_child("a_driver_without_a_device", Driver::Fake, &[("FAKE_CUDA_DEVICES", "0")], |_| {
        assert_eq!(Device::cuda_devices().unwrap(), 0);
        assert!(Device::auto().unwrap().is_sim());
        let error = Device::cuda(0).unwrap_err();
        assert!(matches!(error, Error::NoSuchDevice { ordinal: 0, count: 0 }), "{error}");
    });
}

/// The stub that the toolkit links against is no driver.
#[test]
fn the_toolkits_stub_is_no_driver() {
    in_child("the_toolkits_stub_is_no_driver", Driver::Fake, &[("FAKE_CUDA_INIT", "34")], |_| {
        let error = Device::cuda_devices().unwrap_err();
        assert!(matches!(error, Error::NoDriver { .. }), "{error}");
        assert!(Device::auto().unwrap().is_sim());
    });
}

/// `CUDA_ERROR_SYSTEM_NOT_READY`, say: a GPU is there, and nobody should find out by how slow the simulator is.
#[test]
fn a_driver_that_does_not_work_is_an_error() {
    let name = "a_driver_that_does_not_work_is_an_error";
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
    let name = "a_device_is_opened_described_and_closed";
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

#[test]
fn copies_go_there_and_back() {
    in_child("copies_go_there_and_back", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let mut log = Log::new(path);
        let array = Array2::from_shape_fn((6, 5), |(i, j)| (i * 10 + j) as f32);
        let mut matrix = device.matrix_with_ld::<f32>(6, 5, 8).unwrap();
        matrix.write_raw(&[-1.0; 48]).unwrap();
        matrix.copy_from(&array.view()).unwrap();
        assert_eq!(matrix.to_array().unwrap(), array);
        assert_eq!(
            matrix.view().slice(2..4, 1..3).unwrap().to_vec().unwrap(),
            [21., 22., 31., 32.]
        );
        assert!(matrix.read_raw().unwrap().chunks(8).all(|row| row[5..] == [-1.0; 3]));
        assert_eq!(device.upload(&array.t()).unwrap().to_array().unwrap(), array.t());
        let lines = log.next();
        for line in ["write 192", "copy 20 x 6", "copy 8 x 2", "read 192", "read 120"] {
            assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
        }
        let copies = count(&lines, "write") + count(&lines, "copy") + count(&lines, "read");
        assert_eq!(count(&lines, "finish stream"), copies, "each copy is waited for");
    });
}

#[test]
fn a_kernel_is_loaded_once_and_launched_as_the_table_says() {
    let name = "a_kernel_is_loaded_once_and_launched_as_the_table_says";
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
fn streams_wait_for_each_other_where_they_share_a_matrix() {
    let name = "streams_wait_for_each_other_where_they_share_a_matrix";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let (a, b) = (matrix(&device), matrix(&device));
        let (mut c, mut d) = (matrix(&device), matrix(&device));
        let mut log = Log::new(path);

        enqueue(&first, &a, &b, &mut c);
        let lines = log.next();
        let one = launched_on(&lines);
        assert_eq!(count(&lines, "stream") + count(&lines, "wait"), 0, "nothing to wait for");

        // Both read A and B, which needs no order; D is new.
        enqueue(&second, &a, &b, &mut d);
        let lines = log.next();
        let two = launched_on(&lines);
        assert_ne!(one, two);
        assert_eq!(count(&lines, "stream"), 0, "{lines:#?}");

        // Reads what the first stream writes, then writes what the first stream reads.
        enqueue(&second, &c, &b, &mut d);
        let wait = format!("stream {two} waits for stream {one}");
        assert_eq!(log.next()[0], wait);
        let mut a = a;
        enqueue(&second, &b, &b, &mut a);
        assert_eq!(log.next()[0], wait);
        // In order on one stream anyway.
        enqueue(&second, &a, &b, &mut d);
        assert_eq!(count(&log.next(), "stream"), 0);
    });
}

/// Memory of another library is known by its addresses alone, of which views are made again and again.
#[test]
fn work_on_memory_of_others_is_in_order_too() {
    in_child("work_on_memory_of_others_is_in_order_too", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let (a, foreign, apart) = (matrix(&device), matrix(&device), matrix(&device));
        let mut half = device.matrix::<f32>(16, 32).unwrap();
        // SAFETY: the matrices are not used otherwise and live as long as the device.
        let written = |of: &Matrix<f32>| unsafe {
            MatrixViewMut::<f32>::from_raw(&device, of.address(), 32, 32, 32).unwrap()
        };
        // SAFETY: as above. The rows of the middle alone.
        let read = || unsafe {
            MatrixView::<f32>::from_raw(&device, foreign.address() + 1024, 16, 32, 32).unwrap()
        };
        let product = || Gemm::new(&a, &a).kernel(kernel());
        let mut log = Log::new(path);

        let mut d = written(&foreign);
        product().enqueue(&first, &mut d).unwrap();
        let lines = log.next();
        let wait = format!("wait for stream {}", launched_on(&lines));
        assert_eq!(count(&lines, "wait"), 0, "{lines:#?}");
        d.view().to_vec().unwrap();
        assert_eq!(log.next()[0], wait, "the same view");

        product().enqueue(&first, &mut d).unwrap();
        log.next();
        read().to_vec().unwrap();
        assert_eq!(log.next()[0], wait, "another view of a part");

        let mut d = written(&foreign);
        product().enqueue(&first, &mut d).unwrap();
        let one = launched_on(&log.next());
        product().enqueue(&second, written(&apart)).unwrap();
        let lines = log.next();
        let two = launched_on(&lines);
        assert_eq!(count(&lines, "stream"), 0, "other memory: {lines:#?}");
        let second_waits = format!("stream {two} waits for stream {one}");
        product().enqueue(&second, &mut d).unwrap();
        assert_eq!(log.next()[0], second_waits, "both write it");
        Gemm::new(read(), &a).kernel(kernel()).enqueue(&first, &mut half).unwrap();
        assert_eq!(log.next()[0], format!("stream {one} waits for stream {two}"), "read");

        // The host writes what is still read.
        d.copy_from(&Array2::zeros((32, 32)).view()).unwrap();
        let lines = log.next();
        for stream in [one, two] {
            assert!(lines.contains(&format!("wait for stream {stream}")), "{lines:#?}");
        }
        device.synchronize().unwrap();
        log.next();
        d.view().to_vec().unwrap();
        assert_eq!(count(&log.next(), "wait"), 0, "all is done");
    });
}

/// Each matrix of a batch counts, and so does memory that a bias is read from.
#[test]
fn all_memory_of_others_that_a_product_takes_is_in_order() {
    let name = "all_memory_of_others_that_a_product_takes_is_in_order";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let (a, memory) = (matrix(&device), device.batch::<f32>(4, 32, 32).unwrap());
        let at = |index: u64| memory.address() + index * 4096;
        // SAFETY: the memory is not used otherwise and lives as long as the device.
        let (mut batch, last, bias) = unsafe {
            (
                BatchViewMut::<f32>::from_raw(&device, at(0), 3, (32, 32), 32, 1024).unwrap(),
                MatrixView::<f32>::from_raw(&device, at(2), 32, 32, 32).unwrap(),
                MatrixView::<f32>::from_raw(&device, at(2) + 4092, 1, 1, 1).unwrap(),
            )
        };
        let mut log = Log::new(path);
        Gemm::new(&a, &a).kernel(kernel()).enqueue(&first, &mut batch).unwrap();
        let one = launched_on(&log.next());
        let waits = |lines: &[String]| {
            let waits = format!("waits for stream {one}");
            lines.iter().filter(|line| line.ends_with(&waits)).count()
        };
        Gemm::new(&a, last).kernel(kernel()).enqueue(&second, &mut matrix(&device)).unwrap();
        assert_eq!(waits(&log.next()), 1);
        let product = Gemm::new(&a, a.t()).kernel(kernel());
        product.clone().c(1.0, last).enqueue(&second, &mut matrix(&device)).unwrap();
        assert_eq!(waits(&log.next()), 1);
        let narrow = a.view().slice(0..32, 0..1).unwrap();
        let biased = Gemm::new(&a, narrow).kernel(kernel()).bias_per_column(bias);
        biased.enqueue(&second, &mut device.matrix::<f32>(32, 1).unwrap()).unwrap();
        assert_eq!(waits(&log.next()), 1);
        batch.view().matrix(2).unwrap().to_vec().unwrap();
        assert_eq!(log.next()[0], format!("wait for stream {one}"));
    });
}

/// What a call costs the host is what it asks of the driver, so that is as little as can be.
#[test]
fn a_repeated_product_asks_the_driver_for_no_more_than_a_launch() {
    let name = "a_repeated_product_asks_the_driver_for_no_more_than_a_launch";
    in_child(name, Driver::Fake, &[("FAKE_CUDA_LOG_CALLS", "1")], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, b, mut d) = (matrix(&device), matrix(&device), matrix(&device));
        for _ in 0..2 {
            Gemm::new(&a, &b).enqueue(&stream, &mut d).unwrap();
        }
        let mut log = Log::new(path);
        Gemm::new(&a, &b).enqueue(&stream, &mut d).unwrap();
        let mut lines = log.next();
        assert!(lines.remove(1).starts_with("launch"), "{lines:#?}");
        let calls = ["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"];
        assert_eq!(lines, calls.map(|call| format!("call {call}")));
    });
}

/// Work on different streams may run at the same time, so that each stream has memory of its own for sums that are not finished,
/// which grows once; and none where it is given.
#[test]
fn unfinished_sums_take_memory_of_each_stream() {
    in_child("unfinished_sums_take_memory_of_each_stream", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let matrix = |rows, cols| device.matrix::<f32>(rows, cols).unwrap();
        let (a, b, mut d) = (matrix(16, 512), matrix(512, 64), matrix(16, 64));
        let gemm = Gemm::new(&a, &b).kernel(KernelChoice::Named("split_k16".into()));
        let needed = gemm.workspace_size(&mut d).unwrap();
        assert!(needed.partial_bytes > 0);
        let workspace = device.workspace(needed).unwrap();
        let mut log = Log::new(path);
        for (stream, workspace, allocated) in [
            (&first, Some(&workspace), 0),
            (&first, None, 1),
            (&first, None, 0),
            (&second, None, 1),
            (&second, None, 0),
            (&second, Some(&workspace), 0),
        ] {
            let mut gemm = gemm.clone();
            if let Some(workspace) = workspace {
                gemm = gemm.workspace(workspace);
            }
            gemm.enqueue(stream, &mut d).unwrap();
            let lines = log.next();
            assert_eq!((count(&lines, "alloc"), count(&lines, "launch")), (allocated, 2));
        }
        let nothing = device.workspace(Default::default()).unwrap();
        let error = gemm.workspace(&nothing).enqueue(&first, &mut d).unwrap_err();
        assert!(matches!(error, Error::WorkspaceTooSmall { .. }), "{error}");
    });
}

/// Odd rows are repacked before the product, on the same stream. Where the workspace is given, or large enough from before, nothing is
/// allocated and nothing is waited for: such calls can be captured in a graph.
#[test]
fn odd_factors_are_repacked_first_and_without_new_memory() {
    let name = "odd_factors_are_repacked_first_and_without_new_memory";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let matrix = |cols| device.matrix::<bf16>(264, cols).unwrap();
        let (a, b, mut d) = (matrix(264), matrix(263), matrix(263));
        let gemm = Gemm::new(&a, &b).kernel(KernelChoice::Named("warpgroup64".into()));
        let workspace = device.workspace(gemm.workspace_size(&mut d).unwrap()).unwrap();
        let mut log = Log::new(path);
        let report = gemm.clone().workspace(&workspace).enqueue(&stream, &mut d).unwrap();
        assert_eq!(report.repacked, Repack::new(0, 1));
        let lines = log.next();
        let launches: Vec<_> = lines.iter().filter(|line| line.starts_with("launch")).collect();
        // 264 rows of 33 vectors, 1024 to a block; and 3 x 5 tiles.
        let stream_of_both = launched_on(&lines);
        assert_eq!(launches.len(), 2, "{lines:#?}");
        let repacker = format!("launch repack_factors 9 1 1 x 256 1 1 on stream {stream_of_both}");
        assert_eq!(*launches[0], repacker, "{lines:#?}");
        assert!(launches[1].starts_with("launch warpgroup64_bf16 15 1 1 "), "{lines:#?}");
        assert!(launches[1].ends_with(&format!(" on stream {stream_of_both}")), "{lines:#?}");
        // The map of B is of the copy: its rows are whole lines.
        let map = "tensor map type 9 dims [263, 264, 1] strides [640,";
        assert_eq!(count(&lines, map), 1, "{lines:#?}");
        let quiet = |lines: &[String]| {
            ["alloc", "free", "wait", "synchronize", "finish"].map(|what| count(lines, what))
                == [0; 5]
        };
        assert!(quiet(&lines), "{lines:#?}");

        // The stream's own grows once.
        gemm.clone().enqueue(&stream, &mut d).unwrap();
        assert_eq!(count(&log.next(), "alloc"), 1);
        gemm.enqueue(&stream, &mut d).unwrap();
        let lines = log.next();
        assert!(quiet(&lines) && count(&lines, "launch") == 2, "{lines:#?}");
    });
}

/// The strictest mode.
const CAPTURE_GLOBALLY: i32 = 0;

/// Captures what a function puts on a stream, as another library would: through the driver.
fn capture(stream: &Stream, enqueue: impl FnOnce()) {
    type Begin = unsafe extern "C" fn(*mut c_void, i32) -> i32;
    type End = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32;
    // SAFETY: the stand-in for the driver, which is loaded already; the signatures are its own.
    unsafe {
        let driver = libloading::Library::new("libcuda.so.1").unwrap();
        let begin = driver.get::<Begin>("cuStreamBeginCapture_v2").unwrap();
        let end = driver.get::<End>("cuStreamEndCapture").unwrap();
        let raw = stream.with_cuda_handle(|raw| raw).unwrap().unwrap();
        assert_eq!(begin(raw, CAPTURE_GLOBALLY), 0);
        enqueue();
        let mut graph = std::ptr::null_mut();
        assert_eq!((end(raw, &mut graph), graph.is_null()), (0, false));
    }
}

#[test]
fn a_capture_holds_launches_and_nothing_else() {
    let name = "a_capture_holds_launches_and_nothing_else";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let matrix = |rows, cols| device.matrix::<f32>(rows, cols).unwrap();
        let (a, b, c) = (matrix(16, 512), matrix(512, 64), matrix(64, 16));
        let (mut d, mut e) = (matrix(16, 64), matrix(16, 16));
        // A product, and another one of its result, so that a write is followed by a read.
        let enqueue = |stream: &Stream, d: &mut Matrix<f32>, e: &mut Matrix<f32>| {
            let split = KernelChoice::Named("split_k16".into());
            Gemm::new(&a, &b).kernel(split).enqueue(stream, &mut *d).unwrap();
            Gemm::new(&*d, &c).kernel(kernel()).enqueue(stream, e).unwrap();
        };
        enqueue(&other, &mut d, &mut e);
        other.synchronize().unwrap();
        enqueue(&stream, &mut d, &mut e);
        // Somebody else reads the factors meanwhile, and has not finished.
        enqueue(&other, &mut matrix(16, 64), &mut matrix(16, 16));
        let mut log = Log::new(path);
        capture(&stream, || enqueue(&stream, &mut d, &mut e));
        let lines = log.next();
        assert!(lines[0].starts_with("begin capture") && lines[4].starts_with("end capture"));
        assert!(lines[1..4].iter().all(|line| line.starts_with("launch")), "{lines:#?}");
        assert_eq!(lines.len(), 5, "{lines:#?}");

        // Afterwards the stream is one like any other.
        e.to_vec().unwrap();
        assert!(log.next()[0].starts_with("wait for stream"));
    });
}

#[test]
fn what_a_graph_cannot_hold_is_refused_and_the_capture_goes_on() {
    let name = "what_a_graph_cannot_hold_is_refused_and_the_capture_goes_on";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let matrix = |rows, cols| device.matrix::<f32>(rows, cols).unwrap();
        let (a, b, mut d) = (matrix(16, 512), matrix(512, 64), matrix(16, 64));
        let (x, mut y) = (matrix(16, 16), matrix(16, 16));
        let split = || Gemm::new(&a, &b).kernel(KernelChoice::Named("split_k16".into()));
        let naive = || Gemm::new(&x, &x).kernel(kernel());
        naive().enqueue(&stream, &mut y).unwrap();
        let refused = |outcome: Result<regemm::Report, Error>, needed: &str, remedy: &str| {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Capturing { .. }), "{error}");
            for part in [needed, remedy] {
                assert!(error.to_string().contains(part), "{error}");
            }
        };
        let mut log = Log::new(path);

        capture(&stream, || {
            let allocation = split().enqueue(&stream, &mut d);
            refused(allocation, "allocating a workspace", "`Gemm::workspace`");
        });
        let workspace = device.workspace(split().workspace_size(&mut d).unwrap()).unwrap();
        capture(&stream, || {
            let loading = split().workspace(&workspace).enqueue(&stream, &mut d);
            refused(loading, "loading a kernel", "once on any stream");
            naive().enqueue(&stream, &mut y).unwrap();
        });
        naive().enqueue(&other, &mut y).unwrap();
        capture(&stream, || {
            let waiting = naive().enqueue(&stream, &mut y);
            refused(waiting, "waiting for another stream", "before the capture begins");
        });
        capture(&other, || {
            let error = y.to_vec().unwrap_err();
            assert!(matches!(error, Error::Capturing { .. }), "{error}");
        });
        assert_eq!(count(&log.next(), "event captured"), 0);

        // Nothing of this is left behind.
        split().enqueue(&stream, &mut d).unwrap();
        capture(&stream, || {
            split().enqueue(&stream, &mut d).unwrap();
        });
        y.to_vec().unwrap();
    });
}

/// Measuring allocates, copies and waits, all of which would spoil the capture.
#[test]
fn measuring_at_first_use_is_refused_during_a_capture_and_done_after_it() {
    let name = "measuring_at_first_use_is_refused_during_a_capture_and_done_after_it";
    let cache = tempfile::tempdir().unwrap();
    let settings = [
        // Nothing is shipped for GPUs like it.
        ("FAKE_CUDA_CAPABILITY", "8.0"),
        ("FAKE_CUDA_MEMORY", "1000000000"),
        ("REGEMM_CACHE_DIR", cache.path().to_str().unwrap()),
    ];
    in_child(name, Driver::Fake, &settings, |path| {
        let device = Device::cuda(0).unwrap();
        device.set_tuning(Tuning::FirstUse);
        let stream = device.stream().unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        let mut log = Log::new(path);
        capture(&stream, || {
            let error = Gemm::new(&a, &a).enqueue(&stream, &mut d).unwrap_err();
            assert!(matches!(error, Error::Capturing { .. }), "{error}");
            for part in ["measuring kernels", "before the capture begins"] {
                assert!(error.to_string().contains(part), "{error}");
            }
        });
        let lines = log.next();
        assert_eq!(lines.len(), 2, "its begin and its end: {lines:#?}");

        let report = Gemm::new(&a, &a).enqueue(&stream, &mut d).unwrap();
        assert!(matches!(report.why, Why::Tuned(_)), "{}", report.why);
        capture(&stream, || {
            let again = Gemm::new(&a, &a).enqueue(&stream, &mut d).unwrap();
            assert_eq!(again.why.to_string(), report.why.to_string());
        });
    });
}

/// A graph keeps the addresses of a stream's workspace, whatever becomes of the stream.
#[test]
fn a_workspace_that_a_graph_uses_is_kept() {
    in_child("a_workspace_that_a_graph_uses_is_kept", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let matrix = |rows, cols| device.matrix::<f32>(rows, cols).unwrap();
        let (a, b, mut d) = (matrix(16, 512), matrix(512, 64), matrix(16, 64));
        let (wide, mut e) = (matrix(512, 128), matrix(16, 128));
        let product = |b| Gemm::new(&a, b).kernel(KernelChoice::Named("split_k16".into()));
        let bytes = product(&b).workspace_size(&mut d).unwrap().partial_bytes;
        let more = product(&wide).workspace_size(&mut e).unwrap().partial_bytes;
        assert!(0 < bytes && bytes < more);
        let (of_graph, larger) = (format!("free {bytes}"), format!("free {more}"));

        product(&b).enqueue(&stream, &mut d).unwrap();
        capture(&stream, || {
            product(&b).enqueue(&stream, &mut d).unwrap();
        });
        let mut log = Log::new(path);
        product(&wide).enqueue(&stream, &mut e).unwrap();
        drop(stream);
        device.synchronize().unwrap();
        let lines = log.next();
        assert_eq!((count(&lines, &of_graph), count(&lines, &larger)), (0, 1), "{lines:#?}");

        // Without a graph it is given back at once; with one it is kept also where nothing larger comes.
        product(&b).enqueue(&other, &mut d).unwrap();
        log.next();
        product(&wide).enqueue(&other, &mut e).unwrap();
        assert_eq!(count(&log.next(), &of_graph), 1);
        capture(&other, || {
            product(&wide).enqueue(&other, &mut e).unwrap();
        });
        drop(other);
        device.synchronize().unwrap();
        assert_eq!(count(&log.next(), "free"), 0);

        drop((a, b, d, wide, e, device));
        let lines = log.next();
        assert_eq!((count(&lines, &of_graph), count(&lines, &larger)), (1, 1), "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "release");
    });
}

#[test]
fn dropping_a_stream_does_not_wait_for_its_workspace() {
    let name = "dropping_a_stream_does_not_wait_for_its_workspace";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let matrix = |rows, cols| device.matrix::<f32>(rows, cols).unwrap();
        let (a, b, mut d) = (matrix(16, 512), matrix(512, 64), matrix(16, 64));
        let product = Gemm::new(&a, &b).kernel(KernelChoice::Named("split_k16".into()));
        let free = format!("free {}", product.workspace_size(&mut d).unwrap().partial_bytes);
        product.enqueue(&stream, &mut d).unwrap();
        let mut log = Log::new(path);
        drop(stream);
        assert_eq!(log.next(), [""; 0], "neither waits nor frees");
        device.synchronize().unwrap();
        assert_eq!(count(&log.next(), &free), 1);
    });
}

/// A record is written by work of whoever has it, so that the work of one thread must not come between that of another.
#[test]
fn products_of_two_threads_that_share_a_record_are_in_order() {
    let name = "products_of_two_threads_that_share_a_record_are_in_order";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let a = device.matrix::<f32>(32, 128).unwrap();
        let record = device.precision_record(1).unwrap();
        let product = || Gemm::new(&a, a.t()).precision(Precision::Auto).auto_at_any_size();
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let mut targets = [matrix(&device), matrix(&device)];
        // Loads the kernels.
        for (stream, d) in streams.iter().zip(&mut targets) {
            product().record_precision(&record).enqueue(stream, d).unwrap();
        }
        let mut log = Log::new(path);
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for (stream, d) in streams.iter().zip(&mut targets) {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..100 {
                        product().record_precision(&record).enqueue(stream, &mut *d).unwrap();
                    }
                });
            }
        });
        let mut last = String::new();
        let mut waits = Vec::new();
        for line in log.next() {
            if line.starts_with("launch") {
                let stream = launched_on(std::slice::from_ref(&line));
                let needed = format!("stream {stream} waits for stream {last}");
                assert!(last.is_empty() || last == stream || waits.contains(&needed), "{needed}");
                last = stream;
                waits.clear();
            } else {
                waits.push(line);
            }
        }
    });
}

#[test]
fn the_host_waits_before_it_touches_a_matrix() {
    in_child("the_host_waits_before_it_touches_a_matrix", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (mut a, b, mut d) = (matrix(&device), matrix(&device), matrix(&device));
        let mut log = Log::new(path);
        enqueue(&stream, &a, &b, &mut d);
        let lines = log.next();
        let wait = format!("wait for stream {}", launched_on(&lines));
        assert_eq!(count(&lines, "wait"), 0, "enqueue does not wait");

        b.to_vec().unwrap();
        assert_eq!(count(&log.next(), "wait"), 0, "B is only read");
        d.to_vec().unwrap();
        assert_eq!(log.next()[0], wait, "D is written");

        enqueue(&stream, &a, &b, &mut d);
        log.next();
        a.write_raw(&[0.0; 1024]).unwrap();
        assert_eq!(log.next()[0], wait, "A is still read");

        let mut bias = device.vector(&[0.0f32; 32]).unwrap();
        let product = Gemm::new(&a, &b).kernel(kernel()).bias_per_column(&bias);
        product.enqueue(&stream, &mut d).unwrap();
        log.next();
        bias.copy_from(&[1.0; 32]).unwrap();
        assert_eq!(log.next()[..2], [wait, "write 128".to_owned()], "so is the bias");
    });
}

#[test]
fn memory_is_freed_when_the_work_is_done() {
    in_child("memory_is_freed_when_the_work_is_done", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        let idle = device.matrix::<f32>(1, 100).unwrap();
        let mut log = Log::new(path);
        enqueue(&stream, &a, &a.device().matrix(32, 32).unwrap(), &mut d);
        drop((a, d, idle));
        let lines = log.next();
        assert_eq!(count(&lines, "free 4096"), 0, "still in use: {lines:#?}");
        assert_eq!(count(&lines, "free 400"), 1, "never used: {lines:#?}");
        assert_eq!(count(&lines, "wait"), 0, "dropping does not wait");

        stream.synchronize().unwrap();
        device.matrix::<f32>(2, 2).unwrap();
        let lines = log.next();
        assert_eq!(count(&lines, "free 4096"), 3, "{lines:#?}");

        // What is still in use when the device is closed is waited for.
        let a = matrix(&device);
        enqueue(&stream, &a, &a, &mut matrix(&device));
        drop((a, stream));
        assert_eq!(count(&log.next(), "free 4096"), 0);
        drop(device);
        let lines = log.next();
        let position = |what: &str| lines.iter().position(|line| line.starts_with(what)).unwrap();
        assert!(position("wait") < position("free 4096"), "{lines:#?}");
        assert_eq!((count(&lines, "free 4096"), count(&lines, "release")), (2, 1), "{lines:#?}");
    });
}

#[test]
fn memory_that_is_short_is_waited_for() {
    in_child("memory_that_is_short_is_waited_for", Driver::Fake, &[], |path| {
        // The driver has 1 MiB.
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let a = device.matrix::<f32>(300, 300).unwrap();
        let mut d = device.matrix::<f32>(300, 300).unwrap();
        enqueue(&stream, &a, &a, &mut d);
        drop(d);
        let mut log = Log::new(path);
        let b = device.matrix::<f32>(300, 400).unwrap();
        let lines = log.next();
        assert!(lines[0].starts_with("wait") && lines[1] == "free 360000", "{lines:#?}");
        drop(b);
        let error = device.matrix::<f32>(600, 600).unwrap_err();
        let Error::OutOfMemory { device: DeviceSpec::Cuda(0), requested, free } = error else {
            panic!("{error}")
        };
        assert_eq!((requested, free), (1_440_000, (1 << 20) - 360_000));
    });
}

#[test]
fn events_measure_time() {
    in_child("events_measure_time", Driver::Fake, &[], |_| {
        let stream = Device::cuda(0).unwrap().stream().unwrap();
        let (start, end) = (stream.record().unwrap(), stream.record().unwrap());
        assert_eq!(end.elapsed_since(&start).unwrap().as_micros(), 1500);
    });
}

#[test]
fn who_asks_for_an_event_is_told_of_a_fault() {
    let name = "who_asks_for_an_event_is_told_of_a_fault";
    in_child(name, Driver::Fake, &[("FAKE_CUDA_FAULT", "1")], |_| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        let before = stream.record().unwrap();
        assert!(!before.has_passed().unwrap());
        before.synchronize().unwrap();
        assert!(before.has_passed().unwrap());
        enqueue(&stream, &a, &a, &mut d);
        let error = stream.record().unwrap().has_passed().unwrap_err();
        assert!(matches!(error, Error::Cuda { call: "cuEventQuery", code: 700, .. }), "{error}");
    });
}

/// Where the device has nothing to do before all of a sample is queued, its time would have waits for the host in it.
#[test]
fn samples_that_waited_for_the_host_are_taken_again() {
    let name = "samples_that_waited_for_the_host_are_taken_again";
    let settings = [("FAKE_CUDA_MEMORY", "1000000000")];
    in_child(name, Driver::Fake, &settings, |_| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        // How often each product is put on the stream, if so many of them wait for the device.
        let mut enqueued_with = |mut late: usize| {
            let mut enqueued = 0;
            let sampling = Sampling { warm_up: 0, rounds: 2 };
            let samples = alternate::<Error>(&stream, &[3], sampling, |_| {
                enqueue(&stream, &a, &a, &mut d);
                enqueued += 1;
                if late > 0 {
                    late -= 1;
                    stream.synchronize()?;
                }
                Ok(())
            });
            assert_eq!(samples.unwrap()[0].count(), 2);
            enqueued
        };
        assert_eq!(enqueued_with(0), 2 * 3);
        assert_eq!(enqueued_with(1), (2 + 1) * 3, "once again");
        assert_eq!(enqueued_with(usize::MAX), 2 * (1 + 3) * 3, "but not for ever");
    });
}

#[test]
fn simulator_and_gpu_do_not_mix() {
    in_child("simulator_and_gpu_do_not_mix", Driver::Fake, &[], |_| {
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
    in_child("a_gpu_that_is_older_than_the_ptx", Driver::Fake, &old, |_| {
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
    in_child("a_driver_that_is_too_old_for_the_ptx", Driver::Fake, &old, |_| {
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
    let name = "a_refused_module_is_reported_with_the_compilers_message";
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
    let name = "a_kernel_with_more_shared_memory_than_a_block_can_have_is_not_loaded";
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
