//! Products of f32 whose factors are rounded to 11 bits, on the simulator and, where there is one, on a GPU that has
//! what they take.

#[path = "gpu/mod.rs"]
mod gpu;
#[path = "parts/mod.rs"]
mod parts;

use ndarray::{Array2, Array3, s};
use parts::Parts;
use regemm::verify::{
    Distribution, Expectation, Problem, check_batch, exact_reference, random_matrix, rng,
};
use regemm::{Device, Error, Factor, Gemm, KernelChoice, Layout, Precision, Result, bf16, f16};
use std::num::NonZeroU32;

/// A precision that rounds factors.
struct Mode {
    precision: Precision,
    /// What the names of its kernels begin with.
    kernel: &'static str,
    /// How it rounds.
    rounded: fn(f32) -> f32,
    /// Compute capabilities that have it.
    met_by: fn(u32) -> bool,
}

const MODES: [Mode; 2] = [
    Mode {
        precision: Precision::Tf32,
        kernel: "tf32",
        rounded: away_from_zero,
        met_by: |major| major >= 8,
    },
    Mode {
        precision: Precision::Fast,
        kernel: "rounded",
        rounded: to_even,
        met_by: |major| major == 9,
    },
];

/// To 11 bits, and of two that are as near to the one further from zero.
fn away_from_zero(x: f32) -> f32 {
    f32::from_bits((x.to_bits() + HALF) & !(2 * HALF - 1))
}

/// To 11 bits, and of two that are as near to the even one.
fn to_even(x: f32) -> f32 {
    let odd = x.to_bits() >> DROPPED & 1;
    f32::from_bits((x.to_bits() + HALF - 1 + odd) & !(2 * HALF - 1))
}

/// Bits of an f32 that 11 leave out, and a half of the last that is kept.
const DROPPED: u32 = f32::MANTISSA_DIGITS - 11;
const HALF: u32 = 1 << (DROPPED - 1);

/// Each precision with the simulator, and with the first GPU if it has it.
fn modes() -> impl Iterator<Item = (&'static Mode, Device)> {
    MODES.iter().flat_map(|mode| {
        let devices = gpu::with_simulator(mode.precision.name(), |(major, _)| (mode.met_by)(major));
        devices.into_iter().map(move |device| (mode, device))
    })
}

fn random(seed: u64, rows: usize, cols: usize) -> Array2<f32> {
    random_matrix(&mut rng(seed, 0), rows, cols, Distribution::Normal)
}

/// As the factor is stored in a layout.
fn stored(factor: &Array2<f32>, layout: Layout) -> Array2<f32> {
    match layout {
        Layout::RowMajor => factor.clone(),
        Layout::Transposed => factor.t().as_standard_layout().to_owned(),
    }
}

impl Mode {
    fn problem<'a>(&self, a: &'a Array2<f32>, b: &'a Array2<f32>) -> Problem<'a, f32> {
        Problem { precision: self.precision, ..Problem::product(a.view(), b.view()) }
    }

    fn product(&self, device: &Device, a: &Array2<f32>, b: &Array2<f32>) -> Result<Array2<f32>> {
        let mut d = device.matrix(a.nrows(), b.ncols())?;
        let (a, b) = (device.upload(&a.view())?, device.upload(&b.view())?);
        let report = Gemm::new(&a, &b).precision(self.precision).run(&mut d)?;
        assert!(report.kernel.name.starts_with(self.kernel), "{}", report.kernel.name);
        d.to_array()
    }

    fn passes(&self, a: &Array2<f32>, b: &Array2<f32>, d: &Array2<f32>) -> bool {
        let expectation = Expectation::new(self.problem(a, b), 0).unwrap();
        expectation.check(&d.view()).unwrap().pass()
    }
}

/// In double precision, rounded to f32 once.
fn exact(a: &Array2<f32>, b: &Array2<f32>) -> Array2<f32> {
    a.mapv(f64::from).dot(&b.mapv(f64::from)).mapv(|x| x as f32)
}

