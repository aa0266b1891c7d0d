//! GELU by `tanh`: positive arguments, the tail of negative ones, and the limits.

use crate::{check, spacing_f32, spacing_f64};
use regemm_kernels::epilogue::fast_activation::{SHORT_GELU_TANH_ULPS, short_gelu_tanh};
use regemm_kernels::epilogue::math::{Elementary, GELU_TANH_TAIL, gelu_tanh};

/// The exact value, to a few units in the last place of double precision times `1 + |t|`, and `t`.
fn reference(x: f64) -> (f64, f64) {
    let twice_u = 2.0 * (2.0 / core::f64::consts::PI).sqrt() * (0.044715 * x.powi(3) + x);
    let e = (-twice_u.abs()).exp();
    let weight = if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
    (x * weight, twice_u * core::f64::consts::LOG2_E)
}

/// How many times the bound in ulp an error may be.
fn share(x: f64, t: f64) -> f64 {
    if x < 0.0 { 1.0 + t.abs() } else { 1.0 }
}

#[test]
fn of_single_precision() {
    sweep_f32(gelu_tanh, f32::GELU_TANH_ULPS);
}

#[test]
fn short_form_of_single_precision() {
    sweep_f32(|x| short_gelu_tanh([x, 1.0])[0], SHORT_GELU_TANH_ULPS);
}

/// Values share a reciprocal, and nothing else.
#[test]
fn short_forms_of_two_values_do_not_depend_on_each_other() {
    const ALONE: [f32; 2] = [f32::NAN, f32::NAN];
    for x in [f32::NEG_INFINITY, f32::INFINITY, -0.0, 0.0, -11.0, 1e30] {
        let expected = if x > 0.0 { x } else { 0.0 };
        for other in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -3.0, 3.0] {
            let [first, _] = short_gelu_tanh([x, other]);
            let [_, second] = short_gelu_tanh([other, x]);
            assert_eq!([first, second], [expected; 2], "{x} beside {other}");
        }
    }
    assert!(short_gelu_tanh(ALONE).iter().all(|y| y.is_nan()));
    let [not_a_number, three] = short_gelu_tanh([f32::NAN, 3.0]);
    assert!(not_a_number.is_nan() && (three - gelu_tanh(3.0)).abs() < 1e-6, "{three}");
}

fn sweep_f32(function: impl Fn(f32) -> f32, ulps: f64) {
    /// Prime, so that all patterns of low bits occur at every magnitude.
    const STRIDE: usize = 61;
    let tail = GELU_TANH_TAIL * f64::from(f32::MIN_POSITIVE);
    for bits in (0..=u32::MAX).step_by(STRIDE) {
        let x = f32::from_bits(bits);
        let result = function(x);
        if !x.is_finite() {
            continue;
        }
        let (exact, t) = reference(f64::from(x));
        let error = (f64::from(result) - exact).abs();
        if x < -1.0 && exact > -tail {
            assert!(error <= tail, "gelu_tanh({x:?}) is {result:?}, not {exact:?}");
        } else {
            let bound = ulps * share(f64::from(x), t);
            check("gelu_tanh", x, error / spacing_f32(exact), bound);
        }
    }
}

#[test]
fn of_double_precision() {
    for &[x, high, low] in &EXACT {
        let (_, t) = reference(x);
        let error = ((gelu_tanh(x) - high) - low).abs() / spacing_f64(high);
        check("gelu_tanh", x, error, f64::GELU_TANH_ULPS * share(x, t));
    }
    /// Steps over both signs.
    const STEPS: i32 = 2_000_000;
    /// Of the reference, for each unit of `1 + |t|`.
    const REFERENCE_ULPS: f64 = 9.0;
    for step in -STEPS..=STEPS {
        let x = 21.0 * f64::from(step) / f64::from(STEPS);
        let (exact, t) = reference(x);
        let error = (gelu_tanh(x) - exact).abs() / spacing_f64(exact);
        let bound = f64::GELU_TANH_ULPS * share(x, t) + REFERENCE_ULPS * (1.0 + t.abs());
        check("gelu_tanh", x, error, bound);
    }
}

