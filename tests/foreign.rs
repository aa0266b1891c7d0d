//! Memory that somebody else owns: what is put on streams with views of it is in order, by its addresses. On the
//! simulator, and on the first GPU if there is one, whose work is long enough there to be overtaken. What is waited for
//! is tested in `cuda_backend`, without a GPU.

mod gpu;

use regemm::ndarray::Array2;
use regemm::{Device, Gemm, KernelChoice, Matrix, MatrixView, MatrixViewMut};

fn devices() -> Vec<Device> {
    gpu::with_simulator("memory of others", |_| true)
}

/// Rows, columns and depth of a product that takes a while.
fn size(device: &Device) -> usize {
    if device.is_sim() { 48 } else { 2048 }
}

/// The slowest kernel.
fn kernel() -> KernelChoice {
    KernelChoice::Named("naive".into())
}

fn square(device: &Device, value: f32) -> Matrix<f32> {
    let n = size(device);
    device.upload(&Array2::from_elem((n, n), value).view()).unwrap()
}

/// The matrix as a library would see it that is told an address alone.
fn foreign(owner: &Matrix<f32>) -> MatrixViewMut<'_, f32> {
    let n = owner.rows();
    // SAFETY: the owner lives and is not used otherwise.
    unsafe { MatrixViewMut::from_raw(owner.device(), owner.address(), n, n, n) }.unwrap()
}

#[test]
fn the_host_reads_what_a_stream_has_written() {
    for device in devices() {
        let (stream, n) = (device.stream().unwrap(), size(&device));
        let (a, b, owner) = (square(&device, 0.5), square(&device, 2.0), square(&device, -1.0));
        let mut d = foreign(&owner);
        Gemm::new(&a, &b).kernel(kernel()).enqueue(&stream, &mut d).unwrap();
        assert!(d.view().to_vec().unwrap().iter().all(|&x| x == n as f32), "{device:?}");

        Gemm::new(&a, &b).alpha(2.0).kernel(kernel()).enqueue(&stream, d).unwrap();
        // SAFETY: as above, and the rows are those of the end.
        let rows = unsafe {
            let last = owner.address() + ((n - 1) * n * size_of::<f32>()) as u64;
            MatrixView::<f32>::from_raw(&device, last, 1, n, n).unwrap()
        };
        assert!(rows.to_vec().unwrap().iter().all(|&x| x == 2.0 * n as f32), "{device:?}");
    }
}

#[test]
fn streams_take_turns() {
    for device in devices() {
        let (slow, fast) = (device.stream().unwrap(), device.stream().unwrap());
        let (a, b, owner) = (square(&device, 0.5), square(&device, 2.0), square(&device, -1.0));
        let n = size(&device) as f32;
        Gemm::new(&a, &b).kernel(kernel()).enqueue(&slow, foreign(&owner)).unwrap();
        // Nothing to multiply: done in no time.
        Gemm::new(&a, &b).alpha(0.0).accumulate(3.0).enqueue(&fast, foreign(&owner)).unwrap();
        let d = foreign(&owner);
        assert!(d.view().to_vec().unwrap().iter().all(|&x| x == 3.0 * n), "{device:?}");

        // Read by the first product, written by the second.
        let mut product = square(&device, -1.0);
        Gemm::new(d.view(), &b).kernel(kernel()).enqueue(&slow, &mut product).unwrap();
        Gemm::new(&a, &b).alpha(0.0).enqueue(&fast, d).unwrap();
        assert!(product.to_vec().unwrap().iter().all(|&x| x == 6.0 * n * n), "{device:?}");
        assert!(foreign(&owner).view().to_vec().unwrap().iter().all(|&x| x == 0.0), "{device:?}");
    }
}
