//! The operands of `regemm mul`: from files to matrices whose types and shapes fit.

use super::exit::Failure;
use super::load::{Loaded, Stored, load, numpy_name};
use super::output::many;
use clap::ValueEnum;
use ndarray::{Array2, Array3, ArrayD, ArrayView2, Axis as ArrayAxis, Ix3};
use regemm::verify::check_room;
use regemm::{Accumulator, BiasAxis, Dtype, Element, Layout, Layouts};
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
    /// How A and B lie in their files.
    pub layouts: Layouts,
}

/// What the files hold: A and B of one element type, C and the bias of one, mostly the same.
pub struct Contents<'p> {
    files: Files<'p>,
    dtype: Dtype,
    a: Loaded,
    b: Loaded,
    c: Option<(&'p Path, Loaded)>,
    bias: Option<(&'p Path, Loaded)>,
}

/// The operands in the types that are computed in, with shapes that fit.
pub struct Operands<T, D> {
    /// Rows of D, columns of D, and the depth of the product.
    pub shape: (usize, usize, usize),
    /// The number of products, if it is a batch.
    pub count: Option<usize>,
    /// How A and B are stored.
    pub layouts: Layouts,
    /// `m x k`, or `k x m` if it is stored transposed.
    pub a: Matrices<T>,
    /// `k x n`, or `n x k` if it is stored transposed.
    pub b: Matrices<T>,
    /// `m x n`
    pub c: Option<Matrices<D>>,
    /// A row of `n` or `m` elements.
    pub bias: Option<(BiasAxis, Matrices<D>)>,
    /// What is unusual about the elements, a line a file.
    pub warnings: Vec<String>,
}

/// One matrix, or a batch of them.
pub struct Matrices<T> {
    /// Matrices, rows, columns.
    pub array: Array3<T>,
    /// Whether there is one for each product.
    pub batch: bool,
}

impl<T> Matrices<T> {
    /// The matrix of a product.
    pub fn of_product(&self, index: usize) -> ArrayView2<'_, T> {
        self.array.index_axis(ArrayAxis(0), if self.batch { index } else { 0 })
    }

    /// The matrix of a product, as it is multiplied.
    pub fn factor(&self, index: usize, layout: Layout) -> ArrayView2<'_, T> {
        match layout {
            Layout::RowMajor => self.of_product(index),
            Layout::Transposed => self.of_product(index).reversed_axes(),
        }
    }

    fn count(&self) -> Option<usize> {
        self.batch.then_some(self.array.dim().0)
    }
}

impl<'p> Files<'p> {
    /// All files that there are.
    pub fn paths(&self) -> Vec<&'p Path> {
        [Some(self.a), Some(self.b), self.c, self.bias].into_iter().flatten().collect()
    }

    /// Reads the files. C and the bias must be of the type of `results` if one is given, else of that of A.
    pub fn load(self, results: Option<Dtype>) -> Result<Contents<'p>, Failure> {
        let a = load(self.a)?;
        let dtype = a.dtype();
        let load_as = |path: &'p Path, wanted: Dtype| {
            let loaded = load(path)?;
            if loaded.dtype() == wanted {
                return Ok(loaded);
            }
            let (found, name) = (numpy_name(loaded.dtype()), numpy_name(wanted));
            let because = if wanted == dtype {
                format!("{} holds {name}", self.a.display())
            } else {
                format!("results are to be {name}")
            };
            let problem = format!("holds {found}, but {because}; save x.astype(np.{name})");
            Err(Failure::file(path, problem))
        };
        let load_alike = |path: &'p Path| load_as(path, dtype);
        let with_path =
            |path: &'p Path| load_as(path, results.unwrap_or(dtype)).map(|loaded| (path, loaded));
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

/// Which operands take part: what is multiplied by zero does not.
#[derive(Clone, Copy)]
pub struct Read {
    /// A and B.
    pub factors: bool,
    /// C.
    pub c: bool,
}

