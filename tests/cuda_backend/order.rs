//! What waits for what, and what is asked of the driver for that.

use crate::support::{Driver, in_child};
use crate::{Log, count, enqueue, kernel, launched_on, matrix};
use regemm::measure::{Sampling, SmClock, alternate};
use regemm::ndarray::Array2;
use regemm::{
    BatchViewMut, Device, Error, Gemm, Matrix, MatrixView, MatrixViewMut, Operand, Precision,
    Stream,
};

#[test]
fn streams_wait_for_each_other_where_they_share_a_matrix() {
    let name = "order::streams_wait_for_each_other_where_they_share_a_matrix";
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

/// A thread that puts a product on a stream may be held up before it has noted which memory the product uses, and
/// another thread's later product on the same stream is noted first.
#[test]
fn threads_may_share_a_stream() {
    let folder = tempfile::TempDir::new().unwrap();
    // The child that runs the body gets the path in this variable.
    const RELEASE: &str = "FAKE_CUDA_HOLD_QUERY";
    let release = folder.path().join("release");
    let settings = [(RELEASE, release.to_str().unwrap())];
    in_child("order::threads_may_share_a_stream", Driver::Fake, &settings, |path| {
        let release = std::env::var_os(RELEASE).unwrap();
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, weights, other) = (matrix(&device), matrix(&device), matrix(&device));
        let (mut hidden, mut one, mut two) = (matrix(&device), matrix(&device), matrix(&device));
        // Both have been used on the stream before, so that no question is asked for them.
        enqueue(&stream, &other, &weights, &mut two);
        stream.synchronize().unwrap();

        std::thread::scope(|scope| {
            scope.spawn(|| {
                enqueue(&stream, &a, &a, &mut hidden);
                // Asks whether `hidden` is done before `weights` is noted.
                enqueue(&stream, &hidden, &weights, &mut one);
            });
            let held = || std::fs::read_to_string(path).unwrap().contains("hold query");
            while !held() {
                std::thread::yield_now();
            }
            enqueue(&stream, &other, &weights, &mut two);
            std::fs::write(release, "").unwrap();
        });
        let mut log = Log::new(path);
        one.to_array().unwrap();
        assert_eq!(count(&log.next(), "wait"), 1, "for the first thread's product");
        drop(weights);
        assert_eq!(count(&log.next(), "free"), 0, "the second thread's product reads it still");
        two.to_array().unwrap();
        let lines = log.next();
        assert_eq!(count(&lines, "wait"), 1, "{lines:#?}");
        matrix(&device);
        assert!(count(&log.next(), "free") > 0, "nobody needs it any more");
    });
}