fn limits<A: Elementary>(largest: A) {
    let of = |x: f64| gelu_tanh(A::constant(x)).to_f64();
    let minus_zero = (-0.0_f64).to_bits();
    assert_eq!(of(f64::INFINITY), f64::INFINITY);
    assert_eq!(of(f64::NEG_INFINITY).to_bits(), 0);
    assert_eq!(of(0.0).to_bits(), 0);
    assert_eq!(of(-0.0).to_bits(), minus_zero);
    for not_a_number in [f64::NAN, -f64::NAN] {
        assert!(of(not_a_number).is_nan());
    }
    // Where the weight is one to the last bit, and where it is zero.
    for x in [A::GELU_TANH_LIMIT, A::constant(1e3), largest] {
        assert_eq!(gelu_tanh(x), x);
        assert_eq!(gelu_tanh(A::mul(x, A::constant(-1.0))), A::ZERO);
    }
    // Near zero the weight is one half.
    for x in [1e-30, -1e-30] {
        assert_eq!(gelu_tanh(A::constant(x)), A::mul(A::constant(x), A::constant(0.5)));
    }
}

#[test]
fn limits_of_single_precision() {
    limits(f32::MAX);
}

#[test]
fn limits_of_double_precision() {
    limits(f64::MAX);
}

/// It falls from zero to its minimum and rises from there.
#[test]
fn it_has_one_minimum() {
    const STEPS_A_UNIT: i32 = 64;
    const MINIMUM: f32 = -0.7525;
    let at = |step: i32| step as f32 / STEPS_A_UNIT as f32;
    for step in -12 * STEPS_A_UNIT..12 * STEPS_A_UNIT {
        let (x, next) = (at(step), at(step + 1));
        if next <= MINIMUM {
            assert!(gelu_tanh(next) <= gelu_tanh(x), "rises after {x}");
        } else if x >= MINIMUM {
            assert!(gelu_tanh(next) > gelu_tanh(x), "falls after {x}");
        }
    }
}

