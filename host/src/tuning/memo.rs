//! Choices that were made before, so that the same product again costs one look-up.

use super::class::Shape;
use crate::kernels::{Problem, Selection};
use regemm_kernels::kernel::Rung;
use rustc_hash::FxHashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most choices that are remembered; then all are forgotten. Programs with more shapes than that rarely use one twice.
const MOST: usize = 1024;

/// Everything that a choice depends on, but for what [`Memo::forget`] is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub problem: Problem,
    pub shape: Shape,
    pub rung: Option<Rung>,
}

/// The choices of one device.
#[derive(Debug, Default)]
pub(super) struct Memo {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Counts how often all was forgotten.
    generation: u64,
    choices: FxHashMap<Question, Selection>,
}

impl Memo {
    /// What was chosen before; else what `choose` gives, which is then remembered unless everything was forgotten
    /// meanwhile.
    ///
    /// # Errors
    /// Those of `choose`, which are not remembered.
    pub fn get_or<E>(
        &self,
        question: Question,
        choose: impl FnOnce() -> Result<Selection, E>,
    ) -> Result<Selection, E> {
        let generation = {
            let inner = self.lock();
            if let Some(selection) = inner.choices.get(&question) {
                return Ok(*selection);
            }
            inner.generation
        };
        // Choosing may take long, and may measure.
        let selection = choose()?;
        let mut inner = self.lock();
        if inner.generation == generation {
            if inner.choices.len() >= MOST {
                inner.choices.clear();
            }
            inner.choices.insert(question, selection);
        }
        Ok(selection)
    }

    /// Forgets all choices: the policy or the measured times have changed.
    pub fn forget(&self) {
        let mut inner = self.lock();
        inner.generation += 1;
        inner.choices.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is complete before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Why, find};
    use regemm_kernels::element::Dtype;
    use regemm_kernels::layout::Layouts;

    fn question(n: u32) -> Question {
        let problem = Problem::new(Dtype::F32, n, n, n);
        Question { problem, shape: Shape::packed(Dtype::F32, n, n, n), rung: None }
    }

    fn naive() -> Result<Selection, ()> {
        Ok(Selection { kernel: find("naive_f32").unwrap(), why: Why::Asked })
    }

    fn tiled() -> Result<Selection, ()> {
        Ok(Selection { kernel: find("tiled16_f32").unwrap(), why: Why::Asked })
    }

    fn chosen(memo: &Memo, n: u32, choose: fn() -> Result<Selection, ()>) -> &'static str {
        memo.get_or(question(n), choose).unwrap().kernel.name
    }

    #[test]
    fn a_choice_is_made_once_for_each_question_until_all_is_forgotten() {
        let memo = Memo::default();
        assert_eq!(chosen(&memo, 64, naive), "naive_f32");
        assert_eq!(chosen(&memo, 64, tiled), "naive_f32");
        assert_eq!(chosen(&memo, 65, tiled), "tiled16_f32");
        memo.forget();
        assert_eq!(chosen(&memo, 64, tiled), "tiled16_f32");
    }

    #[test]
    fn layouts_and_batches_are_questions_of_their_own() {
        let memo = Memo::default();
        let Question { problem, .. } = question(64);
        let others = [Problem { layouts: Layouts::TN, ..problem }, Problem { batch: 2, ..problem }];
        assert_eq!(chosen(&memo, 64, naive), "naive_f32");
        for problem in others {
            let other = Question { problem, ..question(64) };
            assert_eq!(memo.get_or(other, tiled).unwrap().kernel.name, "tiled16_f32");
        }
    }

    #[test]
    fn failures_are_not_remembered() {
        let memo = Memo::default();
        assert!(memo.get_or(question(64), || Err(())).is_err());
        assert_eq!(chosen(&memo, 64, naive), "naive_f32");
    }

    #[test]
    fn what_was_forgotten_while_choosing_is_not_remembered() {
        let memo = Memo::default();
        let outdated = memo.get_or(question(64), || {
            memo.forget();
            naive()
        });
        assert_eq!(outdated.unwrap().kernel.name, "naive_f32");
        assert_eq!(chosen(&memo, 64, tiled), "tiled16_f32");
    }

    #[test]
    fn the_memory_is_bounded() {
        let memo = Memo::default();
        for n in 1..=2 * MOST as u32 + 1 {
            chosen(&memo, n, naive);
            assert!(memo.lock().choices.len() <= MOST);
        }
    }
}
