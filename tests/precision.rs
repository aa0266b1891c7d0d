//! Products in other precisions, all but one of f32, on the simulator and, where there is one, on a GPU that has what
//! they take.

#[path = "precision/auto.rs"]
mod auto;
#[path = "gpu/mod.rs"]
mod gpu;
#[path = "precision/handle.rs"]
mod handle;
#[path = "precision/kept.rs"]
mod kept;
#[path = "parts/mod.rs"]
mod parts;
#[path = "precision/promoted.rs"]
mod promoted;

use ndarray::{Array2, Array3, s};
use parts::Parts;
use regemm::accuracy::{Data, Trial};
use regemm::verify::{Distribution, Expectation, Problem, check_batch, random_matrix, rng};
use regemm::{
    Activation, BiasAxis, Device, Error, Gemm, KernelChoice, Layout, Precision, Result, f16,
    kernels,
};
use std::num::NonZeroU32;

/// The simulator, and the first GPU if it has tensor cores for f16.
fn devices() -> Vec<Device> {
    gpu::with_simulator("precisions", |(major, _)| major >= 8)
}

fn has_warpgroups(device: &Device) -> bool {
    device.info().compute_capability.is_none_or(|(major, _)| major == 9)
}

/// What can be asked for, and the family of kernels that there is then.
fn choices(device: &Device) -> Vec<(KernelChoice, &'static str)> {
    let named = |name: &'static str| (KernelChoice::Named(name.into()), name);
    let mut choices = vec![(KernelChoice::Auto, "warp_halves"), named("warp_halves")];
    if has_warpgroups(device) {
        // Which of its kernels is chosen depends on how many multiprocessors there are.
        choices[0].1 = "halves";
        choices.push(named("split_halves"));
    }
    choices
}

fn random(seed: u64, rows: usize, cols: usize) -> Array2<f32> {
    random_matrix(&mut rng(seed, 0), rows, cols, Distribution::Uniform)
}

/// As the factor is stored in a layout.
fn stored<T: Clone>(factor: &Array2<T>, layout: Layout) -> Array2<T> {
    match layout {
        Layout::RowMajor => factor.clone(),
        Layout::Transposed => factor.t().as_standard_layout().to_owned(),
    }
}

fn split<'a>(a: &'a Array2<f32>, b: &'a Array2<f32>) -> Problem<'a, f32> {
    Problem { precision: Precision::Split, ..Problem::product(a.view(), b.view()) }
}

fn split_by<'a>(gemm: Gemm<'a, f32>, choice: &KernelChoice) -> Gemm<'a, f32> {
    gemm.precision(Precision::Split).kernel(choice.clone())
}

fn assert_right(problem: Problem<'_, f32>, d: &Array2<f32>) {
    let expectation = Expectation::new(problem, 0).unwrap();
    let verification = expectation.check(&d.view()).unwrap();
    assert!(verification.pass(), "{verification:?}");
}