fn relative_error(found: &Array2<f32>, expected: &Array2<f32>) -> f64 {
    let norm = |values: Array2<f64>| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let (found, expected) = (found.mapv(f64::from), expected.mapv(f64::from));
    norm(found - &expected) / norm(expected)
}

#[test]
fn products_of_all_layouts_and_sizes() -> Result<()> {
    for (mode, device) in modes() {
        for (seed, (m, n, k)) in
            [(1, 1, 1), (64, 64, 64), (130, 131, 70), (7, 260, 33)].into_iter().enumerate()
        {
            let (a, b) = (random(seed as u64, m, k), random(seed as u64 + 100, k, n));
            for (of_a, of_b) in [
                (Layout::RowMajor, Layout::RowMajor),
                (Layout::RowMajor, Layout::Transposed),
                (Layout::Transposed, Layout::RowMajor),
                (Layout::Transposed, Layout::Transposed),
            ] {
                let stored_a = device.upload(&stored(&a, of_a).view())?;
                let stored_b = device.upload(&stored(&b, of_b).view())?;
                let mut d = device.matrix(m, n)?;
                let factors = (Factor::stored(&stored_a, of_a), Factor::stored(&stored_b, of_b));
                let gemm = Gemm::new(factors.0, factors.1).precision(mode.precision);
                let report = gemm.run(&mut d)?;
                assert!(report.kernel.name.starts_with(mode.kernel) && report.launched);
                let why = format!("the kernel for precision {}", mode.precision);
                assert_eq!(report.why.to_string(), why);
                let found = d.to_array()?;
                assert!(mode.passes(&a, &b, &found), "{}, {m} x {n} x {k}", mode.precision);
                let rounded = exact(&a.mapv(mode.rounded), &b.mapv(mode.rounded));
                assert!(relative_error(&found, &rounded) < 1e-6, "it is what was rounded");
            }
        }
    }
    Ok(())
}

/// The product of the rounded factors and of no others: those of f32 are as far away as roundings to 11 bits are, and
/// others that are rounded otherwise.
#[test]
fn errors_are_those_of_eleven_bits() -> Result<()> {
    for (mode, device) in modes() {
        let (a, b) = (random(1, 48, 1024), random(2, 1024, 40));
        let found = mode.product(&device, &a, &b)?;
        let rounded = |round: fn(f32) -> f32| exact(&a.mapv(round), &b.mapv(round));
        assert!(relative_error(&found, &rounded(mode.rounded)) < 4e-6, "{}", mode.precision);
        let error = relative_error(&found, &exact(&a, &b));
        assert!((2e-4..4e-4).contains(&error), "{}: {error:e}", mode.precision);
        let bf16s = rounded(|x| bf16::from_f32(x).to_f32());
        assert!(relative_error(&found, &bf16s) > 1e-3, "{}", mode.precision);
        assert!(mode.passes(&a, &b, &found));
        // 1 and the next two of 11 bits, and what lies between them.
        let ulp = 2f32.powi(-10);
        let between = Array2::from_shape_fn((1, 3), |(_, i)| 1.0 + (i as f32 + 0.5) * ulp);
        let one = Array2::from_elem((1, 1), 1.0);
        let of_a = mode.product(&device, &between.t().to_owned(), &one)?;
        let of_b = mode.product(&device, &one, &between)?;
        let expected: Vec<f32> = between.iter().map(|&x| (mode.rounded)(x)).collect();
        assert_eq!(of_a.into_raw_vec_and_offset().0, expected, "{}", mode.precision);
        assert_eq!(of_b.into_raw_vec_and_offset().0, expected, "{}", mode.precision);
    }
    Ok(())
}

