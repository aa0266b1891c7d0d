//! Streams, events, and matrices that are dropped early. On the simulator work is done on return; the tests of the
//! stand-in driver (`tests/cuda_backend`) show that a GPU is waited for.

use crate::{expected, integers, kernel};
use regemm::{Device, Error, Gemm, Stream};

#[test]
fn work_on_streams_is_in_order() {
    let device = Device::sim();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let (a, b, c) = (integers(9, 5, 1), integers(5, 7, 2), integers(7, 4, 3));
    let upload = |array: &regemm::ndarray::Array2<f32>| device.upload(&array.view()).unwrap();
    let (da, db, dc) = (upload(&a), upload(&b), upload(&c));
    let mut ab = device.matrix(9, 7).unwrap();
    let mut abc = device.matrix(9, 4).unwrap();
    Gemm::new(&da, &db).kernel(kernel()).enqueue(&first, &mut ab).unwrap();
    Gemm::new(&ab, &dc).kernel(kernel()).enqueue(&second, &mut abc).unwrap();
    drop((da, db, ab, dc));
    first.synchronize().unwrap();
    let exact = expected(&expected(&a.view(), &b.view()).view(), &c.view());
    assert_eq!(abc.to_array().unwrap(), exact);
    device.synchronize().unwrap();
}

#[test]
fn streams_and_events_outlive_what_made_them() {
    let stream = Device::sim().stream().unwrap();
    assert!(stream.device().is_sim());
    let event = stream.record().unwrap();
    drop(stream);
    event.synchronize().unwrap();
}

#[test]
fn the_simulator_has_no_times() {
    let stream = Device::sim().stream().unwrap();
    let (start, end) = (stream.record().unwrap(), stream.record().unwrap());
    let error = end.elapsed_since(&start).unwrap_err();
    assert!(matches!(error, Error::NotMeasurable { .. }));
    assert!(error.to_string().contains("simulator"), "{error}");
}

#[test]
fn the_simulator_has_nothing_to_wait_for_and_no_handles() {
    let device = Device::sim();
    let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
    let event = one.record().unwrap();
    other.wait(&event).unwrap();
    assert_eq!(event.with_cuda_handle(|_| ()).unwrap(), None);
    // SAFETY: it is refused.
    let error = unsafe { Stream::from_cuda_handle(&device, std::ptr::null_mut()) }.unwrap_err();
    assert!(matches!(error, Error::NotCuda { .. }), "{error}");
    assert!(error.to_string().contains("a handle of a stream belongs to a CUDA device"), "{error}");
}
