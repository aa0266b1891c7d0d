//! Operands whose elements lie further from each other than 32 bits can say.
//!
//! On the simulator alone, whose memory takes up no more than what is touched of it. A GPU would need all of it.

use crate::case::TestElement;
use libtest_mimic::{Failed, Trial};
use regemm::kernels::kernels;
use regemm::ndarray::Array3;
use regemm::verify::{Addend, BatchCase, Case, Operands, rng};
use regemm::{Accumulator, Batch, Device, Dtype, Element, Factor, Gemm, KernelChoice, KernelInfo};
use regemm::{Layout, Layouts, Precision, Result, Yields, bf16, f16};
use std::collections::HashSet;

/// Rows, columns and depth, and products of a batch whose matrices lie apart.
const SIZE: (usize, usize, usize) = (24, 40, 32);
const PRODUCTS: usize = 6;

/// Factors of the product and of C.
const ALPHA: f64 = 0.75;
const BETA: f64 = -0.5;

/// What lies far apart.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Apart {
    /// Nothing.
    Nothing,
    /// The rows of each matrix.
    Rows,
    /// The same, and none but the first is aligned.
    OddRows,
    /// The matrices.
    Matrices,
}

/// How products are computed.
#[derive(Clone, Copy)]
enum How {
    Kernel(&'static KernelInfo),
    Precision(Precision),
}

/// A test for one kernel of each family, and for the launches before products of other precisions.
pub fn add_trials(trials: &mut Vec<Trial>) {
    // Hosts that have no such address space to give show it.
    let has_room =
        batch::<f32>(&simulator(), &Array3::zeros((PRODUCTS, 1, 1)), Apart::Matrices).is_ok();
    let mut families = HashSet::new();
    for kernel in kernels() {
        let is_double = kernel.dtype == Dtype::F64;
        let family = (kernel.rung, kernel.schedule, kernel.boxes.is_some(), kernel.fits);
        let is_one = matches!(kernel.layouts, Layouts::NN | Layouts::TT);
        if is_one && families.insert((family, is_double, kernel.layouts)) {
            let test = match (kernel.dtype, kernel.target) {
                (Dtype::F16, Dtype::F32) => of_kernel::<f16, f32>,
                (Dtype::Bf16, Dtype::F32) => of_kernel::<bf16, f32>,
                (Dtype::F32, _) => of_kernel::<f32, f32>,
                (Dtype::F64, _) => of_kernel::<f64, f64>,
                (Dtype::F16, _) => of_kernel::<f16, f16>,
                (Dtype::Bf16, _) => of_kernel::<bf16, bf16>,
            };
            let name = format!("sim::{}::far", kernel.name);
            let trial = Trial::test(name, move || test(kernel).map_err(Failed::from));
            trials.push(trial.with_ignored_flag(!has_room));
        }
    }
    for precision in [Precision::Split, Precision::Tf32, Precision::Fast] {
        let test = move || of_precision(precision).map_err(Failed::from);
        let trial = Trial::test(format!("sim::{precision:?}::far").to_lowercase(), test);
        trials.push(trial.with_ignored_flag(!has_room));
    }
}

fn simulator() -> Device {
    Device::sim_with_memory(1 << 40)
}

/// Matrices with elements past 2^32 where something lies far apart, of f64 past 2^31, since a host gives no more than
/// it has: in all cases past 2^32 bytes, and past what an index with a sign says.
fn batch<T: Element>(device: &Device, stored: &Array3<T>, apart: Apart) -> Result<Batch<T>> {
    let (count, rows, cols) = stored.dim();
    let far = 1_usize << if size_of::<T>() == size_of::<f64>() { 31 } else { 32 };
    let wide = cols.next_multiple_of(8);
    let between = |steps: usize| (far / steps + 8).next_multiple_of(8);
    let (ld, stride) = match apart {
        Apart::Nothing => (wide, rows * wide),
        Apart::Rows => (between(rows - 1), wide),
        Apart::OddRows => (between(rows - 1) + 1, wide),
        Apart::Matrices => (wide, between(count.max(2) - 1)),
    };
    let mut batch = device.batch_with_strides(count, rows, cols, ld, stride)?;
    batch.copy_from(&stored.view())?;
    Ok(batch)
}

/// The elements of a factor as they are stored.
fn stored<T: Element>(factor: &Array3<T>, layout: Layout) -> Array3<T> {
    match layout {
        Layout::RowMajor => factor.clone(),
        Layout::Transposed => {
            factor.view().permuted_axes([0, 2, 1]).as_standard_layout().into_owned()
        }
    }
}

/// The bits of the products, which are numbers, with A, B, C and D so far apart.
fn bits<T: Element + Yields<D>, D: TestElement<Acc = T::Acc>>(
    operands: &Operands<T, D>,
    layouts: Layouts,
    how: How,
    apart: [Apart; 4],
) -> Result<Vec<u64>> {
    let device = simulator();
    let a = batch(&device, &stored(&operands.a, layouts.a), apart[0])?;
    let b = batch(&device, &stored(&operands.b, layouts.b), apart[1])?;
    let c = operands.c.as_ref().map(|c| batch(&device, c, apart[2])).transpose()?;
    let (m, n, _) = SIZE;
    let nothing =
        Array3::from_elem((operands.a.dim().0, m, n), D::narrow(T::Acc::constant(f64::NAN)));
    let mut d = batch(&device, &nothing, apart[3])?;
    let factors = [Factor::stored(&a, layouts.a), Factor::stored(&b, layouts.b)];
    let [a, b] = factors;
    let gemm = Gemm::widening(a, b).alpha(T::Acc::constant(ALPHA));
    let gemm = match &c {
        Some(c) => gemm.c(T::Acc::constant(BETA), c),
        None => gemm,
    };
    match how {
        How::Kernel(kernel) => gemm.kernel(KernelChoice::Info(kernel)),
        How::Precision(precision) => gemm.precision(precision),
    }
    .run(&mut d)?;
    let d = d.to_array()?;
    // Two results that were never computed have the same bits.
    assert!(d.iter().all(|element| element.widen().to_f64().is_finite()), "D was not computed");
    Ok(d.iter().map(|element| element.bits()).collect())
}

/// Checks that the same products come of operands that lie far apart, one after another.
fn check<T: Element + Yields<D>, D: TestElement<Acc = T::Acc>>(
    layouts: Layouts,
    how: How,
    aparts: &[Apart],
) -> std::result::Result<(), String> {
    for &apart in aparts {
        let count = if apart == Apart::Matrices { PRODUCTS } else { 1 };
        let batch = Some(BatchCase { count, shared: [false; 4] });
        let (m, n, k) = SIZE;
        let (alpha, beta) = (ALPHA, BETA);
        let case = Case { batch, alpha, beta, addend: Addend::Matrix, ..Case::product(m, n, k) };
        let operands = case.operands_of::<T, D>(&mut rng(1, 0));
        let run = |apart| bits(&operands, layouts, how, apart);
        let near = run([Apart::Nothing; 4]).map_err(|error| error.to_string())?;
        for (which, name) in ["A", "B", "C", "D"].into_iter().enumerate() {
            let mut all = [Apart::Nothing; 4];
            all[which] = apart;
            let found = run(all).map_err(|error| format!("{apart:?} of {name}: {error}"))?;
            if found != near {
                return Err(format!("{apart:?} of {name} far apart: other bits"));
            }
        }
    }
    Ok(())
}

fn of_kernel<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    kernel: &'static KernelInfo,
) -> std::result::Result<(), String> {
    // Bulk copies take no rows that are not aligned: these are copied before, as are those that are transposed.
    let aparts = match kernel.boxes {
        Some(_) => &[Apart::Rows, Apart::Matrices, Apart::OddRows][..],
        None => &[Apart::Rows, Apart::Matrices],
    };
    check::<T, D>(kernel.layouts, How::Kernel(kernel), aparts)
}

fn of_precision(precision: Precision) -> std::result::Result<(), String> {
    let aparts = [Apart::Rows, Apart::Matrices];
    for layouts in [Layouts::NN, Layouts::TT] {
        check::<f32, f32>(layouts, How::Precision(precision), &aparts)?;
    }
    Ok(())
}
