//! What is computed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Cases that belong together, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Square matrices whose size is a power of two.
    Squares,
    /// Square matrices of sizes between: what tiles do not divide evenly among multiprocessors, and round numbers to
    /// people.
    Between,
    /// Square matrices whose size is one off that, so that no row is a multiple of 16 bytes.
    Odd,
    /// Skinny, flat and deep products.
    Rectangles,
    /// Rows of tokens times the weights of a transformer, stored as most programs store them.
    Layers,
    /// The same with numbers of rows that are no powers of two.
    Tokens,
    /// Factors that are stored as their transposes.
    Layouts,
    /// Many small products in one call.
    Batched,
    /// Products to which a matrix C is added.
    Addend,
    /// A product with a bias and an activation beside the plain one.
    Epilogue,
}

impl Group {
    /// All, in their order.
    pub const ALL: [Group; 10] = [
        Group::Squares,
        Group::Between,
        Group::Odd,
        Group::Rectangles,
        Group::Layers,
        Group::Tokens,
        Group::Layouts,
        Group::Batched,
        Group::Addend,
        Group::Epilogue,
    ];

    /// Its name, as on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Group::Squares => "squares",
            Group::Between => "between",
            Group::Odd => "odd",
            Group::Rectangles => "rectangles",
            Group::Layers => "layers",
            Group::Tokens => "tokens",
            Group::Layouts => "layouts",
            Group::Batched => "batched",
            Group::Addend => "addend",
            Group::Epilogue => "epilogue",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which of the row-major factors are stored as their transposes (T), A first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layouts {
    /// Neither.
    #[default]
    Nn,
    /// B.
    Nt,
    /// A.
    Tn,
    /// Both.
    Tt,
}

impl Layouts {
    /// Whether A is stored as its transpose.
    pub fn a_transposed(self) -> bool {
        matches!(self, Layouts::Tn | Layouts::Tt)
    }

    /// Whether B is stored as its transpose.
    pub fn b_transposed(self) -> bool {
        matches!(self, Layouts::Nt | Layouts::Tt)
    }

    /// Two letters.
    pub fn name(self) -> &'static str {
        match self {
            Layouts::Nn => "NN",
            Layouts::Nt => "NT",
            Layouts::Tn => "TN",
            Layouts::Tt => "TT",
        }
    }
}

impl fmt::Display for Layouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One or many products `D[m x n] = A[m x k] * B[k x n]` of packed matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// What it belongs to.
    pub group: Group,
    /// Rows of D.
    pub m: usize,
    /// Columns of D.
    pub n: usize,
    /// Depth.
    pub k: usize,
    /// How the factors are stored.
    #[serde(default)]
    pub layouts: Layouts,
    /// Number of products.
    #[serde(default = "one")]
    pub batch: usize,
}

fn one() -> usize {
    1
}

impl Case {
    /// A single product of factors that are stored as they are.
    pub const fn of(group: Group, (m, n, k): (usize, usize, usize)) -> Case {
        Case { group, m, n, k, layouts: Layouts::Nn, batch: 1 }
    }

    /// Floating-point operations: a multiply-add counts two.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64 * self.batch as f64
    }

    /// Whether a matrix C of D's shape is added.
    pub fn has_addend(&self) -> bool {
        self.group == Group::Addend
    }

    /// Bytes of A, B, C, if there is one, and D together, by those of an element of the factors and one of the others.
    pub fn bytes(&self, of_factors: usize, of_results: usize) -> u64 {
        let Case { m, n, k, batch, .. } = *self;
        let (factors, result) = (m * k + k * n, m * n);
        let results = if self.has_addend() { 2 * result } else { result };
        ((factors * of_factors + results * of_results) * batch) as u64
    }

    /// Whether all three sizes are one number.
    pub fn is_square(&self) -> bool {
        self.m == self.n && self.n == self.k
    }

    /// The shape in words: `4096`, `100 x 200 x 300`, `64 of 256`.
    pub fn shape(&self) -> String {
        let Case { m, n, k, batch, .. } = *self;
        let one = if self.is_square() { m.to_string() } else { format!("{m} x {n} x {k}") };
        if batch > 1 { format!("{batch} of {one}") } else { one }
    }

    /// The shape, and the layouts unless both factors are stored as they are.
    pub fn label(&self) -> String {
        match self.layouts {
            Layouts::Nn => self.shape(),
            layouts => format!("{} {layouts}", self.shape()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_bytes_of_a_batch() {
        let case = Case { batch: 3, ..Case::of(Group::Batched, (2, 5, 7)) };
        assert_eq!(case.flops(), 2.0 * 2.0 * 5.0 * 7.0 * 3.0);
        assert_eq!(case.bytes(4, 4), (14 + 35 + 10) * 3 * 4);
        assert_eq!(case.bytes(2, 4), ((14 + 35) * 2 + 10 * 4) * 3);
        let with_addend = Case { group: Group::Addend, ..case };
        assert_eq!(with_addend.bytes(2, 4), ((14 + 35) * 2 + 20 * 4) * 3);
    }

    #[test]
    fn labels() {
        let square = Case::of(Group::Squares, (64, 64, 64));
        assert_eq!(square.label(), "64");
        assert_eq!(Case { layouts: Layouts::Tn, ..square }.label(), "64 TN");
        assert_eq!(Case { batch: 8, ..square }.label(), "8 of 64");
        assert_eq!(Case::of(Group::Rectangles, (1, 2, 3)).label(), "1 x 2 x 3");
    }

    #[test]
    fn letters_say_what_is_transposed() {
        for layouts in [Layouts::Nn, Layouts::Nt, Layouts::Tn, Layouts::Tt] {
            let letter = |transposed| if transposed { 'T' } else { 'N' };
            let letters = [letter(layouts.a_transposed()), letter(layouts.b_transposed())];
            assert_eq!(layouts.name(), letters.iter().collect::<String>());
            let text = serde_json::to_string(&layouts).unwrap();
            assert_eq!(text, format!("\"{layouts}\""));
        }
    }
}
