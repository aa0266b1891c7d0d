//! The parts of a product, each alone: what they mean, and the rules about zeros.

use crate::{expected, integers, kernel};
use regemm::ndarray::{Array2, array};
use regemm::{Activation, Device, Gemm, KernelChoice, Matrix, Rung, kernels, matmul};

const M: usize = 18;
const N: usize = 21;
const K: usize = 5;

struct Operands {
    device: Device,
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: Matrix<f32>,
    product: Array2<f32>,
}

fn operands() -> Operands {
    let device = Device::sim();
    let (a, b) = (integers(M, K, 1), integers(K, N, 2));
    Operands {
        a: device.upload(&a.view()).unwrap(),
        b: device.upload(&b.view()).unwrap(),
        d: device.matrix(M, N).unwrap(),
        product: expected(&a.view(), &b.view()),
        device,
    }
}

#[test]
fn the_one_liner() {
    let (a, b) = (integers(M, K, 1), integers(K, N, 2));
    let d = matmul(&Device::sim(), &a.view(), &b.view()).unwrap();
    assert_eq!(d, expected(&a.view(), &b.view()));
    let transposed = matmul(&Device::sim(), &b.t(), &a.t()).unwrap();
    assert_eq!(transposed, d.t());
}

#[test]
fn alpha_scales() {
    let Operands { a, b, mut d, product, .. } = operands();
    Gemm::new(&a, &b).alpha(-2.0).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), product * -2.0);
}

#[test]
fn c_is_added_and_left_alone() {
    let Operands { device, a, b, mut d, product } = operands();
    let c = integers(M, N, 3);
    let dc = device.upload(&c.view()).unwrap();
    Gemm::new(&a, &b).c(0.5, &dc).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), product + &c * 0.5);
    assert_eq!(dc.to_array().unwrap(), c);
}

#[test]
fn d_is_accumulated() {
    let Operands { a, b, mut d, product, .. } = operands();
    let before = integers(M, N, 3);
    d.copy_from(&before.view()).unwrap();
    Gemm::new(&a, &b).accumulate(2.0).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), product + before * 2.0);
}

#[test]
fn a_bias_runs_along_either_axis() {
    let Operands { device, a, b, mut d, product } = operands();
    let (rows, cols) = (integers(M, 1, 4), integers(1, N, 5));
    let per_row = device.vector(rows.as_slice().unwrap()).unwrap();
    let per_column = device.vector(cols.as_slice().unwrap()).unwrap();
    Gemm::new(&a, &b).bias_per_row(&per_row).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), &product + &rows);
    Gemm::new(&a, &b)
        .bias_per_row(&per_row)
        .bias_per_column(&per_column)
        .kernel(kernel())
        .run(&mut d)
        .unwrap();
    assert_eq!(d.to_array().unwrap(), &product + &cols, "the later call replaces the earlier one");
}

#[test]
fn an_activation_comes_last() {
    let Operands { device, a, b, mut d, product } = operands();
    let bias = device.vector(&[1.0; N]).unwrap();
    Gemm::new(&a, &b)
        .bias_per_column(&bias)
        .activation(Activation::LeakyRelu)
        .leaky_slope(0.25)
        .kernel(kernel())
        .run(&mut d)
        .unwrap();
    let leaky = |x: f32| if x < 0.0 { 0.25 * x } else { x };
    assert_eq!(d.to_array().unwrap(), (product + 1.0).mapv(leaky));
}

#[test]
fn beta_zero_does_not_read_c() {
    let Operands { device, a, b, mut d, product } = operands();
    let c = device.upload(&Array2::from_elem((M, N), f32::NAN).view()).unwrap();
    Gemm::new(&a, &b).c(0.0, &c).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), product);
    d.copy_from(&Array2::from_elem((M, N), f32::NAN).view()).unwrap();
    let report = Gemm::new(&a, &b).accumulate(0.0).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), product);
    assert_eq!(report.counters.unwrap().global_load_elements, (2 * M * N * K) as u64);
}

#[test]
fn alpha_zero_does_not_read_a_or_b() {
    let Operands { device, mut a, b, mut d, .. } = operands();
    a.copy_from(&Array2::from_elem((M, K), f32::NAN).view()).unwrap();
    let c = integers(M, N, 3);
    let dc = device.upload(&c.view()).unwrap();
    let gemm = Gemm::new(&a, &b).alpha(0.0).c(1.0, &dc).kernel(kernel());
    let report = gemm.run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), c);
    assert_eq!(report.counters.unwrap().global_load_elements, (M * N) as u64);
}

#[test]
fn a_product_of_depth_zero_is_zero() {
    let device = Device::sim();
    let a = device.matrix::<f32>(M, 0).unwrap();
    let b = device.matrix::<f32>(0, N).unwrap();
    let mut d = device.matrix(M, N).unwrap();
    let bias = device.vector(&[-3.0; N]).unwrap();
    let report = Gemm::new(&a, &b).bias_per_column(&bias).run(&mut d).unwrap();
    assert!(report.launched);
    assert_eq!(d.to_array().unwrap(), Array2::from_elem((M, N), -3.0));
}

#[test]
fn a_result_without_elements_launches_nothing() {
    let device = Device::sim();
    for (m, n) in [(0, N), (M, 0), (0, 0)] {
        let a = device.matrix::<f32>(m, K).unwrap();
        let b = device.matrix::<f32>(K, n).unwrap();
        let mut d = device.matrix(m, n).unwrap();
        let report = Gemm::new(&a, &b).run(&mut d).unwrap();
        assert!(!report.launched && report.counters.is_none());
    }
}

#[test]
fn factors_that_are_not_finite_do_what_ieee_754_says() {
    let device = Device::sim();
    let one = device.upload(&array![[1.0f32, 0.0]].view()).unwrap();
    let values = device.upload(&array![[2.0f32, -2.0, 0.0], [0.0, 0.0, 0.0]].view()).unwrap();
    let mut d = device.matrix(1, 3).unwrap();
    Gemm::new(&one, &values).alpha(f32::INFINITY).kernel(kernel()).run(&mut d).unwrap();
    let result = d.to_vec().unwrap();
    assert_eq!(result[..2], [f32::INFINITY, f32::NEG_INFINITY]);
    assert!(result[2].is_nan());
    Gemm::new(&one, &values).alpha(f32::NAN).kernel(kernel()).run(&mut d).unwrap();
    assert!(d.to_vec().unwrap().iter().all(|x| x.is_nan()));
}

#[test]
fn every_way_to_name_a_kernel() {
    let Operands { a, b, mut d, product, .. } = operands();
    let choices = [
        KernelChoice::Named("naive".into()),
        KernelChoice::Named("naive_f32".into()),
        KernelChoice::Rung(Rung::Naive),
        KernelChoice::Info(kernels::find("naive_f32").unwrap()),
        KernelChoice::Auto, // the product is shallow
    ];
    for choice in choices {
        let report = Gemm::new(&a, &b).kernel(choice).run(&mut d).unwrap();
        assert_eq!(report.kernel.name, "naive_f32");
        assert!(report.launched && !report.why.to_string().is_empty());
        assert_eq!(d.to_array().unwrap(), product);
    }
}
