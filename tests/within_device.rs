//! Zeros, copies within a device's memory, streams that somebody else made, and the clock of the multiprocessors: on
//! the simulator, and on the first GPU if there is one. What is waited for is tested in `cuda_backend`, without a GPU.

mod gpu;

use regemm::measure::SmClock;
use regemm::ndarray::{Array2, Array3, s};
use regemm::{Device, Error, Gemm, Stream};

fn devices() -> Vec<Device> {
    gpu::with_simulator("copies within a device's memory", |_| true)
}

/// Different in each element.
fn numbered(rows: usize, cols: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, cols), |(i, j)| (i * cols + j + 1) as f32)
}

#[test]
fn zeros_are_all_zero() {
    for device in devices() {
        let matrix = device.zeros::<f32>(5, 7).unwrap();
        assert_eq!(matrix.to_array().unwrap(), Array2::<f32>::zeros((5, 7)), "{device:?}");
        let batch = device.zeros_batch::<f64>(3, 4, 5).unwrap();
        assert_eq!(batch.to_array().unwrap(), Array3::<f64>::zeros((3, 4, 5)), "{device:?}");
    }
}

#[test]
fn parts_are_copied_between_rows_of_other_lengths() {
    for device in devices() {
        let (from, to) = (numbered(6, 11), -numbered(8, 9));
        let source = device.upload(&from.view()).unwrap();
        let mut target = device.upload(&to.view()).unwrap();
        let part = source.view().slice(1..5, 3..8).unwrap();
        target.view_mut().slice(2..6, 4..9).unwrap().copy_from_matrix(part).unwrap();
        let mut expected = to;
        expected.slice_mut(s![2..6, 4..9]).assign(&from.slice(s![1..5, 3..8]));
        assert_eq!(target.to_array().unwrap(), expected, "{device:?}");
    }
}

/// A product, a copy of what it gives, and a product of that copy: each begins when what is before it is done.
#[test]
fn copies_are_in_order_with_products() {
    for device in devices() {
        let (m, n, k) = if device.is_sim() { (20, 30, 40) } else { (1500, 1700, 1900) };
        let a = device.upload(&Array2::from_elem((m, k), 0.5f32).view()).unwrap();
        let b = device.upload(&Array2::from_elem((k, n), 2.0f32).view()).unwrap();
        let ones = device.upload(&Array2::from_elem((n, 3), 1.0f32).view()).unwrap();
        let (mut d, mut copy) = (device.zeros(m, n).unwrap(), device.zeros(m, n).unwrap());
        let mut sums = device.zeros::<f32>(m, 3).unwrap();
        let stream = device.stream().unwrap();
        Gemm::new(&a, &b).enqueue(&stream, &mut d).unwrap();
        copy.enqueue_copy(&stream, &d).unwrap();
        Gemm::new(&copy, &ones).enqueue(&stream, &mut sums).unwrap();
        let expected = (k * n) as f32;
        assert!(sums.to_array().unwrap().iter().all(|&x| x == expected), "{device:?}");
    }
}

/// On the simulator there is none.
#[test]
fn a_stream_of_somebody_else_takes_products() {
    for device in devices().iter().filter(|device| !device.is_sim()) {
        let owner = device.stream().unwrap();
        let a = device.upload(&numbered(70, 50).view()).unwrap();
        let b = device.upload(&Array2::<f32>::eye(50).view()).unwrap();
        let mut d = device.zeros(70, 50).unwrap();
        let handle = owner.with_cuda_handle(|handle| handle).unwrap().unwrap();
        // SAFETY: of a stream of this device, which lives longer.
        let stream = unsafe { Stream::from_cuda_handle(device, handle) }.unwrap();
        Gemm::new(&a, &b).enqueue(&stream, &mut d).unwrap();
        drop(stream);
        assert_eq!(d.to_array().unwrap(), numbered(70, 50), "{device:?}");
    }
}

/// Of a GPU's highest clock: it may have rested, and both counters have steps.
const CLOCKS: std::ops::Range<f64> = 0.1..1.1;

#[test]
fn the_clock_of_a_span_is_one_that_a_gpu_can_have() {
    for device in devices() {
        let clock = SmClock::new(&device, 3);
        if device.is_sim() {
            assert!(matches!(clock.err(), Some(Error::NotMeasurable { .. })));
            continue;
        }
        let mut clock = clock.unwrap();
        let highest = f64::from(device.info().clock_khz.unwrap()) / 1e3;
        let stream = device.stream().unwrap();
        let a = device.upload(&numbered(1000, 1000).view()).unwrap();
        let mut d = device.zeros(1000, 1000).unwrap();
        assert_eq!(clock.mhz().unwrap(), [None; 3], "nothing is measured yet");
        for span in [0, 2, 0] {
            clock.begin(&stream, span).unwrap();
            Gemm::new(&a, &a).enqueue(&stream, &mut d).unwrap();
            clock.end(&stream, span).unwrap();
        }
        let mhz = clock.mhz().unwrap();
        for (span, is_measured) in [true, false, true].into_iter().enumerate() {
            let is_possible = mhz[span].is_some_and(|mhz| CLOCKS.contains(&(mhz / highest)));
            assert_eq!(is_possible, is_measured, "{device:?}: {mhz:?} of {highest}");
        }
        clock.begin(&stream, 2).unwrap();
        assert_eq!(clock.mhz().unwrap()[2], None, "a span that has begun again has no end");
    }
}
