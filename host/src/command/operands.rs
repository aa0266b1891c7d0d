//! The operands of `regemm mul`: from files to matrices whose types and shapes fit.

use super::exit::Failure;
use super::load::{Loaded, Stored, load, numpy_name};
use clap::ValueEnum;
use ndarray::{Array1, Array2, ArrayD, Ix2};
use regemm::{Accumulator, BiasAxis, Dtype, Element};
use std::path::Path;

/// `--bias-axis`
#[derive(Clone, Copy, ValueEnum)]
pub enum Axis {
    /// One element a column of D
    Column,
    /// One element a row of D
    Row,
}

/// The files that hold the operands.
#[derive(Clone, Copy)]
pub struct Files<'p> {
    pub a: &'p Path,
    pub b: &'p Path,
    pub c: Option<&'p Path>,
    pub bias: Option<&'p Path>,
    pub bias_axis: Option<Axis>,
}

/// What the files hold, all of one element type.
pub struct Contents<'p> {
    files: Files<'p>,
    dtype: Dtype,
    a: Loaded,
    b: Loaded,
    c: Option<(&'p Path, Loaded)>,
    bias: Option<(&'p Path, Loaded)>,
}

/// The operands in the type that is computed in, with shapes that fit.
pub struct Operands<T> {
    /// `m x k`
    pub a: Array2<T>,
    /// `k x n`
    pub b: Array2<T>,
    /// `m x n`
    pub c: Option<Array2<T>>,
    /// `n` or `m` elements
    pub bias: Option<(BiasAxis, Vec<T>)>,
    /// What is unusual about the elements, a line a file.
    pub warnings: Vec<String>,
}

impl<'p> Files<'p> {
    /// All files that there are.
    pub fn paths(&self) -> Vec<&'p Path> {
        [Some(self.a), Some(self.b), self.c, self.bias].into_iter().flatten().collect()
    }

    /// Reads the files.
    pub fn load(self) -> Result<Contents<'p>, Failure> {
        let a = load(self.a)?;
        let dtype = a.dtype();
        let load_alike = |path: &'p Path| {
            let loaded = load(path)?;
            if loaded.dtype() == dtype {
                return Ok(loaded);
            }
            let (found, wanted) = (numpy_name(loaded.dtype()), numpy_name(dtype));
            let problem = format!(
                "holds {found}, but {} holds {wanted}; save x.astype(np.{wanted})",
                self.a.display()
            );
            Err(Failure::file(path, problem))
        };
        let with_path = |path: &'p Path| load_alike(path).map(|loaded| (path, loaded));
        Ok(Contents {
            files: self,
            dtype,
            a,
            b: load_alike(self.b)?,
            c: self.c.map(with_path).transpose()?,
            bias: self.bias.map(with_path).transpose()?,
        })
    }
}

impl Contents<'_> {
    /// The element type of the files.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The operands in type `T`, converted from the type `S` of the files.
    pub fn into_operands<S, T>(self) -> Result<Operands<T>, Failure>
    where
        S: Stored,
        T: Element<Acc = S::Acc>,
    {
        let Files { a: a_path, b: b_path, bias_axis, .. } = self.files;
        let a = matrix::<S>(a_path, self.a)?;
        let b = matrix::<S>(b_path, self.b)?;
        let ((m, k), n) = (a.dim(), b.ncols());
        if b.nrows() != k {
            let (rows, a_path) = (b.nrows(), a_path.display());
            let problem =
                format!("is {rows} x {n} but must have {k} rows, because {a_path} is {m} x {k}");
            return Err(Failure::file(b_path, problem));
        }
        let mut warnings = Vec::new();
        let c = match self.c {
            Some((path, c)) => {
                let c = matrix::<S>(path, c)?;
                if c.dim() != (m, n) {
                    let (rows, cols) = c.dim();
                    let problem = format!("is {rows} x {cols} but must be {m} x {n} like D");
                    return Err(Failure::file(path, problem));
                }
                Some(convert(path, c, &mut warnings))
            }
            None => None,
        };
        let bias = match self.bias {
            Some((path, bias)) => {
                let bias = vector::<S>(path, bias)?;
                let axis = choose_axis(bias_axis, path, bias.len(), m, n)?;
                Some((axis, convert(path, bias, &mut warnings).to_vec()))
            }
            None => None,
        };
        let a = convert(a_path, a, &mut warnings);
        let b = convert(b_path, b, &mut warnings);
        Ok(Operands { a, b, c, bias, warnings })
    }
}

