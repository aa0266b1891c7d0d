//! Runs a product that ends in an epilogue of its own, on the first GPU or else on the simulator.

use fused_kernels::{KERNELS, ScaledResidual};
use regemm::ndarray::{Array2, Zip};
use regemm::{CustomKernel, Device, Gemm, PtxModule};

/// What the build script made of the kernel crate.
static PTX: &[PtxModule] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

const LIMIT: f32 = 6.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Small integers, so that every order of summation gives the same and the check can be exact.
    let (m, n, k) = (100, 70, 45);
    let a = Array2::from_shape_fn((m, k), |(i, j)| ((i * 7 + j * 3) % 5) as f32 - 2.0);
    let b = Array2::from_shape_fn((k, n), |(i, j)| ((i * 5 + j * 11) % 7) as f32 - 3.0);
    let residual = Array2::from_shape_fn((m, n), |(i, j)| ((i + 2 * j) % 9) as f32 - 4.0);
    let scales: Vec<f32> = (0..n).map(|j| [0.5, -1.0, 0.25][j % 3]).collect();
    let mut expected = a.dot(&b);
    for ((row, col), value) in expected.indexed_iter_mut() {
        *value = (*value * scales[col] + residual[[row, col]]).clamp(0.0, LIMIT);
    }

    let device = Device::auto()?;
    let (a, b) = (device.upload(&a.view())?, device.upload(&b.view())?);
    let (residual, scales) = (device.upload(&residual.view())?, device.vector(&scales)?);
    for info in KERNELS {
        // SAFETY: a row of the table whose kernels all end in this epilogue, with the PTX of its crate.
        let kernel = unsafe { CustomKernel::<f32, ScaledResidual>::new(info, PTX) }?;
        let epilogue = ScaledResidual {
            residual: residual.view().to_kernel(),
            scales: scales.to_kernel(),
            limit: LIMIT,
        };
        let mut d = device.matrix(m, n)?;
        // What the epilogue reads is told to the product too, which keeps it in memory and waits for its writers.
        let product =
            Gemm::new(&a, &b).epilogue_reads_matrix(&residual).epilogue_reads_vector(&scales);
        // SAFETY: the residual has D's shape, and there are as many scales as columns.
        unsafe { product.run_custom(&kernel, epilogue, &mut d) }?;

        let d = d.to_array()?;
        let wrong = Zip::from(&d).and(&expected).fold(0, |wrong, x, y| wrong + usize::from(x != y));
        if wrong != 0 {
            return Err(format!("{}: {wrong} of {} elements are wrong", info.name, d.len()).into());
        }
        println!("{}: {m} x {n} elements are right on {device:?}", info.name);
    }
    Ok(())
}
