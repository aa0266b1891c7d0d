//! Small systems of linear equations.

/// Pivots below this share of the diagonal are taken for zero.
const SINGULAR: f64 = 1e-10;

/// The solution of the first `count` equations of a symmetric system, of which the lower triangle is read, by
/// Cholesky's factors; none where the matrix is not positive definite.
pub(super) fn solve<const N: usize>(
    mut matrix: [[f64; N]; N],
    mut right: [f64; N],
    count: usize,
) -> Option<[f64; N]> {
    for column in 0..count {
        let diagonal = matrix[column][column];
        let known: f64 = matrix[column][..column].iter().map(|value| value * value).sum();
        let pivot = diagonal - known;
        if pivot.is_nan() || pivot <= SINGULAR * diagonal {
            return None;
        }
        let root = pivot.sqrt();
        matrix[column][column] = root;
        for row in column + 1..count {
            let known: f64 = (0..column).map(|i| matrix[row][i] * matrix[column][i]).sum();
            matrix[row][column] = (matrix[row][column] - known) / root;
        }
    }
    for row in 0..count {
        let known: f64 = (0..row).map(|i| matrix[row][i] * right[i]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|i| matrix[i][row] * right[i]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solution_fulfils_the_equations() {
        let matrix = [[4.0, 0.0, 0.0, 9.0], [2.0, 5.0, 9.0, 9.0], [1.0, 3.0, 6.0, 9.0], [9.0; 4]];
        let right = [1.0, -2.0, 7.0, 9.0];
        let found = solve(matrix, right, 3).unwrap();
        for row in 0..3 {
            let entry = |col: usize| matrix[row.max(col)][row.min(col)];
            let sum: f64 = (0..3).map(|col| entry(col) * found[col]).sum();
            assert!((sum - right[row]).abs() < 1e-12, "{row}: {sum}");
        }
    }

    #[test]
    fn what_has_no_single_solution_has_none() {
        assert_eq!(solve([[1.0, 0.0], [1.0, 1.0]], [1.0, 1.0], 2), None, "equal rows");
        assert_eq!(solve([[0.0]], [1.0], 1), None, "zero");
        assert_eq!(solve([[f64::NAN]], [1.0], 1), None, "NaN");
        assert_eq!(solve([[-1.0]], [1.0], 1), None, "negative");
    }
}