impl Contents<'_> {
    /// The element type of A and B in files.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// A and B in type `T`, converted from the type `S` of the files, and C and the bias in type `D`, converted from
    /// `R`. Of what is not read nothing is said.
    pub fn into_operands<S, T, R, D>(self, read: Read) -> Result<Operands<T, D>, Failure>
    where
        S: Stored,
        T: Element<Acc = S::Acc>,
        R: Stored,
        D: Element<Acc = R::Acc>,
    {
        let Files { a: a_path, b: b_path, bias_axis, layouts, .. } = self.files;
        let a = matrices::<S>(a_path, self.a)?;
        let b = matrices::<S>(b_path, self.b)?;
        let shape = |matrices: &Matrices<S>, layout: Layout| {
            let (_, rows, cols) = matrices.array.dim();
            layout.stored(rows, cols)
        };
        let ((m, k), (b_rows, n)) = (shape(&a, layouts.a), shape(&b, layouts.b));
        if b_rows != k {
            let transposed = |layout| match layout {
                Layout::RowMajor => "",
                Layout::Transposed => " when transposed",
            };
            let (of_a, of_b) = (transposed(layouts.a), transposed(layouts.b));
            let a_path = a_path.display();
            let problem = format!(
                "is {b_rows} x {n}{of_b} but must have {k} rows, because {a_path} is {m} x {k}{of_a}"
            );
            return Err(Failure::file(b_path, problem));
        }
        let mut batch = Batch::default();
        batch.agree(a_path, &a)?;
        batch.agree(b_path, &b)?;
        let (mut warnings, mut of_unread) = (Vec::new(), Vec::new());
        let c = match self.c {
            Some((path, c)) => {
                let c = matrices::<R>(path, c)?;
                let (_, rows, cols) = c.array.dim();
                if (rows, cols) != (m, n) {
                    let problem = format!("is {rows} x {cols} but must be {m} x {n} like D");
                    return Err(Failure::file(path, problem));
                }
                batch.agree(path, &c)?;
                Some(convert(path, c, if read.c { &mut warnings } else { &mut of_unread })?)
            }
            None => None,
        };
        let bias = match self.bias {
            Some((path, bias)) => {
                let bias = vectors::<R>(path, bias, batch.first.map(|(_, count)| count))?;
                batch.agree(path, &bias)?;
                let axis = choose_axis(bias_axis, path, bias.array.dim().2, m, n)?;
                Some((axis, convert(path, bias, &mut warnings)?))
            }
            None => None,
        };
        let of_factors = if read.factors { &mut warnings } else { &mut of_unread };
        let a = convert(a_path, a, of_factors)?;
        let b = convert(b_path, b, of_factors)?;
        let count = batch.first.map(|(_, count)| count);
        Ok(Operands { shape: (m, n, k), count, layouts, a, b, c, bias, warnings })
    }
}

impl<T, D> Operands<T, D> {
    /// Multiply-adds of all products.
    pub fn multiply_adds(&self) -> f64 {
        let (m, n, k) = self.shape;
        self.count.unwrap_or(1) as f64 * m as f64 * n as f64 * k as f64
    }
}

/// The number of products, by the first file that holds a batch.
#[derive(Default)]
struct Batch<'p> {
    first: Option<(&'p Path, usize)>,
}

