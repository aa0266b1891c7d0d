//! What each lane of a warp knows of the others: vector clocks, as in C. Flanagan and S. Freund, "FastTrack: Efficient
//! and Precise Dynamic Race Detection" (PLDI 2009).
//!
//! A lane's own clock advances at each warp barrier it takes part in. A lane has seen everything that another lane did
//! up to the clock it knows of it. A block barrier orders everything and needs no clocks: see
//! [`shadow`](super::shadow).

const LANES: usize = super::limits::WARP_THREADS as usize;

/// The clocks of one warp: `known[a][b]` is the clock of lane `b` that lane `a` knows.
#[derive(Clone)]
pub(super) struct Clocks {
    known: [[u32; LANES]; LANES],
}

impl Clocks {
    /// No lane has seen anything of another one.
    pub(super) fn new() -> Self {
        let mut known = [[0; LANES]; LANES];
        for (lane, clocks) in known.iter_mut().enumerate() {
            clocks[lane] = 1;
        }
        Clocks { known }
    }

    /// A lane's own clock.
    pub(super) fn own(&self, lane: usize) -> u32 {
        self.known[lane][lane]
    }

    /// Whether `lane` has seen what `other` did at `clock`.
    pub(super) fn has_seen(&self, lane: usize, other: usize, clock: u32) -> bool {
        self.known[lane][other] >= clock
    }

    /// The lanes of `mask` wait for each other.
    pub(super) fn join(&mut self, mask: u32) {
        let members = || (0..LANES).filter(|lane| mask >> lane & 1 == 1);
        let mut joined = [0; LANES];
        for lane in members() {
            for (all, one) in joined.iter_mut().zip(self.known[lane]) {
                *all = one.max(*all);
            }
        }
        for lane in members() {
            self.known[lane] = joined;
            self.known[lane][lane] += 1;
        }
    }
}
