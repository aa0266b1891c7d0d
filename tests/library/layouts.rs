//! Transposed factors: what they mean, which kernels take them, and what is refused.

use crate::{expected, integers, kernel};
use regemm::kernels::{find_in, kernels_for, supports};
use regemm::ndarray::s;
use regemm::{
    Device, Dtype, Error, Factor, Gemm, KernelChoice, Layout, Layouts, Rung, kernels, matmul,
};

const M: usize = 18;
const N: usize = 21;
const K: usize = 5;

#[test]
fn a_transposed_factor_is_read_the_other_way() {
    let device = Device::sim();
    let (a, b) = (integers(M, K, 1), integers(K, N, 2));
    let product = expected(&a.view(), &b.view());
    let (plain_a, plain_b) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let (stored_a, stored_b) = (device.upload(&a.t()).unwrap(), device.upload(&b.t()).unwrap());
    let mut d = device.matrix(M, N).unwrap();
    for layouts in Layouts::ALL {
        let of = |plain, stored, layout| match layout {
            Layout::RowMajor => Factor::from(plain),
            Layout::Transposed => Factor::from(stored).t(),
        };
        let (a, b) = (of(&plain_a, &stored_a, layouts.a), of(&plain_b, &stored_b, layouts.b));
        assert_eq!((a.rows(), a.cols(), b.rows(), b.cols()), (M, K, K, N));
        for name in ["naive", "tiled16", "tiled32"] {
            d.copy_from(&(&product * f32::NAN).view()).unwrap();
            let gemm = Gemm::new(a, b).kernel(KernelChoice::Named(name.to_owned()));
            let report = gemm.run(&mut d).unwrap();
            assert_eq!(report.kernel.layouts, layouts, "{}", report.kernel.name);
            assert!(report.kernel.name.starts_with(name), "{}", report.kernel.name);
            assert_eq!(d.to_array().unwrap(), product, "{}", report.kernel.name);
        }
    }
}

#[test]
fn transposing_twice_is_nothing() {
    let device = Device::sim();
    let a = device.upload(&integers(3, 4, 1).view()).unwrap();
    let twice = a.t().t();
    assert_eq!((twice.layout(), twice.rows(), twice.cols()), (Layout::RowMajor, 3, 4));
    assert_eq!((a.t().layout(), a.t().rows(), a.t().cols()), (Layout::Transposed, 4, 3));
    assert_eq!(Factor::stored(a.t(), Layout::Transposed).layout(), Layout::RowMajor);
}

#[test]
fn parts_of_a_matrix_are_transposed_too() {
    let device = Device::sim();
    let a = integers(9, 11, 1);
    let whole = device.upload(&a.view()).unwrap();
    let (left, right) = (whole.view().slice(1..6, 2..5), whole.view().slice(2..7, 4..11));
    let mut d = device.matrix(3, 7).unwrap();
    let report = Gemm::new(left.unwrap().t(), right.unwrap()).run(&mut d).unwrap();
    let (left, right) = (a.slice(s![1..6, 2..5]), a.slice(s![2..7, 4..11]));
    assert_eq!(d.to_array().unwrap(), expected(&left.t(), &right));
    assert_eq!(report.kernel.layouts, Layouts::TN, "{}", report.why);
}

#[test]
fn a_gram_matrix_needs_one_copy() {
    let device = Device::sim();
    let a = integers(M, K, 1);
    let on_device = device.upload(&a.view()).unwrap();
    let mut d = device.matrix(M, M).unwrap();
    Gemm::new(&on_device, on_device.t()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), matmul(&device, &a.view(), &a.t()).unwrap());
}

#[test]
fn shapes_are_those_of_the_transposes() {
    let device = Device::sim();
    let a = device.matrix::<f32>(K, M).unwrap();
    let b = device.matrix::<f32>(K, N).unwrap();
    let mut d = device.matrix(M, N).unwrap();
    Gemm::new(a.t(), &b).kernel(kernel()).run(&mut d).unwrap();
    let error = Gemm::new(&a, &b).run(&mut d).unwrap_err();
    assert!(error.to_string().contains("B is 5 x 21 but must be 18 x 21"), "{error}");
    let error = Gemm::new(a.t(), b.t()).run(&mut d).unwrap_err();
    assert!(error.to_string().contains("B is 21 x 5 but must be 5 x 5"), "{error}");
}

#[test]
fn the_library_chooses_among_the_kernels_of_the_layouts() {
    let device = Device::sim();
    for layouts in Layouts::ALL {
        for (m, n, k) in [(4, 4, 4), (40, 50, 60), (200, 100, 30)] {
            let a = device.matrix::<f32>(m, k).unwrap();
            let b = device.matrix::<f32>(k, n).unwrap();
            let at = device.matrix::<f32>(k, m).unwrap();
            let bt = device.matrix::<f32>(n, k).unwrap();
            let a = if layouts.a == Layout::RowMajor { Factor::from(&a) } else { at.t() };
            let b = if layouts.b == Layout::RowMajor { Factor::from(&b) } else { bt.t() };
            let mut d = device.matrix(m, n).unwrap();
            let report = Gemm::new(a, b).run(&mut d).unwrap();
            assert_eq!(report.kernel.layouts, layouts, "{}", report.why);
        }
    }
}

#[test]
fn kernels_for_other_layouts_are_refused_with_those_that_fit() {
    let device = Device::sim();
    let a = device.matrix::<f32>(K, M).unwrap();
    let b = device.matrix::<f32>(K, N).unwrap();
    let mut d = device.matrix(M, N).unwrap();
    let choices = [
        (KernelChoice::Named("microkernel".into()), "such as naive_tn_f32"),
        (KernelChoice::Named("tiled16_nt".into()), "such as tiled16_tn_f32, tiled32_tn_f32"),
        (KernelChoice::Info(kernels::find("tiled16_f32").unwrap()), "such as tiled16_tn_f32"),
        (KernelChoice::Rung(Rung::Microkernel), "such as naive_tn_f32"),
    ];
    for (choice, likest) in choices {
        let error = Gemm::new(a.t(), &b).kernel(choice).run(&mut d).unwrap_err();
        let Error::KernelLayouts { expected: Layouts::TN, fitting, .. } = &error else {
            panic!("{error}")
        };
        let of_layouts = kernels_for(Dtype::F32, Layouts::TN).map(|kernel| kernel.name);
        assert_eq!(*fitting, of_layouts.collect::<Vec<_>>());
        assert!(error.to_string().contains(likest), "{error}");
    }
    let report = Gemm::new(a.t(), &b).kernel(KernelChoice::Rung(Rung::Tiled)).run(&mut d).unwrap();
    assert_eq!((report.kernel.rung, report.kernel.layouts), (Rung::Tiled, Layouts::TN));
}

#[test]
fn a_kernel_of_the_problem_is_supported_and_others_are_not() {
    let device = Device::sim();
    let problem = kernels::Problem {
        layouts: Layouts::NT,
        ..kernels::Problem::new(Dtype::F32, 100, 100, 100)
    };
    for kernel in kernels::kernels().iter().filter(|kernel| kernel.dtype == Dtype::F32) {
        let supported = supports(kernel, &problem, device.info()).is_ok();
        assert_eq!(supported, kernel.layouts == Layouts::NT, "{}", kernel.name);
    }
    assert_eq!(find_in("tiled32", Dtype::F32, Layouts::NT).unwrap().name, "tiled32_nt_f32");
    assert_eq!(problem.to_string(), "100 x 100 x 100 f32, nt");
}