#[test]
fn products_of_all_layouts_and_sizes() -> Result<()> {
    for device in devices() {
        for (seed, (m, n, k)) in
            [(1, 1, 1), (64, 64, 64), (130, 131, 132), (7, 300, 129), (300, 5, 500)]
                .into_iter()
                .enumerate()
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
                let factor = |matrix, layout| regemm::Factor::stored(matrix, layout);
                for (choice, family) in choices(&device) {
                    let mut d = device.matrix(m, n)?;
                    let gemm = Gemm::new(factor(&stored_a, of_a), factor(&stored_b, of_b));
                    let why = match choice {
                        KernelChoice::Auto => "the kernel for precision split",
                        _ => "asked for",
                    };
                    let report = gemm.precision(Precision::Split).kernel(choice).run(&mut d)?;
                    let name = report.kernel.name;
                    assert!(name.contains(family), "{name}");
                    assert_eq!(name.contains("warp"), family.contains("warp"), "{name}");
                    assert!(report.launched && report.why.to_string().contains(why));
                    assert_right(split(&a, &b), &d.to_array()?);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn views_and_epilogues() -> Result<()> {
    for device in devices() {
        let parts = Parts::<f32>::new(&device, 65, Distribution::Uniform)?;
        let mut d = device.matrix(parts::ROWS, parts::COLS)?;
        for (choice, _) in choices(&device) {
            split_by(parts.gemm()?, &choice).run(&mut d)?;
            assert_right(parts.problem(Precision::Split), &d.to_array()?);
        }
    }
    Ok(())
}

/// Slices of K that do not divide it, by blocks that share a tile: all that an epilogue does, products of a batch, rows
/// of magnitudes far from one, and the same bits each time.
#[test]
fn products_in_slices_of_k() -> Result<()> {
    for device in devices().into_iter().filter(has_warpgroups) {
        let (a, b, c) = (random(21, 2 * 30, 300), random(22, 2 * 300, 70), random(23, 30, 70));
        let (mut a, bias) = (a, random(24, 1, 30).into_raw_vec_and_offset().0);
        a.row_mut(3).mapv_inplace(|x| x * 1e30);
        a.row_mut(4).mapv_inplace(|x| x * 1e-30);
        let a = a.into_shape_with_order((2, 30, 300)).unwrap();
        let b = b.into_shape_with_order((2, 300, 70)).unwrap();
        let (batch_a, batch_b) = (device.upload_batch(&a.view())?, device.upload_batch(&b.view())?);
        let (on_device_c, on_device_bias) = (device.upload(&c.view())?, device.vector(&bias)?);
        let gemm = || {
            Gemm::new(&batch_a, &batch_b)
                .alpha(0.5)
                .c(-2.0, &on_device_c)
                .bias_per_row(&on_device_bias)
                .activation(Activation::Relu)
                .precision(Precision::Split)
                .kernel(KernelChoice::Named("split_halves".into()))
                .slices(NonZeroU32::new(3).unwrap())
        };
        let problem = |p| Problem {
            c: Some(c.view()),
            bias: Some((BiasAxis::Row, &bias)),
            alpha: 0.5,
            beta: -2.0,
            activation: Activation::Relu,
            precision: Precision::Split,
            ..Problem::product(a.slice(s![p, .., ..]), b.slice(s![p, .., ..]))
        };
        let mut d = device.batch(2, 30, 70)?;
        assert_eq!(gemm().workspace_size(&mut d)?.partial_bytes, 2 * 3 * 30 * 72 * 4);
        gemm().run(&mut d)?;
        let first = d.to_array()?;
        assert!(check_batch(&[problem(0), problem(1)], &first.view(), 0).unwrap().pass());
        gemm().run(&mut d)?;
        assert!(d.to_array()? == first);
    }
    Ok(())
}

#[test]
fn batches_with_factors_of_their_own_or_one_for_all() -> Result<()> {
    for device in devices() {
        let a = random(5, 4 * 33, 50).into_shape_with_order((4, 33, 50)).unwrap();
        let b = random(6, 4 * 50, 65).into_shape_with_order((4, 50, 65)).unwrap();
        let (batch_a, batch_b) = (device.upload_batch(&a.view())?, device.upload_batch(&b.view())?);
        let one_b = device.upload(&b.slice(s![2, .., ..]))?;
        let check = |shared: bool, d: Array3<f32>| {
            let problems: Vec<_> = (0..4)
                .map(|p| Problem {
                    precision: Precision::Split,
                    ..Problem::product(
                        a.slice(s![p, .., ..]),
                        b.slice(s![if shared { 2 } else { p }, .., ..]),
                    )
                })
                .collect();
            assert!(check_batch(&problems, &d.view(), 0).unwrap().pass());
        };
        let mut d = device.batch(4, 33, 65)?;
        for (choice, _) in choices(&device) {
            split_by(Gemm::new(&batch_a, &batch_b), &choice).run(&mut d)?;
            check(false, d.to_array()?);
            split_by(Gemm::new(&batch_a, &one_b), &choice).run(&mut d)?;
            check(true, d.to_array()?);
        }
    }
    Ok(())
}

/// The bound is not so wide that rounding both factors to f16 would do, nor TF32, nor leaving out the low halves of
/// one.
#[test]
fn less_accurate_products_fail() {
    let (m, n, k) = (40, 50, 256);
    let (a, b) = (random(7, m, k), random(8, k, n));
    let tf32 = |x: f32| f32::from_bits((x.to_bits() + (1 << 12)) & !((1 << 13) - 1));
    let half = |x: f32| f16::from_f32(x).to_f32();
    let product = |a: &Array2<f32>, b: &Array2<f32>| {
        a.mapv(f64::from).dot(&b.mapv(f64::from)).mapv(|x| x as f32)
    };
    let passes = |d: Array2<f32>| {
        Expectation::new(split(&a, &b), 0).unwrap().check(&d.view()).unwrap().pass()
    };
    assert!(passes(product(&a, &b)));
    assert!(!passes(product(&a.mapv(tf32), &b.mapv(tf32))));
    assert!(!passes(product(&a.mapv(half), &b.mapv(half))));
    assert!(!passes(product(&a, &b.mapv(half))));
}

/// In norm and element by element, for all kinds of data: those of f32 are of sums in the order of k.
#[test]
fn errors_are_no_larger_than_those_of_f32() -> Result<()> {
    for device in devices() {
        for data in Data::ALL {
            let mut trial = Trial::new(&device, data, (32, 48, 512), 1)?;
            let split = trial.in_precision(Precision::Split)?;
            assert!(split.comparison.pass(), "{data:?}: {split:?}");
            let naive = KernelChoice::Named("naive".into());
            let (_, f32) = trial.measure(|a, b, d| Gemm::new(a, b).kernel(naive).run(d))?;
            let split = split.errors;
            assert!(
                split.in_norm > 0.0 && split.in_norm <= f32.in_norm,
                "{data:?}: {split:?}, {f32:?}"
            );
            assert!(split.componentwise <= f32.componentwise, "{data:?}: {split:?}, {f32:?}");
        }
    }
    Ok(())
}

/// What is not computed is no number, also where the trial held a result before.
#[test]
fn a_trial_takes_no_old_result() -> Result<()> {
    let mut trial = Trial::new(&Device::sim(), Data::Normal, (3, 4, 5), 1)?;
    assert!(trial.in_precision(Precision::Exact)?.errors.in_norm < 1e-6);
    let ((), errors) = trial.measure(|_, _, _| Ok(()))?;
    assert!(errors.in_norm.is_nan() && errors.componentwise.is_nan(), "{errors:?}");
    Ok(())
}

/// NaN and infinities spoil their own row or column and nothing else.
#[test]
fn what_is_not_finite_stays_in_its_row() -> Result<()> {
    for device in devices() {
        let (mut a, b) = (random(9, 70, 66), random(10, 66, 40));
        (a[[3, 5]], a[[69, 65]]) = (f32::NAN, f32::INFINITY);
        let (on_device_a, on_device_b) = (device.upload(&a.view())?, device.upload(&b.view())?);
        let mut d = device.matrix(70, 40)?;
        for (choice, family) in choices(&device) {
            split_by(Gemm::new(&on_device_a, &on_device_b), &choice).run(&mut d)?;
            for (row, of_row) in d.to_array()?.outer_iter().enumerate() {
                let spoilt = row == 3 || row == 69;
                assert!(of_row.iter().all(|x| x.is_finite() != spoilt), "{family}, row {row}");
            }
        }
    }
    Ok(())
}

#[test]
fn without_depth_or_alpha_nothing_is_split() -> Result<()> {
    for device in devices() {
        let nan = device.upload(&Array2::from_elem((20, 20), f32::NAN).view())?;
        let mut d = device.matrix(20, 20)?;
        Gemm::new(&nan, &nan).alpha(0.0).precision(Precision::Split).run(&mut d)?;
        assert!(d.to_array()?.iter().all(|&x| x == 0.0));
        let (a, b) = (device.matrix::<f32>(20, 0)?, device.matrix::<f32>(0, 20)?);
        Gemm::new(&a, &b).precision(Precision::Split).run(&mut d)?;
        assert!(d.to_array()?.iter().all(|&x| x == 0.0));
    }
    Ok(())
}

/// As much as both factors have, and two bytes for each row of A and column of B; all to whole lines of the cache.
#[test]
fn memory_for_halves_can_be_given() -> Result<()> {
    let device = Device::sim();
    let (a, b) = (device.matrix::<f32>(100, 128)?, device.matrix::<f32>(128, 200)?);
    let mut d = device.matrix(100, 200)?;
    let gemm = || Gemm::new(&a, &b).precision(Precision::Split);
    let size = gemm().workspace_size(&mut d)?;
    let halves = (100 * 128 + 128 * 256) * size_of::<f32>() as u64;
    assert_eq!(size.copy_bytes, halves + 256 + 512);
    assert_eq!(Gemm::new(&a, &b).workspace_size(&mut d)?.copy_bytes, 0);
    let workspace = device.workspace(size)?;
    gemm().workspace(&workspace).run(&mut d)?;
    let less =
        device.workspace(regemm::WorkspaceSize { copy_bytes: size.copy_bytes - 1, ..size })?;
    let error = gemm().workspace(&less).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::WorkspaceTooSmall { .. }), "{error}");
    Ok(())
}

#[test]
fn precisions_are_for_f32_and_have_kernels_of_their_own() -> Result<()> {
    let device = Device::sim();
    let a = device.matrix::<f32>(8, 8)?;
    let mut d = device.matrix(8, 8)?;
    let named = KernelChoice::Named("naive".into());
    let error =
        Gemm::new(&a, &a).precision(Precision::Split).kernel(named).run(&mut d).unwrap_err();
    assert!(error.to_string().contains("kernels of its own"), "{error}");
    let halves = device.matrix::<f16>(8, 8)?;
    let mut d = device.matrix(8, 8)?;
    let error = Gemm::new(&halves, &halves).precision(Precision::Split).run(&mut d).unwrap_err();
    assert!(
        matches!(error, Error::Precision { .. }) && error.to_string().contains("f32"),
        "{error}"
    );
    assert!(kernels::find("halves_f32").is_err(), "it does not give what others give");
    Ok(())
}