impl<'p> Batch<'p> {
    /// Checks that a file holds one matrix or as many as the others.
    fn agree<S>(&mut self, path: &'p Path, matrices: &Matrices<S>) -> Result<(), Failure> {
        match (self.first, matrices.count()) {
            (Some((first, wanted)), Some(count)) if count != wanted => {
                let problem =
                    format!("is a batch of {count}, but {} is one of {wanted}", first.display());
                Err(Failure::file(path, problem))
            }
            (None, Some(count)) => {
                self.first = Some((path, count));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The elements in another type, with a warning where some are no finite numbers.
fn convert<S, T>(
    path: &Path,
    matrices: Matrices<S>,
    warnings: &mut Vec<String>,
) -> Result<Matrices<T>, Failure>
where
    S: Element,
    T: Element<Acc = S::Acc>,
{
    // What is of that type already stays where it is.
    if S::DTYPE != T::DTYPE {
        check_room(matrices.array.len().checked_mul(size_of::<T>()))?;
    }
    let (mut not_finite, mut overflowed) = (0usize, 0usize);
    let array = matrices.array.mapv_into_any(|element| {
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
        warnings.push(format!("{path}: {} NaN or infinite", elements_are(not_finite)));
    }
    if overflowed > 0 {
        warnings.push(format!("{path}: {} infinite as {}", elements_are(overflowed), T::DTYPE));
    }
    Ok(Matrices { array, batch: matrices.batch })
}

/// That so many elements are something.
fn elements_are(number: usize) -> String {
    format!("{} {}", many(number as u64, "element"), if number == 1 { "is" } else { "are" })
}

/// The array as one of the type that all files were found to hold.
fn typed<S: Stored>(path: &Path, loaded: Loaded) -> Result<ArrayD<S>, Failure> {
    let found = numpy_name(loaded.dtype());
    S::take(loaded).ok_or_else(|| Failure::file(path, format!("holds {found}")))
}

/// A matrix, or a batch of them where there are three dimensions.
fn matrices<S: Stored>(path: &Path, loaded: Loaded) -> Result<Matrices<S>, Failure> {
    let array = typed::<S>(path, loaded)?;
    let shape = array.shape().to_vec();
    let batch = shape.len() == 3;
    let array = if shape.len() == 2 { array.insert_axis(ArrayAxis(0)) } else { array };
    let array = array.into_dimensionality::<Ix3>().map_err(|_| {
        let remedy = match shape.len() {
            1 => "; save x[None, :] for a row or x[:, None] for a column",
            _ => "",
        };
        let count = shape.len();
        let s = if count == 1 { "" } else { "s" };
        let problem = format!(
            "has {count} dimension{s} {shape:?} but a matrix has 2 and a batch of them 3{remedy}"
        );
        Failure::file(path, problem)
    })?;
    Ok(Matrices { array, batch })
}

/// A vector, or a matrix of one row or column, or, where the other operands are of so many products, the rows of a
/// matrix as one vector for each.
fn vectors<S: Stored>(
    path: &Path,
    loaded: Loaded,
    products: Option<usize>,
) -> Result<Matrices<S>, Failure> {
    let array = typed::<S>(path, loaded)?;
    let shape = array.shape().to_vec();
    let long = shape.iter().filter(|&&len| len != 1).count();
    let batch =
        shape.len() == 2 && products.is_some_and(|products| long == 2 || products == shape[0]);
    if shape.is_empty() || (long > 1 && !batch) {
        let problem = format!(
            "has shape {shape:?} but a bias is a vector, or, where other operands are batches, a matrix with a row for \
             each product; save x.ravel(), or pass it by --c"
        );
        return Err(Failure::file(path, problem));
    }
    let rows = if batch { shape[0] } else { 1 };
    check_room(array.len().checked_mul(size_of::<S>()))?;
    let elements: Vec<S> = array.iter().copied().collect();
    let cols = if batch { shape[1] } else { elements.len() };
    let array = Array2::from_shape_vec((rows, cols), elements)
        .map_err(|error| Failure::file(path, error.to_string()))?;
    Ok(Matrices { array: array.insert_axis(ArrayAxis(1)), batch })
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
        // One element runs either way alike.
        None if len == n && len == m && len > 1 => Err(Failure::Usage(format!(
            "D is {m} x {n}, so the bias in {} could run either way: say --bias-axis column (one \
             element a column) or --bias-axis row",
            path.display()
        ))),
        None if len == n => Ok(BiasAxis::Column),
        None if len == m => Ok(BiasAxis::Row),
        None => misfit(format!("{n} columns and {m} rows")),
    }
}
