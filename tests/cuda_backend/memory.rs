//! Copies, allocations, and when memory is given back.

use crate::support::{Driver, in_child};
use crate::{Log, count, enqueue, launched_on, matrix};
use regemm::kernels::Repack;
use regemm::ndarray::Array2;
use regemm::{Device, DeviceSpec, Error, Gemm, KernelChoice, bf16};

#[test]
fn copies_go_there_and_back() {
    in_child("memory::copies_go_there_and_back", Driver::Fake, &[], |path| {
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
fn zeros_are_set_on_the_device() {
    in_child("memory::zeros_are_set_on_the_device", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let mut log = Log::new(path);
        let zeros = device.zeros::<bf16>(3, 7).unwrap();
        let lines = log.next();
        assert_eq!(lines[..2], ["alloc 42", "set 42 bytes"], "{lines:#?}");
        assert!(lines[2].starts_with("finish stream"), "{lines:#?}");
        assert!(zeros.to_vec().unwrap().iter().all(|x| x.to_bits() == 0));
    });
}

/// Work on different streams may run at the same time, so that each stream has memory of its own for sums that are not
/// finished, which grows once; and none where it is given.
#[test]
fn unfinished_sums_take_memory_of_each_stream() {
    in_child("memory::unfinished_sums_take_memory_of_each_stream", Driver::Fake, &[], |path| {
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

/// Odd rows are repacked before the product, on the same stream. Where the workspace is given, or large enough from
/// before, nothing is allocated and nothing is waited for: such calls can be captured in a graph.
#[test]
fn odd_factors_are_repacked_first_and_without_new_memory() {
    let name = "memory::odd_factors_are_repacked_first_and_without_new_memory";
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

#[test]
fn dropping_a_stream_does_not_wait_for_its_workspace() {
    let name = "memory::dropping_a_stream_does_not_wait_for_its_workspace";
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

#[test]
fn memory_is_freed_when_the_work_is_done() {
    in_child("memory::memory_is_freed_when_the_work_is_done", Driver::Fake, &[], |path| {
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
    in_child("memory::memory_that_is_short_is_waited_for", Driver::Fake, &[], |path| {
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
