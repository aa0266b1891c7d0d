//! The outbox: the buffer in shared memory through which a warp's finished part of D is stored, by bulk copies (TMA
//! stores) where they can take D, else by lanes.
//!
//! Lanes hold pairs of neighbouring elements in eight rows; D is written in rows. So a warp writes 16 rows by 64
//! columns to shared memory, in an order of its own ([`crate::warpgroup::part`]), and sends them from there. Of f32 it
//! is half as many columns.
//!
//! Where bulk copies can take D ([`crate::maps`]) one lane asks for the whole part to be sent, and hardware does so
//! while the warp goes on with the next part or the next tile. There is room for two parts, which are used in turn:
//!
//! ```text
//! all lanes   wait      write, fence      wait       write, fence      wait       write, fence
//! one lane                          send 0                      send 1     0 read               send 2
//! ```
//!
//! Where [A and B are swapped](crate::swapped) the four warps of a warpgroup write 64 rows by 64 columns together, and
//! when all have, each sends 16 of the rows.
//!
//! Other matrices D, whose rows are not multiples of 16 bytes, are stored by all lanes, whole rows of a part together.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::maps::{BoxShape, Mapped};
use crate::params::GemmParams;
use crate::swapped::{InOrder, Operands};
use crate::tile::Origin;
use crate::warpgroup::barriers::FIRST_PART_MEETS;
use crate::warpgroup::part::{self, PART_BYTES, ROW_BYTES, SWIZZLE, WARPS_TOGETHER};
pub use crate::warpgroup::part::{ROWS, cols};
use core::marker::PhantomData;
use cuda_std::memory::SharedPtr;
use cuda_std::scalar::Scalar;
use cuda_std::{
    bulk_copy, device_inline, hint, mma, named_barrier, shared, thread, unroll, warp, wgmma,
};

/// What a mapped D is sent in.
pub const fn box_of<D>() -> BoxShape {
    part::box_of_rows::<D>(ROWS as u32)
}

/// Parts that a warp has room for.
pub const ROOMS: u32 = 2;

/// Bytes of shared memory of one warp.
pub const BYTES: u32 = ROOMS * PART_BYTES;

/// What the room of a warp begins at a multiple of.
pub const ALIGNMENT: u32 = SWIZZLE.repeats_after();

/// What a lane reads before it stores any of it.
const AT_ONCE: usize = 8;

/// A warp's room for parts of D on their way, whose operands are in order or swapped.
pub struct Outbox<O = InOrder> {
    /// Where the part that is sent begins.
    part: u32,
    /// Bytes from there to the other part's place: this many, modulo 2^32.
    to_other: u32,
    operands: PhantomData<O>,
}

impl<O: Operands> Outbox<O> {
    /// The room of a warp, [`BYTES`] from a multiple of [`ALIGNMENT`] on. Where operands are swapped it lies behind
    /// that of the warp before, and a warpgroup has theirs together: first what its warps send of one part, and then of
    /// the other.
    #[device_inline]
    pub fn new(room: SharedPtr<u8>) -> Self {
        let (part, to_other) = if const { O::SWAPPED } {
            (
                room.address() - part::warp_of_warpgroup() * (BYTES - PART_BYTES),
                WARPS_TOGETHER * PART_BYTES,
            )
        } else {
            (room.address(), PART_BYTES)
        };
        Outbox { part, to_other, operands: PhantomData }
    }

    /// That of a warp of the block, of those of all its warps from `outboxes` bytes into the dynamic shared memory on.
    #[device_inline]
    pub fn of_warp(outboxes: u32, warp: u32) -> Self {
        let room = outboxes + warp * BYTES;
        Self::new(shared::dynamic().add(room))
    }

    /// Waits for all lanes that write a part together.
    ///
    /// # Safety
    /// All of them get here.
    #[device_inline]
    #[track_caller]
    unsafe fn meet(&self) {
        // SAFETY: as promised by the caller; no other barrier has this number.
        unsafe {
            if const { O::SWAPPED } {
                let warpgroup = thread::thread_idx_x() / wgmma::THREADS;
                named_barrier::sync(FIRST_PART_MEETS + warpgroup, wgmma::THREADS);
            } else {
                warp::sync_warp(warp::FULL_MASK);
            }
        }
    }

