//! Which kernel computes a product, and in which precision.

use super::execute::Plan;
use super::operands::Target;
use super::{Gemm, KernelChoice};
use crate::device::stream::Stream;
use crate::device::{Device, KernelSource, Region};
use crate::error::{Error, Result};
use crate::kernels::{self, Problem, Selection, Types, Why};
use crate::matrix::view::MatrixView;
use crate::precision::Precision;
use crate::tuning::Shape;
use regemm_kernels::element::{Accumulator, Dtype, Element, Yields};

impl<'a, T: Element + Yields<D>, D: Element<Acc = T::Acc>> Gemm<'a, T, D> {
    /// What the product is computed in: as asked for, else as the handle says, which speaks of products that its
    /// precision is for and whose kernel the library chooses.
    pub(super) fn in_precision(&self) -> Precision {
        let types = Types { factors: T::DTYPE, results: D::DTYPE };
        let of_handle = self.device().precision();
        let is_free = matches!(self.kernel, KernelChoice::Auto) && of_handle.is_for(types);
        self.precision.unwrap_or(if is_free { of_handle } else { Precision::Exact })
    }

    /// The kernel, and why this one, for a product on a stream or on none. The operands have been checked.
    pub(super) fn select(
        &self,
        problem: &Problem,
        d: &Target<'_, D>,
        stream: Option<&Stream>,
    ) -> Result<Selection> {
        let device = self.device();
        let precision = self.in_precision();
        is_for(precision, problem)?;
        match precision {
            Precision::Exact => {}
            Precision::Promoted => kernels::precise::check_has_promoting(problem, device.info())?,
            Precision::Auto => {
                if let Some(selection) = self.select_auto(problem)? {
                    return Ok(selection);
                }
            }
            precision => return self.select_precise(precision, problem),
        }
        let named = |name: &str| {
            let kernel = kernels::find_in(name, problem.types(), problem.layouts)?;
            kernels::supports(kernel, problem, device.info())?;
            Ok(Selection { kernel, why: Why::Asked })
        };
        let tuned =
            |rung| device.tuner().select(device, problem, self.shape(problem, d), rung, stream);
        match &self.kernel {
            KernelChoice::Auto => tuned(None),
            KernelChoice::Rung(rung) => tuned(Some(*rung)),
            KernelChoice::Named(name) => named(name),
            // Anyone can make a value of this type, so only its name is trusted.
            KernelChoice::Info(info) => named(info.name),
        }
    }

    /// The kernel of a product that need not be exact.
    fn select_precise(&self, precision: Precision, problem: &Problem) -> Result<Selection> {
        let info = self.device().info();
        let chosen = |rung| {
            let kernel = kernels::precise::choose(precision, problem, info, rung)?;
            Ok(Selection { kernel, why: Why::Precision(precision) })
        };
        let named = |name: &str| {
            let kernel = kernels::precise::find(precision, name, problem, info)?;
            Ok(Selection { kernel, why: Why::Asked })
        };
        match &self.kernel {
            KernelChoice::Auto => chosen(None),
            KernelChoice::Rung(rung) => chosen(Some(*rung)),
            KernelChoice::Named(name) => named(name),
            KernelChoice::Info(info) => named(info.name),
        }
    }

    /// The kernel by halves that leaves a product to an exact one if the data ask for that; none where it is exact in
    /// any case.
    fn select_auto(&self, problem: &Problem) -> Result<Option<Selection>> {
        let precision = Precision::Auto;
        if !matches!(self.kernel, KernelChoice::Auto) {
            let remedy = kernels::precise::OWN_KERNELS;
            return Err(Error::Precision { precision, with: "a choice of kernel", remedy });
        }
        let problem = self.without_factors_of_zero(*problem);
        let either = kernels::weigh(&problem, self.device().info(), self.any_size).ok();
        let why = Why::Precision(precision);
        Ok(either.map(|either| Selection { kernel: either.split, why }))
    }

    /// All that a launch needs to know, with this kernel for this problem.
    pub(super) fn plan(
        &self,
        Selection { kernel, why }: Selection,
        problem: Problem,
        epilogue_operands: Vec<Region<'a>>,
    ) -> Plan<'a, T> {
        let weighed = || kernels::weigh(&problem, self.device().info(), self.any_size).ok();
        let (precision, if_marked) = match self.in_precision() {
            Precision::Auto => (Precision::Exact, weighed().map(|either| either.exact)),
            precision => (precision, None),
        };
        Plan {
            kernel: KernelSource::embedded(kernel),
            why,
            problem,
            precision,
            if_marked,
            record: self.record,
            a: self.a,
            b: self.b,
            slices: self.slices,
            workspace: self.workspace,
            epilogue_operands,
            epilogue_results: Vec::new(),
        }
    }

    /// The problem that is computed: without depth where alpha is zero. The kernel would read A and B to multiply the
    /// sum by zero, and NaN would stay NaN.
    pub(super) fn without_factors_of_zero(&self, problem: Problem) -> Problem {
        if self.alpha == T::Acc::ZERO { Problem { k: 0, ..problem } } else { problem }
    }

    /// What the time of the product depends on. The operands have been checked.
    fn shape(&self, problem: &Problem, d: &Target<'_, D>) -> Shape {
        fn has_vectors<T: Element>(view: MatrixView<'_, T>) -> bool {
            Shape::has_vectors(T::DTYPE, view.address(), view.cols(), view.ld())
        }
        let Problem { m, n, k, .. } = *problem;
        let factors = [self.a.stored.first, self.b.stored.first];
        let aligned = factors.into_iter().all(has_vectors) && has_vectors(d.first.view());
        Shape { m, n, k, aligned }
    }

    pub(super) fn device(&self) -> &'a Device {
        self.a.device()
    }
}

fn is_for(precision: Precision, problem: &Problem) -> Result<()> {
    if precision.is_for(problem.types()) {
        return Ok(());
    }
    let (with, remedy) = match precision {
        Precision::Promoted if problem.target != Dtype::F32 => (
            "results of this element type",
            "it is for factors of f16 or bf16 with results of f32 (`Gemm::widening`); others are right in precision exact",
        ),
        Precision::Promoted => {
            ("these element types", "it is for products of f16 or bf16 with results of f32")
        }
        _ => ("these element types", "it is for products of f32"),
    };
    Err(Error::Precision { precision, with, remedy })
}