/// The bound is not so wide that 8 bits would do.
#[test]
fn less_accurate_products_fail() {
    for mode in &MODES {
        let (a, b) = (random(7, 40, 1), random(8, 1, 50));
        let passes =
            |round: fn(f32) -> f32| mode.passes(&a, &b, &exact(&a.mapv(round), &b.mapv(round)));
        assert!(passes(|x| x) && passes(mode.rounded) && passes(|x| f16::from_f32(x).to_f32()));
        assert!(!passes(|x| bf16::from_f32(x).to_f32()), "{}", mode.precision);
    }
}

#[test]
fn views_and_epilogues() -> Result<()> {
    for (mode, device) in modes() {
        let parts = Parts::<f32>::new(&device, 65, Distribution::Normal)?;
        let mut d = device.matrix(parts::ROWS, parts::COLS)?;
        parts.gemm()?.precision(mode.precision).run(&mut d)?;
        let expectation = Expectation::new(parts.problem(mode.precision), 0).unwrap();
        let verification = expectation.check(&d.to_array()?.view());
        assert!(verification.unwrap().pass(), "{}", mode.precision);
    }
    Ok(())
}

#[test]
fn batches_with_factors_of_their_own_or_one_for_all() -> Result<()> {
    for (mode, device) in modes() {
        let a = random(5, 3 * 33, 50).into_shape_with_order((3, 33, 50)).unwrap();
        let b = random(6, 3 * 50, 65).into_shape_with_order((3, 50, 65)).unwrap();
        let (batch_a, batch_b) = (device.upload_batch(&a.view())?, device.upload_batch(&b.view())?);
        let one_b = device.upload(&b.slice(s![2, .., ..]))?;
        let check = |shared: bool, d: Array3<f32>| {
            let problems: Vec<_> = (0..3)
                .map(|p| Problem {
                    precision: mode.precision,
                    ..Problem::product(
                        a.slice(s![p, .., ..]),
                        b.slice(s![if shared { 2 } else { p }, .., ..]),
                    )
                })
                .collect();
            assert!(check_batch(&problems, &d.view(), 0).unwrap().pass(), "{}", mode.precision);
        };
        let mut d = device.batch(3, 33, 65)?;
        Gemm::new(&batch_a, &batch_b).precision(mode.precision).run(&mut d)?;
        check(false, d.to_array()?);
        Gemm::new(&batch_a, &one_b).precision(mode.precision).run(&mut d)?;
        check(true, d.to_array()?);
    }
    Ok(())
}

/// More blocks than tiles leave sums to one another, where a kernel has that.
#[test]
fn tiles_that_blocks_share() -> Result<()> {
    for (mode, device) in modes() {
        let (a, b) = (random(11, 40, 300), random(12, 300, 50));
        let (on_device_a, on_device_b) = (device.upload(&a.view())?, device.upload(&b.view())?);
        let mut d = device.matrix(40, 50)?;
        let gemm = Gemm::new(&on_device_a, &on_device_b).precision(mode.precision);
        gemm.slices(NonZeroU32::new(3).unwrap()).run(&mut d)?;
        assert!(mode.passes(&a, &b, &d.to_array()?), "{}", mode.precision);
    }
    Ok(())
}

/// From magnitudes of 1e30 and 1e-30: each row of A and each column of B has its own, and what is an f32 in the end is
/// as accurate as otherwise.
#[test]
fn large_and_tiny_magnitudes() -> Result<()> {
    for (mode, device) in modes() {
        let (mut a, mut b) = (random(13, 6, 40), random(14, 40, 6));
        for i in 0..6 {
            let magnitude = [1e30, 1.0, 1e-30][i % 3];
            a.row_mut(i).mapv_inplace(|x| x * magnitude);
            b.column_mut(i).mapv_inplace(|x| x * [1e-30, 1.0, 1e7][i / 2]);
        }
        let d = mode.product(&device, &a, &b)?;
        assert!(mode.passes(&a, &b, &d), "{}: {d:?}", mode.precision);
        let normal = d.iter().filter(|x| x.is_normal()).count();
        assert!(normal >= 32, "all but those of 1e-60: {normal}");
        let huge = Array2::from_elem((2, 2), 1e30);
        let d = mode.product(&device, &huge, &huge)?;
        assert!(d.iter().all(|&x| x == f32::INFINITY), "{}", mode.precision);
    }
    Ok(())
}

