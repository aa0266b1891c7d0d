//! How work is dealt out to multiprocessors, and what that does to the bits.

use regemm::kernels::find;
use regemm::ndarray::Array2;
use regemm::{Counters, Device, Gemm, KernelChoice};
use std::num::NonZeroU32;

/// The bits of a product of ten tiles, and what was counted.
fn product(device: &Device, slices: Option<u32>) -> (Vec<u32>, Counters) {
    let kernel = find("stream_k64_f32").unwrap();
    let [bm, bn, bk] = [kernel.tile.bm, kernel.tile.bn, kernel.tile.bk].map(|size| size as usize);
    // Numbers whose sums depend on their order.
    let of =
        |rows, cols| Array2::from_shape_fn((rows, cols), |(i, j)| 1.0 / (3 + i + 7 * j) as f32);
    let a = device.upload(&of(2 * bm, 6 * bk).view()).unwrap();
    let b = device.upload(&of(6 * bk, 5 * bn).view()).unwrap();
    let mut d = device.matrix(2 * bm, 5 * bn).unwrap();
    let mut gemm = Gemm::new(&a, &b).kernel(KernelChoice::Info(kernel));
    if let Some(slices) = slices.and_then(NonZeroU32::new) {
        gemm = gemm.slices(slices);
    }
    let counters = gemm.run(&mut d).unwrap().counters.unwrap();
    (d.to_array().unwrap().iter().map(|x| x.to_bits()).collect(), counters)
}

fn with_multiprocessors(count: u32) -> Device {
    Device::sim_with_multiprocessors(NonZeroU32::new(count).unwrap())
}

#[test]
fn simulators_have_two_multiprocessors_unless_others_are_asked_for() {
    assert_eq!(Device::sim().info().multiprocessors, 2);
    assert_eq!(Device::sim_with_memory(1 << 20).info().multiprocessors, 2);
    assert_eq!(with_multiprocessors(132).info().multiprocessors, 132);
}

#[test]
fn slices_give_the_same_bits_on_every_device() {
    let found = product(&Device::sim(), Some(7));
    assert!(found.1.signal_posts > 0, "seven blocks share three tiles");
    for multiprocessors in [8, 132] {
        assert!(product(&with_multiprocessors(multiprocessors), Some(7)) == found);
    }
    let whole = product(&Device::sim(), None);
    assert_eq!(whole.1.signal_posts, 0, "two multiprocessors have five tiles each");
    assert!(whole.0 != found.0, "who shares decides the bits");
}

#[test]
fn multiprocessors_decide_what_is_shared_where_nobody_asks() {
    let eight = product(&with_multiprocessors(8), None);
    assert!(eight.1.signal_posts > 0, "eight share the last two tiles of ten");
    let many = product(&with_multiprocessors(132), None);
    assert!(many.1.signal_posts > 0 && many.0 != eight.0, "many share all ten");
}
