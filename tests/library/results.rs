//! Results of f32 where factors are of f16 or bf16: how they are asked for, that nothing rounds them, and which kernel
//! is chosen.

use crate::integers;
use regemm::gpus;
use regemm::kernels::{Problem, Types, choose, find, kernels, kernels_for};
use regemm::ndarray::{Array2, Array3, Axis};
use regemm::tuning::Shape;
use regemm::tuning::explain::explain_shipped;
use regemm::verify::{Distribution, random_matrix, rng};
use regemm::{
    Activation, Device, DeviceInfo, Dtype, Element, Error, Gemm, KernelChoice, KernelInfo, Layouts,
    Rung, Summation, Yields, bf16, f16,
};

const WIDE: Types = Types { factors: Dtype::Bf16, results: Dtype::F32 };

fn wide(dtype: Dtype) -> Types {
    Types { factors: dtype, results: Dtype::F32 }
}

fn relative_error<T: Element<Acc = f32>>(d: &Array2<T>, exact: &Array2<f64>) -> f64 {
    let error = d.mapv(|value| f64::from(value.widen())) - exact;
    (error.mapv(|e| e * e).sum() / exact.mapv(|e| e * e).sum()).sqrt()
}

/// The same factors twice: results of f32 are three orders of magnitude closer to the exact ones than those of bf16 can
/// be.
fn are_not_rounded<T: Element<Acc = f32> + Yields<f32>>(kernel: &str) {
    const ULPS_OF_HALVES: f64 = 1.0 / 64.0;
    let (m, n, k) = (50, 70, 40);
    let device = Device::sim();
    let a: Array2<T> = random_matrix(&mut rng(1, 0), m, k, Distribution::Normal);
    let b: Array2<T> = random_matrix(&mut rng(2, 0), k, n, Distribution::Normal);
    let exact = a.mapv(|x| f64::from(x.widen())).dot(&b.mapv(|x| f64::from(x.widen())));
    let (a, b) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let (mut short, mut long) =
        (device.matrix::<T>(m, n).unwrap(), device.matrix::<f32>(m, n).unwrap());
    let choice = || KernelChoice::Named(kernel.to_owned());
    Gemm::new(&a, &b).kernel(choice()).run(&mut short).unwrap();
    let report = Gemm::widening(&a, &b).kernel(choice()).run(&mut long).unwrap();
    assert_eq!(Types::of(report.kernel), wide(T::DTYPE));
    let short = relative_error(&short.to_array().unwrap(), &exact);
    let long = relative_error(&long.to_array().unwrap(), &exact);
    assert!(long < short * ULPS_OF_HALVES, "{kernel}: {long:e} beside {short:e}");
    assert!(long < 1e-6, "{kernel}: {long:e}");
}

#[test]
fn results_are_not_rounded_to_halves_on_the_way() {
    for kernel in ["naive", "tensor_core", "tensor_core64", "warpgroup", "split_warpgroup64"] {
        are_not_rounded::<bf16>(kernel);
        are_not_rounded::<f16>(kernel);
    }
}

/// Tensor cores cut sums off, by more the deeper a product is; in narrow tiles threads take over what they have added
/// up before that shows.
#[test]
fn sums_of_narrow_tiles_are_added_up_in_f32() {
    let (m, n, k) = (130, 72, 2048);
    let device = Device::sim();
    let a: Array2<bf16> = random_matrix(&mut rng(1, 0), m, k, Distribution::Normal);
    let b: Array2<bf16> = random_matrix(&mut rng(2, 0), k, n, Distribution::Normal);
    let exact = a.mapv(f64::from).dot(&b.mapv(f64::from));
    let (a, b) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let error = |kernel: &str| {
        let mut d = device.matrix::<f32>(m, n).unwrap();
        let gemm = Gemm::widening(&a, &b).kernel(KernelChoice::Named(kernel.to_owned()));
        gemm.run(&mut d).unwrap();
        relative_error(&d.to_array().unwrap(), &exact)
    };
    let cut_off = error("warpgroup");
    assert!(cut_off > 1.5e-6, "the simulator cuts off, too: {cut_off:e}");
    let of_types =
        |k: &&KernelInfo| (k.dtype, k.target, k.layouts) == (Dtype::Bf16, Dtype::F32, Layouts::NN);
    let promotes = |k: &&KernelInfo| k.summation == Summation::Promoted;
    let names = kernels().iter().filter(of_types).filter(promotes).map(|kernel| kernel.name);
    let names: Vec<_> = names.collect();
    for wanted in ["warpgroup128", "warpgroup_pair128", "cluster_split64", "split_warpgroup64"] {
        assert!(names.iter().any(|name| name.starts_with(wanted)), "{wanted}: {names:?}");
    }
    for kernel in names {
        let promoted = error(kernel);
        assert!(promoted < 2.5e-7, "{kernel}: {promoted:e} beside {cut_off:e}");
    }
}