/// Results far from what an f32 can hold, of a factor that is close to that: large A, or large B, beside what makes it
/// smaller again.
#[test]
fn large_magnitudes_beside_smaller_ones() -> Result<()> {
    for (mode, device) in modes() {
        for (k, [large, small]) in [(128, [1e36, 0.05]), (2048, [1e38, 1e-8]), (40, [3e38, 1e-37])]
        {
            let (a, b) = (random(15, 9, k).mapv(f32::abs), random(16, k, 7).mapv(f32::abs));
            let sizes = [large, small];
            for [of_a, of_b] in [sizes, [small, large]] {
                // No larger than that: random numbers go up to some units.
                let [a, b] =
                    [(&a, of_a), (&b, of_b)].map(|(x, size)| x.mapv(|x| x.min(1.0) * size));
                let d = mode.product(&device, &a, &b)?;
                assert!(d.iter().all(|x| x.is_normal()), "{}, {of_a} by {of_b}", mode.precision);
                assert!(mode.passes(&a, &b, &d), "{}, {of_a} by {of_b}", mode.precision);
            }
        }
    }
    Ok(())
}

/// TF32 has fewer numbers below the smallest normal one than f32, and none below 2^-137 but zero.
#[test]
fn subnormal_elements_are_within_the_bound() -> Result<()> {
    for (mode, device) in modes() {
        let a = Array2::from_shape_vec((3, 2), vec![1e-42, 3e-44, 2e-41, 0.0, 1e-42, -4e-42]);
        let a = a.unwrap();
        let b = Array2::from_elem((2, 4), 1e30);
        let d = mode.product(&device, &a, &b)?;
        assert!(mode.passes(&a, &b, &d), "{}: {d:?}", mode.precision);
        // Of an infinity nothing is left either, where what it is multiplied by is rounded to zero.
        let b = Array2::from_elem((2, 4), f32::INFINITY);
        let d = mode.product(&device, &a, &b)?;
        assert!(mode.passes(&a, &b, &d), "{}: {d:?}", mode.precision);
        // What is more than is lost is not within the bound.
        let b = Array2::from_elem((2, 4), 1e30);
        let wrong = mode.product(&device, &(&a * 40.0), &b)?;
        assert!(!mode.passes(&a, &b, &wrong), "{}", mode.precision);
    }
    Ok(())
}

/// TF32 has the exponents of f32: elements of one row need have nothing to do with one another. An f16 of the smaller
/// one would be zero.
#[test]
fn magnitudes_within_a_row() -> Result<()> {
    let a = Array2::from_shape_vec((1, 2), vec![1e25, 1e-25]).unwrap();
    let b = Array2::from_shape_vec((2, 2), vec![1.0, 0.0, 0.0, 1.0]).unwrap();
    let expected = Array2::from_shape_vec((1, 2), vec![1e25, 1e-25]).unwrap();
    for (mode, device) in modes() {
        let d = mode.product(&device, &a, &b)?;
        if mode.precision == Precision::Tf32 {
            assert_eq!(d, expected.mapv(mode.rounded));
            assert!(mode.passes(&a, &b, &d));
        } else {
            assert_eq!(d[[0, 1]], 0.0, "{}", mode.precision);
            assert!(mode.passes(&a, &b, &d), "{}", mode.precision);
        }
    }
    Ok(())
}

/// NaN and infinities spoil their own row and nothing else.
#[test]
fn what_is_not_finite_stays_in_its_row() -> Result<()> {
    for (mode, device) in modes() {
        let (mut a, b) = (random(9, 70, 66), random(10, 66, 40));
        (a[[3, 5]], a[[69, 65]]) = (f32::NAN, f32::INFINITY);
        let d = mode.product(&device, &a, &b)?;
        for (row, of_row) in d.outer_iter().enumerate() {
            let spoilt = row == 3 || row == 69;
            assert!(of_row.iter().all(|x| x.is_finite() != spoilt), "{}: {row}", mode.precision);
        }
        assert!(d.row(3).iter().all(|x| x.is_nan()));
        assert!(d.row(69).iter().all(|x| x.is_infinite()));
    }
    Ok(())
}