/// Rows of an argument and the exact result as a sum of two numbers, computed with 140 bits (mpmath): of each sign, the
/// first are those where the largest errors were found.
#[rustfmt::skip]
const EXACT: [[f64; 3]; 62] = [
    [0.11425496930855857, 0.062323991989665845, -2.5518348461081614e-18],
    [0.11220600067244263, 0.06111518666968276, -1.7605419508307954e-18],
    [0.059584002816398265, 0.03120750583588423, -8.749408136190426e-19],
    [0.030130357412869624, 0.01542729878003925, 4.0658466375277643e-19],
    [0.029215310545422687, 0.014948117547741837, 3.8462485155453577e-19],
    [0.05874683616168465, 0.030749448543585276, -7.677642568108899e-19],
    [0.05886851403079445, 0.030815990206031565, -7.618895488892047e-19],
    [0.029904535237989194, 0.01530898078049251, -3.802925102017929e-19],
    [0.055103480645209896, 0.02876247033218077, -5.865372958826835e-19],
    [0.05878626425972219, 0.030771009196604075, -5.685351964342482e-19],
    [0.02699176481766153, 0.01378649848536723, -9.940843829888003e-20],
    [0.12935045454512054, 0.07133148797622534, 6.402648881060035e-18],
    [0.11321249215168752, 0.06170856109010015, -2.849195125349366e-18],
    [0.10088301390103371, 0.054494784769615036, -2.26591737005876e-18],
    [0.0973716075800688, 0.052462269325678254, 1.8327753127253783e-18],
    [0.05773027806399203, 0.030193986065216626, 7.380348173078277e-19],
    [0.036226500642842566, 0.018636690893481567, -5.995299344903812e-19],
    [0.11063160325173345, 0.06018860548225351, -9.439307093601688e-19],
    [0.06713349617618368, 0.035363387251002666, -7.153337339350576e-19],
    [0.10943978270720162, 0.05948848163216839, 5.097620689636788e-19],
    [0.0787804989696079, 0.04186366031402749, -3.236778852794727e-19],
    [0.022924878571890146, 0.0116720849701134, -3.7724728408258177e-20],
    [0.1143147081470676, 0.06235928499887383, 8.413904912820739e-21],
    [0.07577393403859682, 0.04017536864649926, 1.512194802220532e-19],
    [0.10135471340026966, 0.054768561741323975, 2.8668425941712337e-19],
    [0.026151680605887045, 0.0133486498264759, 1.0486108342026981e-19],
    [0.7535531059617018, 0.5835126116921413, 8.696413183346924e-18],
    [10.40763495461335, 10.40763495461335, 0.0],
    [10.407488786309038, 10.407488786309038, 0.0],
    [10.40739712270068, 10.40739712270068, 0.0],
    [10.407359175367517, 10.407359175367517, 0.0],
    [-0.03190037411615048, -0.015544279067939459, -6.55985061878553e-19],
    [-0.06556661346342657, -0.03106949562396357, -1.5974037241844706e-18],
    [-0.030099759372887114, -0.014688494609636508, -4.362177950181253e-19],
    [-0.029715002133828543, -0.01450529456205848, -3.960255635584072e-19],
    [-0.03075193004656484, -0.014998752557083743, -4.027680358731132e-19],
    [-0.031997883558756525, -0.015590548955903226, 3.9007906528612803e-19],
    [-0.03137848249830374, -0.015296503792756327, 3.813972965405908e-19],
    [-0.029306862357932957, -0.01431083205953616, 3.1847225760454137e-19],
    [-0.03085758014849833, -0.01504898169765297, -3.224792107274476e-19],
    [-0.03202227784535046, -0.015602123274403492, -3.17428060088589e-19],
    [-0.05665956554962817, -0.027049744140082425, -2.2639376377930463e-19],
    [-0.11563542330681155, -0.05249515741967475, 9.347089131219854e-19],
    [-0.06535165683079289, -0.030973228142745637, -1.5353349794332174e-18],
    [-0.1396975698848595, -0.06208863500225884, 2.1123749235325022e-18],
    [-0.05479809587030282, -0.026201693799104867, -1.3277592876768978e-18],
    [-0.03433744477180782, -0.016698438330076573, 9.656243001555524e-19],
    [-0.3047196489291517, -0.11588444605224418, 5.718462255146819e-19],
    [-11.959763522628096, -5.984910444382944e-61, -1.8142854992838068e-77],
    [-0.04652675446062874, -0.02240008438371854, -7.279498674007528e-19],
    [-8.23195645202423, -8.386726848701806e-23, 3.804729023120344e-39],
    [-0.05287742895035202, -0.02532378504050714, -6.057586175826715e-19],
    [-0.07500002573995018, -0.0352580734009081, -1.43649625878673e-18],
    [-0.05787964507354584, -0.02760409415034111, 5.134312102796986e-19],
    [-1.3342699266191573, -0.1217284848450686, -4.186754156013445e-18],
    [-12.400534851568121, -2.5552238930118964e-67, 6.831371665362906e-84],
    [-0.13618434632278162, -0.06071623768243513, -1.882042206291686e-18],
    [-2.2505091770181105, -0.027170835544500827, -8.694342867864105e-20],
    [-11.639715739155966, -1.3492221414949247e-56, 1.7736562074095927e-75],
    [-0.12141311775047475, -0.05484018015219777, 3.277286919480888e-23],
    [-10.532395074670346, -3.284847148619892e-43, -7.962100906718766e-63],
    [-0.09790399867381872, -0.04513419072853118, 5.134217604187075e-24],
];