#[test]
fn c_and_bias_are_of_the_type_of_d() {
    let device = Device::sim();
    let halves = |rows, cols, seed| integers(rows, cols, seed).mapv(bf16::from_f32);
    let (a, b) = (halves(9, 8, 1), halves(8, 12, 2));
    let product = integers(9, 8, 1).dot(&integers(8, 12, 2));
    // No bf16, and with a sum no f16 either.
    let third = 1.0f32 / 3.0;
    let c = device.upload(&Array2::from_elem((9, 12), third).view()).unwrap();
    let bias = device.vector(&[1e-3f32; 12]).unwrap();
    let (a, b) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let mut d = device.matrix::<f32>(9, 12).unwrap();
    let gemm = Gemm::widening(&a, &b).alpha(0.5).c(3.0, &c).bias_per_column(&bias);
    gemm.activation(Activation::Relu).run(&mut d).unwrap();
    let addend = 3.0f32.mul_add(third, 1e-3);
    assert_eq!(d.to_array().unwrap(), product.mapv(|sum| 0.5f32.mul_add(sum, addend).max(0.0)));
    Gemm::widening(&a, &b).alpha(0.0).accumulate(2.0).run(&mut d).unwrap();
    let twice = product.mapv(|sum| 2.0 * 0.5f32.mul_add(sum, addend).max(0.0));
    assert_eq!(d.to_array().unwrap(), twice);
}

#[test]
fn batches_of_transposed_factors_whose_rows_are_odd() {
    let device = Device::sim();
    let all = Array3::from_shape_fn((3, 33, 21), |(i, row, col)| {
        f16::from_f32(((i * 5 + row * 3 + col * 7) % 9) as f32 - 4.0)
    });
    let one = integers(21, 35, 4).mapv(f16::from_f32);
    let (batch, shared) =
        (device.upload_batch(&all.view()).unwrap(), device.upload(&one.t()).unwrap());
    let mut d = device.batch::<f32>(3, 33, 35).unwrap();
    for name in ["warpgroup64", "tensor_core64", "split_warpgroup128", "naive"] {
        let gemm = Gemm::widening(&batch, shared.t()).kernel(KernelChoice::Named(name.into()));
        let report = gemm.run(&mut d).unwrap();
        assert_eq!(report.kernel.name, format!("{name}_nt_f16_f32"));
        assert_eq!(report.repacked.is_nothing(), report.kernel.boxes.is_none());
        let found = d.to_array().unwrap();
        for (i, found) in found.axis_iter(Axis(0)).enumerate() {
            let a = all.index_axis(Axis(0), i).mapv(f32::from);
            assert_eq!(found, a.dot(&one.mapv(f32::from)), "{name}");
        }
    }
}