#[test]
fn without_depth_or_alpha_factors_do_not_matter() -> Result<()> {
    for (mode, device) in modes() {
        let nan = device.upload(&Array2::from_elem((20, 20), f32::NAN).view())?;
        let mut d = device.matrix(20, 20)?;
        Gemm::new(&nan, &nan).alpha(0.0).precision(mode.precision).run(&mut d)?;
        assert!(d.to_array()?.iter().all(|&x| x == 0.0));
        let (a, b) = (device.matrix::<f32>(20, 0)?, device.matrix::<f32>(0, 20)?);
        Gemm::new(&a, &b).precision(mode.precision).run(&mut d)?;
        assert!(d.to_array()?.iter().all(|&x| x == 0.0));
    }
    Ok(())
}

/// Integers are exact as far as 11 bits hold them, and verification knows how far that is.
#[test]
fn integers_of_eleven_bits_are_exact() -> Result<()> {
    for (mode, device) in modes() {
        let integers = |limit, rows, cols| {
            let distribution = Distribution::Integers { limit };
            random_matrix::<f32>(&mut rng(15, limit.into()), rows, cols, distribution)
        };
        let (a, b) = (integers(2048, 30, 40), integers(100, 40, 30));
        let expected = exact_reference(&mode.problem(&a, &b)).unwrap().expect("they are exact");
        let found = mode.product(&device, &a, &b)?;
        assert!(found.iter().zip(&expected.value).all(|(&x, &y)| f64::from(x) == y));
        let mut larger = a;
        larger[[3, 4]] = 2049.0;
        assert!(exact_reference(&mode.problem(&larger, &b)).unwrap().is_none());
    }
    Ok(())
}

/// For TF32 none; for the others one f16 for each element, and two bytes for each row of A and column of B; all to
/// whole lines of the cache.
#[test]
fn memory_for_rounded_factors() -> Result<()> {
    let device = Device::sim();
    let (a, b) = (device.matrix::<f32>(100, 128)?, device.matrix::<f32>(128, 200)?);
    let mut d = device.matrix(100, 200)?;
    let size = Gemm::new(&a, &b).precision(Precision::Tf32).workspace_size(&mut d)?;
    assert_eq!(size, regemm::WorkspaceSize::default());
    let size = Gemm::new(&a, &b).precision(Precision::Fast).workspace_size(&mut d)?;
    assert_eq!(size.copy_bytes, (100 * 128 + 128 * 256) * size_of::<f16>() as u64 + 256 + 512);
    let workspace = device.workspace(size)?;
    Gemm::new(&a, &b).precision(Precision::Fast).workspace(&workspace).run(&mut d)?;
    Ok(())
}

#[test]
fn precisions_are_for_f32_and_have_kernels_of_their_own() -> Result<()> {
    let device = Device::sim();
    for Mode { precision, kernel, .. } in MODES {
        let a = device.matrix::<f32>(8, 8)?;
        let mut d = device.matrix(8, 8)?;
        let named = KernelChoice::Named("naive".into());
        let error = Gemm::new(&a, &a).precision(precision).kernel(named).run(&mut d).unwrap_err();
        assert!(error.to_string().contains("kernels of its own"), "{error}");
        let halves = device.matrix::<f16>(8, 8)?;
        let mut d = device.matrix(8, 8)?;
        let error = Gemm::new(&halves, &halves).precision(precision).run(&mut d).unwrap_err();
        assert!(matches!(error, Error::Precision { .. }), "{error}");
        assert!(regemm::kernels::find(&format!("{kernel}_f32")).is_err());
    }
    Ok(())
}
