//! Streams that are captured in a graph.

use crate::support::{Driver, in_child};
use crate::{Log, count, enqueue, kernel, matrix};
use regemm::kernels::Why;
use regemm::tuning::Tuning;
use regemm::{Device, Error, Gemm, KernelChoice, Matrix, Precision, Stream};
use std::ffi::c_void;
use std::num::NonZeroU32;

/// The strictest mode.
const CAPTURE_GLOBALLY: i32 = 0;

/// Captures what a function puts on a stream, in a graph.
#[track_caller]
fn capture(stream: &Stream, enqueue: impl FnOnce()) {
    assert!(is_captured(stream, enqueue), "the capture is lost");
}

/// Captures what a function puts on a stream, as another library would: through the driver. Whether there is a graph in
/// the end.
fn is_captured(stream: &Stream, enqueue: impl FnOnce()) -> bool {
    type Begin = unsafe extern "C" fn(*mut c_void, i32) -> i32;
    // SAFETY: the stand-in for the driver, which is loaded already; the signature is its own.
    unsafe {
        let driver = libloading::Library::new(cuda_driver::library::LIBRARY).unwrap();
        let begin = driver.get::<Begin>("cuStreamBeginCapture_v2").unwrap();
        let raw = stream.with_cuda_handle(|raw| raw).unwrap().unwrap();
        assert_eq!(begin(raw, CAPTURE_GLOBALLY), 0);
    }
    enqueue();
    end_capture(stream)
}

/// Ends a capture. Whether there is a graph.
fn end_capture(stream: &Stream) -> bool {
    type End = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32;
    // SAFETY: as above.
    unsafe {
        let driver = libloading::Library::new(cuda_driver::library::LIBRARY).unwrap();
        let end = driver.get::<End>("cuStreamEndCapture").unwrap();
        let raw = stream.with_cuda_handle(|raw| raw).unwrap().unwrap();
        let mut graph = std::ptr::null_mut();
        end(raw, &mut graph) == 0 && !graph.is_null()
    }
}

#[test]
fn a_capture_holds_launches_and_nothing_else() {
    let name = "capture::a_capture_holds_launches_and_nothing_else";
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
    let name = "capture::what_a_graph_cannot_hold_is_refused_and_the_capture_goes_on";
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

/// A stream that waits for an event of a capture comes into it. From there on products of both that depend on each
/// other are put in order in the graph, without a wait that the caller asks for.
#[test]
fn products_on_streams_of_one_capture_are_put_in_order() {
    let name = "capture::products_on_streams_of_one_capture_are_put_in_order";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let [one, two, other] = [0; 3].map(|_| device.stream().unwrap());
        let (x, w) = (matrix(&device), matrix(&device));
        let [mut h, mut y, mut z] = [0; 3].map(|_| matrix(&device));
        let number = |stream: &Stream| {
            let raw = stream.with_cuda_handle(|raw| raw as usize).unwrap();
            format!("stream {}", raw.unwrap())
        };
        let [of_one, of_two] = [&one, &two].map(number);
        // The kernel is loaded.
        let mut spare = matrix(&device);
        enqueue(&other, &x, &w, &mut spare);
        let mut log = Log::new(path);
        capture(&one, || {
            two.wait(&one.record().unwrap()).unwrap();
            log.next();
            enqueue(&one, &x, &w, &mut h);
            enqueue(&two, &h, &w, &mut y);
            let waits = format!("{of_two} waits for {of_one}");
            assert_eq!(count(&log.next(), &waits), 1);
            enqueue(&one, &y, &h, &mut z);
            let waits = format!("{of_one} waits for {of_two}");
            assert_eq!(count(&log.next(), &waits), 1);
            // Others know nothing of it.
            let error = Gemm::new(&z, &w).kernel(kernel()).enqueue(&other, &mut spare);
            assert!(matches!(error.unwrap_err(), Error::Capturing { .. }));
        });
        enqueue(&one, &z, &w, &mut y);
        y.to_vec().unwrap();
    });
}

/// Another thread may know nothing of a capture, which may begin at any moment. What is asked for then is refused, and
/// not spoilt for ever.
#[test]
fn a_capture_that_begins_while_somebody_waits_spoils_nothing() {
    let name = "capture::a_capture_that_begins_while_somebody_waits_spoils_nothing";
    let settings = [("FAKE_CUDA_CAPTURE_AT_RECORD", "1"), ("FAKE_CUDA_LOG_CALLS", "1")];
    in_child(name, Driver::Fake, &settings, |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        enqueue(&stream, &a, &a, &mut d);
        let mut log = Log::new(path);
        let error = d.to_vec().unwrap_err();
        assert!(matches!(error, Error::Capturing { .. }), "{error}");
        assert!(end_capture(&stream), "the capture is lost");
        let lines = log.next();
        assert_eq!(count(&lines, "event captured"), 1, "{lines:#?}");
        assert_eq!(count(&lines, "call cuEventDestroy_v2"), 1, "not for another point: {lines:#?}");
        d.to_vec().unwrap();
        assert_eq!(count(&log.next(), "wait for stream"), 1);
    });
}