    /// Where in shared memory the part lies that is sent next: what this warp sends of it.
    #[device_inline]
    pub fn part(&self) -> u32 {
        self.part
    }

    /// Where in D what this warp sends of a part begins, of the warp's sums in which the part begins at `origin`.
    #[device_inline]
    fn sent(origin: Origin) -> Origin {
        if const { O::SWAPPED } {
            let of_warp = part::warp_of_warpgroup() * ROWS as u32;
            Origin { row: origin.col + of_warp, col: origin.row - of_warp }
        } else {
            origin
        }
    }

    /// Writes a lane's pairs of 16 columns of 16 bits of the part, the `block`-th.
    ///
    /// # Safety
    /// All lanes of the warp get here together. The room is the warp's own.
    #[device_inline]
    #[track_caller]
    pub unsafe fn write_block(&self, block: u32, pairs: [u32; 4]) {
        let lane = warp::lane_id();
        // SAFETY: as promised by the caller.
        unsafe {
            if const { O::SWAPPED } {
                let part = self.part - part::warp_of_warpgroup() * PART_BYTES;
                mma::store_matrices::<_, true>(part::transposed_block(part, block, lane), pairs);
            } else {
                mma::store_matrices::<_, false>(part::block(self.part, block, lane), pairs);
            }
        }
    }

    /// Waits until the part's place may be written again: until the part before the last has been read.
    ///
    /// # Safety
    /// All lanes of the warp get here together; D is mapped.
    #[device_inline]
    #[track_caller]
    pub unsafe fn wait(&self) {
        // SAFETY: as promised by the caller. The lane that sends is always the same.
        unsafe {
            if warp::elect(warp::FULL_MASK) {
                bulk_copy::wait_group_read::<1>();
            }
            self.meet();
        }
    }

    /// Sends the part to a mapped D, where it begins at `origin`, in the background. What lies outside of D is left
    /// out.
    ///
    /// # Safety
    /// All lanes of the warp get here together, having written all of it. The map is one of D in such [boxes](box_of).
    #[device_inline]
    #[track_caller]
    pub unsafe fn send(&mut self, d: Mapped<'_>, origin: Origin) {
        // SAFETY: as promised by the caller.
        unsafe { self.send_if(d, origin, |_| true) };
    }

    /// The same of what lies before row `end` of D, a multiple of 16, for operands that are swapped: behind it another
    /// tile begins.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    #[device_inline]
    #[track_caller]
    pub unsafe fn send_before(&mut self, d: Mapped<'_>, origin: Origin, end: u32) {
        // SAFETY: as promised by the caller.
        unsafe { self.send_if(d, origin, |sent| sent.row < end) };
    }

    /// Sends the part if what this warp has of it, which begins there in D, is to be sent.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    #[device_inline]
    #[track_caller]
    unsafe fn send_if(&mut self, d: Mapped<'_>, origin: Origin, sends: impl Fn(Origin) -> bool) {
        let sent = Self::sent(origin);
        // SAFETY: as promised by the caller; the lanes' writes are fenced before one of them lets the copy read them.
        unsafe {
            bulk_copy::fence_shared();
            self.meet();
            let is_sent = warp::elect(warp::FULL_MASK) && sends(sent);
            let at = [sent.col as i32, sent.row as i32, d.index];
            let part = SharedPtr::<u16>::from_address(self.part);
            bulk_copy::store_3d_if(is_sent, d.map, at, part);
            // Rooms are waited for by groups. Those of other lanes are empty.
            bulk_copy::commit_group();
        }
        self.turn();
    }