/// The elements in another type, with a warning where some are no finite numbers.
fn convert<S, T, D>(
    path: &Path,
    array: ndarray::Array<S, D>,
    warnings: &mut Vec<String>,
) -> ndarray::Array<T, D>
where
    S: Element,
    T: Element<Acc = S::Acc>,
    D: ndarray::Dimension,
{
    let (mut not_finite, mut overflowed) = (0usize, 0usize);
    let converted = array.mapv(|element| {
        let wide = element.widen();
        let narrow = T::narrow(wide);
        if !wide.to_f64().is_finite() {
            not_finite += 1;
        } else if !narrow.widen().to_f64().is_finite() {
            overflowed += 1;
        }
        narrow
    });
    let path = path.display();
    if not_finite > 0 {
        warnings.push(format!("{path}: {not_finite} elements are NaN or infinite"));
    }
    if overflowed > 0 {
        warnings.push(format!("{path}: {overflowed} elements are infinite as {}", T::DTYPE));
    }
    converted
}

/// The array as one of the type that all files were found to hold.
fn typed<S: Stored>(path: &Path, loaded: Loaded) -> Result<ArrayD<S>, Failure> {
    let found = numpy_name(loaded.dtype());
    S::take(loaded).ok_or_else(|| Failure::file(path, format!("holds {found}")))
}

fn matrix<S: Stored>(path: &Path, loaded: Loaded) -> Result<Array2<S>, Failure> {
    let array = typed::<S>(path, loaded)?;
    let shape = array.shape().to_vec();
    array.into_dimensionality::<Ix2>().map_err(|_| {
        let remedy = match shape.len() {
            1 => "; save x[None, :] for a row or x[:, None] for a column",
            _ => "",
        };
        let count = shape.len();
        let problem = format!("has {count} dimensions {shape:?} but a matrix has 2{remedy}");
        Failure::file(path, problem)
    })
}

/// A vector, or a matrix of one row or column.
fn vector<S: Stored>(path: &Path, loaded: Loaded) -> Result<Array1<S>, Failure> {
    let array = typed::<S>(path, loaded)?;
    let shape = array.shape().to_vec();
    let long = shape.iter().filter(|&&len| len != 1).count();
    if shape.is_empty() || long > 1 {
        let problem = format!("has shape {shape:?} but a bias is a vector; save x.ravel()");
        return Err(Failure::file(path, problem));
    }
    Ok(Array1::from_iter(array.iter().copied()))
}

/// The axis that was asked for, or the only one along which the bias fits.
fn choose_axis(
    asked: Option<Axis>,
    path: &Path,
    len: usize,
    m: usize,
    n: usize,
) -> Result<BiasAxis, Failure> {
    let misfit =
        |wanted: String| Err(Failure::file(path, format!("has {len} elements but D has {wanted}")));
    match asked {
        Some(Axis::Column) if len == n => Ok(BiasAxis::Column),
        Some(Axis::Column) => misfit(format!("{n} columns")),
        Some(Axis::Row) if len == m => Ok(BiasAxis::Row),
        Some(Axis::Row) => misfit(format!("{m} rows")),
        None if len == n && len == m => Err(Failure::Usage(format!(
            "D is {m} x {n}, so the bias in {} could run either way: say --bias-axis column (one \
             element a column) or --bias-axis row",
            path.display()
        ))),
        None if len == n => Ok(BiasAxis::Column),
        None if len == m => Ok(BiasAxis::Row),
        None => misfit(format!("{n} columns and {m} rows")),
    }
}
