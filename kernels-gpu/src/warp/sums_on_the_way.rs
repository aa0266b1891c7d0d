//! The way of tensor cores' sums to D through shared memory.
//!
//! Tensor cores leave pairs of neighbouring sums in the lanes of a warp, four pairs in a row and eight rows below each
//! other. That is no order in which to store D: a row of 8 elements of half precision is half a sector, held by four
//! threads. So the sums take a way through shared memory and come back as 4 neighbouring sums a lane, of which a warp
//! stores whole rows; and one copy of the epilogue's code works on all of them, one after another.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::thread_tile::store_vector;
use crate::tile::Origin;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, hint, warp};

/// Lanes along a column and along a row of an instruction's product.
pub const LANES: (usize, usize) = (8, 4);

/// Sums that a thread stores together.
pub const QUAD: usize = 4;

/// Sums of a row that fill all banks.
pub const LINE: usize = 32;

/// Room for `ROWS x COLS` sums of a warp.
#[derive(Clone, Copy)]
pub struct SumsOnTheWay {
    /// The first of them, aligned to 16 bytes.
    sums: SharedPtr<f32>,
    rows: u32,
    cols: u32,
}

impl SumsOnTheWay {
    /// Room for a warp's sums, `rows * cols` of them from `sums` on. Both are constants, `cols` a multiple of [`LINE`].
    #[device_inline]
    pub fn new(sums: SharedPtr<f32>, rows: usize, cols: usize) -> Self {
        SumsOnTheWay { sums, rows: rows as u32, cols: cols as u32 }
    }

    /// Where 4 neighbouring sums of a row lie. They change places so that lanes that write together, 8 bytes each in 4
    /// rows and 8 columns, do not meet in a bank. Those that read 8 quads of a row do not anyway.
    #[device_inline]
    fn place(&self, row: u32, quad: u32) -> SharedPtr<f32> {
        let swizzled = quad ^ (row % 4 * 2);
        self.sums.add(row * self.cols + swizzled * QUAD as u32)
    }

    /// Writes this lane's pair of an 8 x 8 part of the sums, the `i`-th along a column and the `j`-th along a row.
    ///
    /// # Safety
    /// All lanes do so together, and none reads the part at that time.
    #[device_inline]
    #[track_caller]
    pub unsafe fn write(&self, i: usize, j: usize, pair: [f32; 2]) {
        let lane = warp::lane_id();
        let (g, t) = (lane / LANES.1 as u32, lane % LANES.1 as u32);
        let place = self.place((i * LANES.0) as u32 + g, j as u32 * 2 + t / 2);
        // SAFETY: as promised by the caller.
        unsafe { place.add(t % 2 * 2).store_vec(pair) };
    }

    /// Puts the sums, which begin at `origin` in D, through the epilogue and stores what lies in D, in vectors where
    /// D's rows consist of them.
    ///
    /// # Safety
    /// All lanes get here together, and all parts are written. D and the epilogue's operands are valid for the shapes
    /// in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store<T: Element, E: Epilogue<D>, D: Element<Acc = f32>>(
        &self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
    ) {
        let quads = self.cols / QUAD as u32;
        let wide = params.d.has_vectors(QUAD as u32) && params.n.is_multiple_of(QUAD as u32);
        // SAFETY: as promised by the caller; all lanes are here.
        unsafe { warp::sync_warp(warp::FULL_MASK) };
        for turn in 0..hint::opaque(self.rows * quads / warp::WARP_SIZE) {
            let quad = turn * warp::WARP_SIZE + warp::lane_id();
            let (row, quad) = (quad / quads, quad % quads);
            // SAFETY: the warp has written all parts.
            let mut values = unsafe { self.place(row, quad).load_vec::<QUAD>() };
            let row = origin.row + row;
            let col = origin.col + quad * QUAD as u32;
            if row < params.m && col < params.n {
                // SAFETY: as promised by the caller; the vector starts inside of D.
                unsafe { store_vector(params, row, col, &mut values, wide) };
            }
        }
    }
}