#[test]
fn kernels_for_other_results_are_refused_by_both_types() {
    let device = Device::sim();
    let a = device.upload(&Array2::from_elem((4, 4), bf16::ONE).view()).unwrap();
    let mut d = device.matrix::<f32>(4, 4).unwrap();
    let named = |name: &str| Gemm::widening(&a, &a).kernel(KernelChoice::Named(name.into()));
    let error = named("tensor_core_bf16").run(&mut d).unwrap_err();
    assert!(
        matches!(&error, Error::KernelDtype { found, expected: WIDE, .. } if *found == Dtype::Bf16.into()),
        "{error}"
    );
    for words in ["tensor_core_bf16", "of bf16 but", "of bf16 with results of f32"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    let short = Gemm::new(&a, &a).kernel(KernelChoice::Info(find("naive_bf16_f32").unwrap()));
    let mut of_halves = device.matrix::<bf16>(4, 4).unwrap();
    let error = short.run(&mut of_halves).unwrap_err();
    assert!(matches!(error, Error::KernelDtype { found: WIDE, .. }), "{error}");
    let error = named("pipelined").run(&mut d).unwrap_err();
    let others = error.to_string();
    assert!(
        others.contains("`pipelined` for matrices of bf16 with results of f32, only for f32, "),
        "{others}"
    );
    // There is no such rung for results of f32.
    let tiled = Gemm::widening(&a, &a).kernel(KernelChoice::Rung(Rung::Tiled));
    let error = tiled.run(&mut d).unwrap_err();
    assert!(matches!(error, Error::RungWithoutDtype { expected: WIDE, .. }), "{error}");
}

#[test]
fn the_choice_is_by_times_of_such_kernels() {
    let h200 = gpus::find("h200").unwrap().info();
    for (m, n, k) in [(4096, 4096, 4096), (8192, 8192, 8192), (1, 8192, 8192), (300, 500, 4000)] {
        for layouts in Layouts::ALL {
            let plain = Problem::packed(Dtype::Bf16, (m, n, k), layouts);
            let problem = Problem { target: Dtype::F32, ..plain };
            let by_rule = choose(&problem, &h200, None).unwrap().kernel;
            assert_eq!((Types::of(by_rule), by_rule.layouts), (WIDE, layouts));
            let shape = Shape::packed(Dtype::Bf16, m, n, k);
            let explained = explain_shipped(&h200, &problem, shape);
            let chosen = explained.selection.unwrap().kernel;
            assert_eq!((Types::of(chosen), chosen.layouts), (WIDE, layouts));
            assert_ne!(chosen.rung, Rung::Naive, "{problem}");
            assert_eq!(explained.ranking.len(), kernels_for(WIDE, layouts).count());
        }
    }
    let large = Problem { target: Dtype::F32, ..Problem::new(Dtype::F16, 4096, 4096, 4096) };
    let shape = Shape::packed(Dtype::F16, 4096, 4096, 4096);
    let selection = explain_shipped(&h200, &large, shape).selection.unwrap();
    assert!(!selection.to_string().contains("the twin of"), "{selection}");
    let transposed = Problem { layouts: Layouts::NT, ..large };
    let selection = explain_shipped(&h200, &transposed, shape).selection.unwrap();
    let said = selection.to_string();
    assert!(said.contains("shipped for this GPU, of this very shape"), "{selection}");
    assert!(!said.contains("the twin of"), "{selection}");
}

/// By times of kernels that promote, or by rule among them; never by that of another, and where K is no deeper than
/// what they take over at once by those of all of warpgroups.
#[test]
fn the_choice_in_precision_promoted_is_among_those_that_promote() {
    let h200 = gpus::find("h200").unwrap().info();
    let shapes = [
        (4096, 4096, 4096),
        (8192, 8192, 8192),
        (1, 8192, 8192),
        (300, 500, 4000),
        (16, 4096, 14336),
        (100, 100, 999),
    ];
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for (m, n, k) in shapes {
            for (layouts, batch) in Layouts::ALL.into_iter().flat_map(|l| [(l, 1), (l, 140)]) {
                let plain = Problem::packed(dtype, (m, n, k), layouts);
                let (target, promoted) = (Dtype::F32, true);
                let problem = Problem { target, promoted, batch, matrices: [batch; 2], ..plain };
                let by_rule = choose(&problem, &h200, None).unwrap();
                let explained = explain_shipped(&h200, &problem, Shape::packed(dtype, m, n, k));
                let is_tuned = explained.not_tuned().is_none();
                let selection = explained.selection.unwrap();
                for selection in [by_rule, selection] {
                    assert_eq!(selection.kernel.summation, Summation::Promoted, "{selection}");
                    assert_eq!(selection.kernel.layouts, layouts, "{selection}");
                    let why = selection.why.to_string();
                    assert!(why.starts_with("of those that promote their sums: "), "{why}");
                }
                let refused = |kernel: &KernelInfo| kernel.summation != Summation::Promoted;
                let ranking = &explained.ranking;
                assert!(
                    ranking.iter().all(|other| other.refusal.is_some() == refused(other.kernel))
                );
                assert_eq!(is_tuned, batch == 1, "{problem}");
            }
        }
    }
    let shallow = Problem { target: Dtype::F32, ..Problem::new(Dtype::Bf16, 4096, 4096, 256) };
    let shape = Shape::packed(Dtype::Bf16, 4096, 4096, 256);
    let chosen = |promoted| {
        let explained = explain_shipped(&h200, &Problem { promoted, ..shallow }, shape);
        explained.selection.unwrap().kernel.name
    };
    assert_eq!(chosen(true), chosen(false));
}