/// Memory of another library is known by its addresses alone, of which views are made again and again.
#[test]
fn work_on_memory_of_others_is_in_order_too() {
    in_child("order::work_on_memory_of_others_is_in_order_too", Driver::Fake, &[], |path| {
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
    let name = "order::all_memory_of_others_that_a_product_takes_is_in_order";
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

/// Its kernels go with the device, which nothing keeps alive that is made of such memory.
#[test]
fn closing_a_device_waits_for_work_on_memory_of_others() {
    let name = "order::closing_a_device_waits_for_work_on_memory_of_others";
    in_child(name, Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        // The stand-in computes nothing, so that any memory will do.
        let [of_a, of_d] = [(); 2].map(|()| vec![0.0f32; 1024]);
        let address = |memory: &Vec<f32>| memory.as_ptr().addr() as u64;
        // SAFETY: the memory is not used otherwise and lives longer than the device.
        let (a, d) = unsafe {
            (
                MatrixView::<f32>::from_raw(&device, address(&of_a), 32, 32, 32).unwrap(),
                MatrixViewMut::<f32>::from_raw(&device, address(&of_d), 32, 32, 32).unwrap(),
            )
        };
        Gemm::new(a, a).kernel(kernel()).enqueue(&stream, d).unwrap();
        let mut log = Log::new(path);
        drop((stream, device));
        let lines = log.next();
        let position = |what: &str| lines.iter().position(|line| line.starts_with(what));
        assert!(position("wait").is_some_and(|wait| Some(wait) < position("unload")), "{lines:#?}");
    });
}

/// What a call costs the host is what it asks of the driver, so that is as little as can be.
#[test]
fn a_repeated_product_asks_the_driver_for_no_more_than_a_launch() {
    let name = "order::a_repeated_product_asks_the_driver_for_no_more_than_a_launch";
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

/// A record is written by work of whoever has it, so that the work of one thread must not come between that of another.
#[test]
fn products_of_two_threads_that_share_a_record_are_in_order() {
    let name = "order::products_of_two_threads_that_share_a_record_are_in_order";
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
    in_child("order::the_host_waits_before_it_touches_a_matrix", Driver::Fake, &[], |path| {
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
fn streams_wait_for_events() {
    in_child("order::streams_wait_for_events", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let handle = |stream: &Stream| stream.with_cuda_handle(|handle| handle.addr());
        let [one, two] = [&first, &second].map(|stream| handle(stream).unwrap().unwrap());
        let event = first.record().unwrap();
        assert!(event.with_cuda_handle(|handle| !handle.is_null()).unwrap().unwrap());
        let mut log = Log::new(path);
        second.wait(&event).unwrap();
        assert_eq!(
            log.next(),
            [format!("stream {two} waits for stream {one}")],
            "the host goes on"
        );
        drop(event);
        // There is nothing to wait for on a simulator.
        second.wait(&Device::sim().stream().unwrap().record().unwrap()).unwrap();
        assert_eq!(log.next(), [""; 0]);
    });
}

/// Somebody else's stream may be gone as soon as ours is dropped, but not the work on it.
#[test]
fn a_stream_of_others_is_left_alone_in_the_end() {
    let name = "order::a_stream_of_others_is_left_alone_in_the_end";
    in_child(name, Driver::Fake, &[("FAKE_CUDA_LOG_CALLS", "1")], |path| {
        let device = Device::cuda(0).unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        for (handle, number) in [(777, "777"), (0, "0")] {
            // SAFETY: the stand-in has no streams.
            let stream = unsafe {
                Stream::from_cuda_handle(&device, std::ptr::without_provenance_mut(handle)).unwrap()
            };
            let mut log = Log::new(path);
            enqueue(&stream, &a, &a, &mut d);
            assert_eq!(launched_on(&log.next()), number);
            drop(stream);
            assert_eq!(count(&log.next(), "call cuEventRecord"), 1, "after all of its work");
            d.to_array().unwrap();
            let lines = log.next();
            assert_eq!(count(&lines, &format!("wait for stream {number}")), 1, "{lines:#?}");
            for of_the_stream in ["cuStreamDestroy_v2", "cuStreamIsCapturing", "cuEventRecord"] {
                assert_eq!(count(&lines, &format!("call {of_the_stream}")), 0, "{lines:#?}");
            }
            // Nor is it touched where memory is freed that it used.
            drop(matrix(&device));
            assert_eq!(count(&log.next(), "call cuStreamIsCapturing"), 0);
        }
    });
}

#[test]
fn copies_on_the_device_are_in_order() {
    in_child("order::copies_on_the_device_are_in_order", Driver::Fake, &[], |path| {
        let device = Device::cuda(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let (a, mut b, mut c) = (matrix(&device), matrix(&device), matrix(&device));
        let mut log = Log::new(path);
        enqueue(&first, &a, &a, &mut b);
        let one = launched_on(&log.next());
        c.enqueue_copy(&second, &b).unwrap();
        let lines = log.next();
        let two = lines.last().unwrap().rsplit(' ').next().unwrap();
        let expected =
            [format!("stream {two} waits for stream {one}"), format!("move 4096 on stream {two}")];
        assert_eq!(lines, expected, "after the product, and the host goes on");
        // The source may be written when it has been read.
        enqueue(&first, &a, &a, &mut b);
        assert_eq!(log.next()[0], format!("stream {one} waits for stream {two}"));
        c.to_array().unwrap();
        assert_eq!(log.next()[0], format!("wait for stream {two}"));

        let (_, mut right) = c.view_mut().split_at_col(30).unwrap();
        right.copy_from_matrix(b.view().slice(0..32, 1..3).unwrap()).unwrap();
        let lines = log.next();
        assert!(lines[0].ends_with(&format!("waits for stream {one}")), "{lines:#?}");
        assert_eq!(lines[1], "copy 8 x 32");
        assert!(lines[2].starts_with("finish stream"), "{lines:#?}");
    });
}

#[test]
fn events_measure_time() {
    in_child("order::events_measure_time", Driver::Fake, &[], |_| {
        let stream = Device::cuda(0).unwrap().stream().unwrap();
        let (start, end) = (stream.record().unwrap(), stream.record().unwrap());
        assert_eq!(end.elapsed_since(&start).unwrap().as_micros(), 1500);
    });
}

#[test]
fn who_asks_for_an_event_is_told_of_a_fault() {
    let name = "order::who_asks_for_an_event_is_told_of_a_fault";
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
    let name = "order::samples_that_waited_for_the_host_are_taken_again";
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

/// The work that keeps the device busy before a sample is not part of it, nor is what others do behind it.
#[test]
fn the_clock_of_a_sample_is_that_between_its_events() {
    let name = "order::the_clock_of_a_sample_is_that_between_its_events";
    let settings = [("FAKE_CUDA_MEMORY", "1000000000")];
    in_child(name, Driver::Fake, &settings, |path| {
        let device = Device::cuda(0).unwrap();
        let stream = device.stream().unwrap();
        let (a, mut d) = (matrix(&device), matrix(&device));
        let mut log = Log::new(path);
        let sampling = Sampling { warm_up: 0, rounds: 1 };
        let samples = alternate::<Error>(&stream, &[3], sampling, |_| {
            enqueue(&stream, &a, &a, &mut d);
            Ok(())
        });
        let samples = samples.unwrap();
        let lines = log.next();
        let kernels = lines.iter().filter_map(|line| line.strip_prefix("launch "));
        let kernels = Vec::from_iter(kernels.map(|line| line.split(' ').next().unwrap()));
        let notes = Vec::from_iter((0..kernels.len()).filter(|i| kernels[*i] == "note_cycles"));
        let &[begin, end] = &notes[..] else { panic!("{lines:#?}") };
        assert!(begin > 0, "the device is busy before: {lines:#?}");
        assert_eq!(kernels[begin + 1..end], ["naive_f32"; 3]);
        assert_eq!(samples[0].sm_mhz(), None, "the driver computes nothing");

        let mut clock = SmClock::new(&device, 1).unwrap();
        let elsewhere = Device::sim().stream().unwrap();
        for error in [clock.begin(&elsewhere, 0), clock.end(&elsewhere, 0)].map(Result::unwrap_err)
        {
            assert!(matches!(error, Error::DeviceMismatch { operand: Operand::Clock, .. }));
            let said = error.to_string();
            assert!(said.contains("the clock is on cuda:0 but the stream is on sim"), "{said}");
        }
    });
}
