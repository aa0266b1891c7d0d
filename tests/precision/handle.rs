//! A precision that the handle of a device says.

use super::{devices, random};
use ndarray::Array2;
use regemm::{
    Computed, Device, Error, Gemm, KernelChoice, Matrix, Precision, Report, Result, bf16, matmul,
};

const OTHERS: [Precision; 3] = [Precision::Split, Precision::Tf32, Precision::Fast];

/// Deep enough for halves.
fn factor(device: &Device) -> Result<Matrix<f32>> {
    device.upload(&random(1, 24, 130).view())
}

/// A by its transpose.
fn run<'a>(
    a: &'a Matrix<f32>,
    change: impl FnOnce(Gemm<'a, f32>) -> Gemm<'a, f32>,
) -> Result<Report> {
    change(Gemm::new(a, a.t())).run(&mut a.device().matrix(a.rows(), a.rows())?)
}

#[test]
fn products_that_ask_for_nothing_are_computed_as_the_handle_says() -> Result<()> {
    for exact in devices() {
        let before = factor(&exact)?;
        for precision in OTHERS {
            let device = exact.clone().with_precision(precision);
            for device in [&device, &device.clone()] {
                assert_eq!(device.precision(), precision);
                assert_eq!(run(&factor(device)?, |gemm| gemm)?.computed, Computed::In(precision));
            }
            // Other handles are not changed, nor is what was made by them. A's counts.
            let (mut d, b) = (device.matrix(24, 24)?, factor(&device)?);
            let report = Gemm::new(&before, b.t()).run(&mut d)?;
            assert_eq!(report.computed, Computed::In(Precision::Exact));
            let report = Gemm::new(&b, before.t()).run(&mut d)?;
            assert_eq!(report.computed, Computed::In(precision));
        }
        assert_eq!(exact.precision(), Precision::Exact);
    }
    Ok(())
}

#[test]
fn a_product_may_ask_for_another_precision_or_for_a_kernel() -> Result<()> {
    let a = factor(&Device::sim().with_precision(Precision::Split))?;
    for precision in OTHERS.into_iter().chain([Precision::Exact]) {
        let report = run(&a, |gemm| gemm.precision(precision))?;
        assert_eq!(report.computed, Computed::In(precision));
    }
    // A kernel computes as it does.
    let report = run(&a, |gemm| gemm.kernel(KernelChoice::Named("tiled16".into())))?;
    assert_eq!(report.kernel.name, "tiled16_nt_f32");
    assert_eq!(report.computed, Computed::In(Precision::Exact));
    let named = KernelChoice::Named("halves".to_owned());
    let refused = run(&a, |gemm| gemm.kernel(named));
    assert!(
        matches!(refused, Err(Error::KernelOfPrecision { precision: Precision::Split, .. })),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn auto_of_a_handle_looks_at_the_data() -> Result<()> {
    let device = Device::sim().with_precision(Precision::Auto);
    let mut data = random(1, 24, 130);
    let tame = device.upload(&data.view())?;
    data[[3, 5]] = f32::INFINITY;
    let wild = device.upload(&data.view())?;
    let way = |a| Ok::<_, Error>(run(a, Gemm::auto_at_any_size)?.computed);
    assert_eq!(way(&tame)?, Computed::In(Precision::Split));
    assert_eq!(way(&wild)?, Computed::In(Precision::Exact));
    Ok(())
}

#[test]
fn factors_that_are_kept_in_halves_alone_need_no_more_than_the_handle() -> Result<()> {
    let device = Device::sim().with_precision(Precision::Split);
    let (a, b) = (factor(&device)?, factor(&device)?);
    let (mut d, mut same) = (device.matrix(24, 24)?, device.matrix(24, 24)?);
    Gemm::new(&device.split_left(&a)?, b.t()).run(&mut d)?;
    Gemm::new(&a, b.t()).run(&mut same)?;
    assert_eq!(d.to_array()?, same.to_array()?);
    let of_exact = Device::clone(&device).with_precision(Precision::Exact).split_left(&a)?;
    assert!(matches!(Gemm::new(&of_exact, b.t()).run(&mut d), Err(Error::Precision { .. })));
    Ok(())
}

#[test]
fn other_element_types_do_not_ask_the_handle() -> Result<()> {
    let device = Device::sim().with_precision(Precision::Fast);
    let ones = Array2::from_elem((3, 70), bf16::from_f32(1.0));
    assert_eq!(matmul(&device, &ones.view(), &ones.t())?[[2, 2]], bf16::from_f32(70.0));
    let ones = Array2::from_elem((3, 70), 1.0f64);
    assert_eq!(matmul(&device, &ones.view(), &ones.t())?[[2, 2]], 70.0);
    // Only f32 is rounded: 2^-12 is lost by f16 beside 1.
    let ones = Array2::from_elem((3, 70), 1.0f32 + 1.0 / 4096.0);
    assert_eq!(matmul(&device, &ones.view(), &Array2::ones((70, 3)).view())?[[2, 2]], 70.0);
    Ok(())
}
