//! How far off is a product, by precision, data and depth? What an error study is made of.
//!
//! A [`Trial`] is one product on a device with its exact result. Whoever computes it, this library in one of its
//! precisions or somebody else, is measured on the same operands by the same two numbers ([`Errors`]).

use crate::device::Device;
use crate::error::{Error, Result};
use crate::gemm::Gemm;
use crate::matrix::Matrix;
use crate::precision::Precision;
use crate::verify::{
    Comparison, Distribution, Errors, ExactProduct, Problem, check_room, compare, random_matrix,
    rng,
};
use ndarray::Array2;

/// What operands hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    /// Normal with mean 0 and variance 1: sums cancel, and grow with the root of the depth.
    Normal,
    /// Uniform in [0, 1): nothing cancels, and sums grow with the depth.
    Uniform,
    /// Normal, with magnitudes spread over 16 powers of two.
    Wide,
}

impl Data {
    /// All there are.
    pub const ALL: [Data; 3] = [Data::Normal, Data::Uniform, Data::Wide];

    /// Its name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Data::Normal => "normal",
            Data::Uniform => "uniform",
            Data::Wide => "wide",
        }
    }

    /// What it is, in words that fit behind its name.
    pub const fn description(self) -> &'static str {
        match self {
            Data::Normal => "mean 0, variance 1",
            Data::Uniform => "in [0, 1)",
            Data::Wide => "normal times 2^-8 to 2^7",
        }
    }

    /// How elements are drawn.
    pub const fn distribution(self) -> Distribution {
        match self {
            Data::Normal => Distribution::Normal,
            Data::Uniform => Distribution::UnitInterval,
            Data::Wide => Distribution::Wide,
        }
    }
}

/// The precisions of f32 that are ways of computing of their own, each of which has errors of its own.
pub fn precisions() -> impl Iterator<Item = Precision> {
    // One that only chooses among the others would be measured twice, and one of other types is not for a trial: they
    // have `false` here.
    let is_own = |precision: &Precision| match precision {
        Precision::Exact | Precision::Split | Precision::Tf32 | Precision::Fast => true,
        Precision::Auto | Precision::Promoted => false,
    };
    Precision::ALL.into_iter().filter(is_own)
}

/// Whether an error says that the device cannot do what was asked, and not that something has failed.
pub fn is_unavailable(error: &Error) -> bool {
    error.is_misfit()
        || matches!(error, Error::DeviceWithoutPrecision { .. } | Error::Precision { .. })
}

/// Bytes for an element of a factor on the host: as it is drawn, uploaded, widened, and its magnitude.
const BYTES_OF_FACTOR: usize = 24;

/// Bytes for an element of D on the host: as it is read, the exact result and its magnitude, the reference and its
/// bound.
const BYTES_OF_RESULT: usize = 48;

/// Bytes on the host of a product and its exact result.
fn bytes(m: usize, n: usize, k: usize) -> Option<usize> {
    let factors = m.checked_mul(k)?.checked_add(k.checked_mul(n)?)?;
    let results = m.checked_mul(n)?.checked_mul(BYTES_OF_RESULT)?;
    factors.checked_mul(BYTES_OF_FACTOR)?.checked_add(results)
}

/// A product on a device whose exact result is known.
pub struct Trial {
    host_a: Array2<f32>,
    host_b: Array2<f32>,
    exact: ExactProduct,
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: Matrix<f32>,
}

/// What a precision made of a trial.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The kernel that computed it.
    pub kernel: &'static str,
    /// How far off it is.
    pub errors: Errors,
    /// Every element beside its bound in this precision.
    pub comparison: Comparison,
}

impl Trial {
    /// An `m x n x k` product of such data. The same seed gives the same operands on every machine.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`]; where the device has no room for it.
    pub fn new(
        device: &Device,
        data: Data,
        (m, n, k): (usize, usize, usize),
        seed: u64,
    ) -> Result<Trial> {
        check_room(bytes(m, n, k))?;
        let rng = &mut rng(seed, k as u64);
        let host_a = random_matrix(rng, m, k, data.distribution());
        let host_b = random_matrix(rng, k, n, data.distribution());
        Ok(Trial {
            exact: ExactProduct::new(&host_a.view(), &host_b.view()),
            a: device.upload(&host_a.view())?,
            b: device.upload(&host_b.view())?,
            d: device.matrix(m, n)?,
            host_a,
            host_b,
        })
    }

    /// Computes it in a precision, with the kernel that the library chooses.
    ///
    /// # Errors
    /// Those of [`Gemm::run`]; see [`is_unavailable`].
    pub fn in_precision(&mut self, precision: Precision) -> Result<Measured> {
        let (report, errors) =
            self.measure(|a, b, d| Gemm::new(a, b).precision(precision).run(d))?;
        let problem =
            Problem { precision, ..Problem::product(self.host_a.view(), self.host_b.view()) };
        let reference = self.exact.reference(&problem);
        let comparison = compare(&self.d.to_array()?.view(), &reference);
        Ok(Measured { kernel: report.kernel.name, errors, comparison })
    }

    /// Has somebody compute D of A and B, which are packed and row-major. D is NaN before, and read when `compute`
    /// returns.
    ///
    /// # Errors
    /// What `compute` gives, or a failure of the device.
    pub fn measure<R>(
        &mut self,
        compute: impl FnOnce(&Matrix<f32>, &Matrix<f32>, &mut Matrix<f32>) -> Result<R>,
    ) -> Result<(R, Errors)> {
        let poison = Array2::from_elem((self.d.rows(), self.d.cols()), f32::NAN);
        self.d.copy_from(&poison.view())?;
        let answer = compute(&self.a, &self.b, &mut self.d)?;
        Ok((answer, self.exact.errors(&self.d.to_array()?.view())))
    }
}