/// Where rows lie at odd places the vendor's sums are cut off less than those of tiles that do not promote.
#[test]
fn deep_products_of_repacked_factors_with_results_of_f32_are_promoted_unasked() {
    let chosen = |device: &DeviceInfo, target, dtype, (m, n, k), layouts| {
        let problem = Problem { target, ..Problem::packed(dtype, (m, n, k), layouts) };
        let shape = Shape::packed_in(layouts, dtype, m, n, k);
        let by_times = explain_shipped(device, &problem, shape).selection.unwrap();
        [choose(&problem, device, None).unwrap(), by_times]
    };
    let h200 = gpus::find("h200").unwrap().info();
    let odd = [(4097, 4097, 4097), (5003, 5003, 5003), (4095, 4097, 4093), (4096, 4096, 4095)];
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for (shape, layouts) in odd.into_iter().flat_map(|odd| Layouts::ALL.map(|l| (odd, l))) {
            // Of a K of 4095 rows along k alone are at odd places.
            let repacks = !Problem::packed(dtype, shape, layouts).repack.is_nothing();
            for selection in chosen(&h200, Dtype::F32, dtype, shape, layouts) {
                let promotes = selection.kernel.summation == Summation::Promoted;
                assert_eq!(promotes, repacks, "{shape:?} {layouts}: {selection}");
                // The fastest of all may be one that promotes.
                let why = selection.why.to_string();
                assert!(promotes || !why.starts_with("of those"), "{why}");
            }
            // Rounding leaves nothing of what is cut off.
            for selection in chosen(&h200, dtype, dtype, shape, layouts) {
                assert_eq!(selection.kernel.summation, Summation::Warpgroups, "{selection}");
            }
        }
        // Shallow ones, and those that bulk copies take as they are, are as fast as can be.
        for shape in [(4096, 4096, 4096), (4097, 4097, 2047), (8192, 8192, 8192)] {
            for selection in chosen(&h200, Dtype::F32, dtype, shape, Layouts::NN) {
                assert_eq!(selection.kernel.summation, Summation::Warpgroups, "{selection}");
            }
        }
        // What does not go through tensor cores needs no promotion, and other GPUs have none.
        let [row, by_times] = chosen(&h200, Dtype::F32, dtype, (1, 8191, 8191), Layouts::NN);
        assert_ne!(row.kernel.summation, Summation::Warpgroups, "{row}");
        assert_ne!(by_times.kernel.summation, Summation::Warpgroups, "{by_times}");
        let ampere = gpus::find("a100-40gb").unwrap().info();
        for selection in chosen(&ampere, Dtype::F32, dtype, (4097, 4097, 4097), Layouts::NN) {
            assert_eq!(selection.kernel.summation, Summation::TensorCores, "{selection}");
        }
    }
    let problem = Problem { target: Dtype::F32, ..Problem::new(Dtype::Bf16, 4097, 4097, 4097) };
    let batch = Problem { batch: 3, matrices: [3; 2], ..problem };
    let of_batch = choose(&batch, &h200, None).unwrap();
    assert_eq!(of_batch.kernel.summation, Summation::Promoted, "{of_batch}");
    let of_rung = choose(&problem, &h200, Some(Rung::Warpgroup)).unwrap();
    assert_eq!(of_rung.kernel.summation, Summation::Warpgroups, "a rung is kept to: {of_rung}");
}

/// Few elements take small tiles, though rows must be repacked for all of them.
#[test]
fn small_products_in_precision_promoted_have_small_tiles() {
    let h200 = gpus::find("h200").unwrap().info();
    for (m, n, k) in [(5, 9, 7), (60, 50, 70), (100, 100, 301), (33, 33, 2001)] {
        let plain = Problem::new(Dtype::Bf16, m, n, k);
        let problem = Problem { target: Dtype::F32, promoted: true, ..plain };
        let selection = choose(&problem, &h200, None).unwrap();
        let tile = selection.kernel.tile;
        assert!(tile.bm * tile.bn <= 128 * 64, "{problem}: {selection}");
    }
}

/// The memory of choices tells results apart.
#[test]
fn both_results_of_one_product_in_turn() {
    let device = Device::sim();
    let a = device.upload(&Array2::from_elem((20, 20), bf16::ONE).view()).unwrap();
    let (mut short, mut long) =
        (device.matrix::<bf16>(20, 20).unwrap(), device.matrix::<f32>(20, 20).unwrap());
    for _ in 0..2 {
        let found = Gemm::new(&a, &a).run(&mut short).unwrap().kernel;
        assert_eq!(Types::of(found), Dtype::Bf16.into());
        let found = Gemm::widening(&a, &a).run(&mut long).unwrap().kernel;
        assert_eq!(Types::of(found), WIDE);
    }
    assert_eq!(long.to_array().unwrap(), Array2::from_elem((20, 20), 20.0));
}
