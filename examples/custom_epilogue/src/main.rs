//! Runs products that end in an epilogue of their own, on the first GPU or else on the simulator.

use fused_kernels::{KERNELS, ScaledResidual};
use regemm::ndarray::{Array2, Zip};
use regemm::{CustomKernel, Device, Element, Gemm, KernelInfo, PtxModule, bf16};

/// What the build script made of the kernel crate.
static PTX: &[PtxModule] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

const LIMIT: f32 = 6.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    for info in KERNELS {
        let name = info.name;
        let outcome = match info.dtype {
            <f32 as Element>::DTYPE => run::<f32>(&device, info),
            <bf16 as Element>::DTYPE => run::<bf16>(&device, info),
            other => return Err(format!("{name}: no product of {other} here").into()),
        };
        match outcome {
            Ok((m, n, 0)) => println!("{name}: {m} x {n} elements are right on {device:?}"),
            Ok((m, n, wrong)) => {
                return Err(format!("{name}: {wrong} of {m} x {n} elements are wrong").into());
            }
            // A program would go on to the next best kernel.
            Err(error) if error.is_misfit() => println!("{name}: not here: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Multiplies by one kernel; gives rows and columns of D, and how many elements are wrong.
fn run<T: Element<Acc = f32>>(
    device: &Device,
    info: &'static KernelInfo,
) -> regemm::Result<(usize, usize, usize)> {
    // Small integers, so that every order of summation gives the same and the check can be exact.
    let (m, n, k) = (100, 70, 45);
    let a = Array2::from_shape_fn((m, k), |(i, j)| ((i * 7 + j * 3) % 5) as f32 - 2.0);
    let b = Array2::from_shape_fn((k, n), |(i, j)| ((i * 5 + j * 11) % 7) as f32 - 3.0);
    let mut residual = Array2::from_shape_fn((m, n), |(i, j)| ((i + 2 * j) % 9) as f32 - 4.0);
    // What is no number is to stay none.
    residual[[m / 2, n / 2]] = f32::NAN;
    let scales: Vec<f32> = (0..n).map(|j| [0.5, -1.0, 0.25][j % 3]).collect();
    let mut expected = a.dot(&b);
    for ((row, col), value) in expected.indexed_iter_mut() {
        *value = (*value * scales[col] + residual[[row, col]]).clamp(0.0, LIMIT);
    }

    let narrow = |matrix: &Array2<f32>| matrix.mapv(T::narrow);
    let (a, b) = (device.upload(&narrow(&a).view())?, device.upload(&narrow(&b).view())?);
    let residual = device.upload(&narrow(&residual).view())?;
    let scales = device.vector(&scales.into_iter().map(T::narrow).collect::<Vec<_>>())?;
    let mut d = device.matrix(m, n)?;

    // SAFETY: a row of the table whose kernels all end in this epilogue, with the PTX of its crate.
    let kernel = unsafe { CustomKernel::<T, ScaledResidual<T>>::new(info, PTX) }?;
    let epilogue = ScaledResidual {
        residual: residual.view().to_kernel(),
        scales: scales.to_kernel(),
        limit: LIMIT,
    };
    // What the epilogue reads is told to the product too, which keeps it in memory and waits for its writers.
    let product = Gemm::new(&a, &b).epilogue_reads_matrix(&residual).epilogue_reads_vector(&scales);
    // SAFETY: the residual has D's shape, and there are as many scales as columns.
    unsafe { product.run_custom(&kernel, epilogue, &mut d) }?;

    let d = d.to_array()?;
    let is_right = |x: f32, y: f32| x == y || x.is_nan() && y.is_nan();
    let wrong = Zip::from(&d)
        .and(&expected)
        .fold(0, |wrong, x, &y| wrong + usize::from(!is_right(x.widen(), y)));
    Ok((m, n, wrong))
}