    /// Sends what of the part lies before D's last column to a mapped D, where it begins at `origin`: a piece of 16
    /// bytes for each lane at a time. For parts behind whose columns another tile begins, which a bulk store would
    /// write.
    ///
    /// # Safety
    /// As for [`send`](Self::send), of elements of 16 bits; both columns are multiples of a piece.
    #[device_inline]
    #[track_caller]
    pub unsafe fn send_pieces<T: Element, E: Epilogue<D>, D: Element>(
        &mut self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
    ) {
        const WORDS: usize = 4;
        const PIECE_BYTES: u32 = (WORDS * size_of::<u32>()) as u32;
        const AT_ONCE: u32 = warp::WARP_SIZE / ROWS as u32;
        const { assert!(4 * AT_ONCE * PIECE_BYTES == ROW_BYTES, "all pieces of a row") };
        let (row, first) = (warp::lane_id() % ROWS as u32, warp::lane_id() / ROWS as u32);
        // SAFETY: as promised by the caller.
        unsafe {
            warp::sync_warp(warp::FULL_MASK);
            unroll!(i < 4, {
                let byte = (i as u32 * AT_ONCE + first) * PIECE_BYTES;
                let at = SWIZZLE.apply(self.part + row * ROW_BYTES + byte);
                let (row, col) = (origin.row + row, origin.col + byte / size_of::<D>() as u32);
                let inside = row < params.m && col < params.n;
                let words: [u32; WORDS] = SharedPtr::from_address(at).load_vec();
                params.target().at(row, col).cast::<u32>().store_vec_if(inside, words);
            });
            // Rooms are waited for by groups.
            bulk_copy::commit_group();
        }
        self.turn();
    }

    /// Sends the part to a D that is not mapped, where it begins at `origin`: all lanes elements of the same row, as
    /// many as a `W` is long: one, or a pair of 16 bits each. Rows of D consist of such.
    ///
    /// # Safety
    /// All lanes of the warp get here together, having written all of it. D is valid for the shape in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn send_rows<T: Element, E: Epilogue<D>, D: Element, W: Scalar + Default>(
        &mut self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
    ) {
        // SAFETY: as promised by the caller; a part is written again when all lanes have written the one after it.
        unsafe {
            self.meet();
            let origin = Self::sent(origin);
            let rounds = PART_BYTES / (size_of::<W>() as u32 * warp::WARP_SIZE) / AT_ONCE as u32;
            for round in 0..hint::opaque(rounds) {
                self.send_round::<T, E, D, W, AT_ONCE>(params, origin, round);
            }
        }
        self.turn();
    }

    /// The `round`-th `LOADS` elements of each lane: all are read before one is stored, since reading takes a while.
    ///
    /// # Safety
    /// As for [`send_rows`](Self::send_rows).
    #[device_inline]
    #[track_caller]
    unsafe fn send_round<
        T: Element,
        E: Epilogue<D>,
        D: Element,
        W: Scalar + Default,
        const LOADS: usize,
    >(
        &self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
        round: u32,
    ) {
        let bytes = size_of::<W>() as u32;
        let place = |i: usize| {
            let byte =
                ((round * LOADS as u32 + i as u32) * warp::WARP_SIZE + warp::lane_id()) * bytes;
            (byte / ROW_BYTES, byte % ROW_BYTES)
        };
        let mut elements = [W::default(); LOADS];
        // SAFETY: as promised by the caller.
        unsafe {
            unroll!(i < LOADS, {
                let (row, byte) = place(i);
                let address = SWIZZLE.apply(self.part + row * ROW_BYTES + byte);
                elements[i] = SharedPtr::from_address(address).load();
            });
            unroll!(i < LOADS, {
                let (row, byte) = place(i);
                let (row, col) = (origin.row + row, origin.col + byte / size_of::<D>() as u32);
                let (col_end, row_end) =
                    if const { O::SWAPPED } { (params.m, params.n) } else { (params.n, params.m) };
                let inside = row < row_end && col < col_end;
                params.target().at(row, col).cast::<W>().store_if(inside, elements[i]);
            });
        }
    }

    /// Waits until everything has been read that has been sent to a mapped D: shared memory is gone when the block
    /// ends.
    ///
    /// # Safety
    /// All lanes of the warp get here together.
    #[device_inline]
    #[track_caller]
    pub unsafe fn finish(self) {
        // SAFETY: as promised by the caller.
        if unsafe { warp::elect(warp::FULL_MASK) } {
            bulk_copy::wait_group_read::<0>();
        }
    }

    /// On to the other part's place.
    #[device_inline]
    fn turn(&mut self) {
        self.part = self.part.wrapping_add(self.to_other);
        self.to_other = self.to_other.wrapping_neg();
    }
}