/// Measuring allocates, copies and waits, all of which would spoil the capture.
#[test]
fn measuring_at_first_use_is_refused_during_a_capture_and_done_after_it() {
    let name = "capture::measuring_at_first_use_is_refused_during_a_capture_and_done_after_it";
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

/// Nothing has run, so that the workspace is as it was, and there is nothing to wait for.
#[test]
fn a_product_that_is_refused_does_not_spoil_its_workspace() {
    let name = "capture::a_product_that_is_refused_does_not_spoil_its_workspace";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let batch = |rows, cols| device.batch::<f32>(2, rows, cols).unwrap();
        let (a, b, mut d) = (batch(32, 128), batch(128, 32), batch(32, 32));
        let records = [2, 1].map(|products| device.precision_record(products).unwrap());
        let product = || Gemm::new(&a, &b).precision(Precision::Auto).auto_at_any_size();
        let size = product().workspace_size(&mut d).unwrap();
        assert!(size.signals > 0);
        let given = device.workspace(size).unwrap();
        for workspace in [None, Some(&given)] {
            let product = |record| {
                let product = product().record_precision(record);
                workspace.map_or(product.clone(), |workspace| product.workspace(workspace))
            };
            product(&records[0]).enqueue(&stream, &mut d).unwrap();
            let mut log = Log::new(path);
            let error = product(&records[1]).enqueue(&stream, &mut d).unwrap_err();
            assert!(matches!(error, Error::RecordTooSmall { .. }), "{error}");
            capture(&stream, || {
                product(&records[0]).enqueue(&stream, &mut d).unwrap();
            });
            product(&records[0]).enqueue(&stream, &mut d).unwrap();
            let lines = log.next();
            let of_waiting = ["finish", "set", "write", "wait"].map(|what| count(&lines, what));
            assert_eq!(of_waiting, [0; 4], "{lines:#?}");
            stream.synchronize().unwrap();
        }
    });
}

/// A launch that fails may leave signals behind. To clear them takes what a graph cannot hold.
#[test]
fn a_workspace_is_cleared_before_a_capture_or_after_it() {
    let name = "capture::a_workspace_is_cleared_before_a_capture_or_after_it";
    let refused = [("FAKE_CUDA_REFUSE_LAUNCH", "reduce_f32"), ("FAKE_CUDA_MEMORY", "100000000")];
    in_child(name, Driver::Fake, &refused, |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let matrix = |rows, cols| device.matrix::<f32>(rows, cols).unwrap();
        let (a, b, mut d) = (matrix(130, 512), matrix(512, 260), matrix(130, 260));
        let slices = NonZeroU32::new(7).unwrap();
        let product = |name: &str, workspace| {
            let product = Gemm::new(&a, &b).kernel(KernelChoice::Named(name.into()));
            let product = product.slices(slices);
            if let Some(workspace) = workspace { product.workspace(workspace) } else { product }
        };
        let sizes = ["stream_k64", "split_k16"]
            .map(|name| product(name, None).workspace_size(&mut d).unwrap());
        assert!(sizes[0].signals > 0);
        let given = device.workspace(sizes[0].max(sizes[1])).unwrap();
        for (workspace, cleared) in [(None, "set"), (Some(&given), "write")] {
            let good = product("stream_k64", workspace);
            let fails = |d: &mut Matrix<f32>| {
                let error = product("split_k16", workspace).enqueue(&stream, d).unwrap_err();
                assert!(matches!(error, Error::Cuda { call: "cuLaunchKernel", .. }), "{error}");
            };
            let mut log = Log::new(path);
            // What was launched before the one that fails is waited for.
            fails(&mut d);
            assert!(count(&log.next(), "finish") > 0);
            good.clone().enqueue(&stream, &mut d).unwrap();
            fails(&mut d);
            log.next();
            capture(&stream, || {
                let error = good.clone().enqueue(&stream, &mut d).unwrap_err();
                assert!(matches!(error, Error::Capturing { .. }), "{error}");
                assert!(error.to_string().contains("clearing a workspace"), "{error}");
            });
            assert_eq!(count(&log.next(), cleared), 0);
            good.clone().enqueue(&stream, &mut d).unwrap();
            assert_eq!(count(&log.next(), cleared), 1);

            // In a capture nothing has started that could be waited for.
            capture(&stream, || fails(&mut d));
            good.clone().enqueue(&stream, &mut d).unwrap();
            assert_eq!(count(&log.next(), cleared), 1);
        }
    });
}

/// The driver frees nothing meanwhile, and the capture is lost; the memory is not.
#[test]
fn memory_that_is_given_up_during_a_capture_is_freed_after_it() {
    let name = "capture::memory_that_is_given_up_during_a_capture_is_freed_after_it";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let idle = [100, 200].map(|cols| device.matrix::<f32>(1, cols).unwrap());
        let mut log = Log::new(path);
        assert!(!is_captured(&stream, || drop(idle)));
        assert_eq!(count(&log.next(), "free"), 0);
        device.matrix::<f32>(1, 1).unwrap();
        let lines = log.next();
        assert_eq!(["free 400", "free 800"].map(|what| count(&lines, what)), [1, 1], "{lines:#?}");
    });
}

/// A graph keeps the addresses of a stream's workspace, whatever becomes of the stream.
#[test]
fn a_workspace_that_a_graph_uses_is_kept() {
    in_child("capture::a_workspace_that_a_graph_uses_is_kept", Driver::Fake, &[], |path| {
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
