//! Host memory behind one allocation of global memory.
//!
//! Blocks run on several host threads at once, and a kernel with a data race must not become undefined behaviour of
//! this program. So every access is made of relaxed atomic accesses to the same 32-bit words, whatever its width.
//!
//! Words are stored complemented. Fresh zero pages of the operating system then read as `0xff` bytes, which are NaN in
//! every floating-point type: a kernel that uses an element that nobody wrote spoils its result visibly, and a large
//! allocation costs nothing until it is touched.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bytes of a word.
const WORD: usize = size_of::<u32>();

/// Zero-initialised words, never moved.
#[derive(Debug)]
pub(super) struct Backing {
    words: NonNull<AtomicU32>,
    layout: Layout,
}

// SAFETY: it owns its memory, which is only accessed through atomics.
unsafe impl Send for Backing {}
// SAFETY: as above.
unsafe impl Sync for Backing {}

impl Backing {
    /// Memory for `bytes` bytes, or nothing where the host has no more.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let words = usize::try_from(bytes.div_ceil(WORD as u64)).ok()?.max(1);
        let layout = Layout::array::<AtomicU32>(words).ok()?;
        // SAFETY: the layout has at least one word.
        let words = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<AtomicU32>())?;
        Some(Backing { words, layout })
    }

    /// The first word.
    pub(super) fn words(&self) -> *const AtomicU32 {
        self.words.as_ptr()
    }

    /// Copies bytes out.
    ///
    /// # Safety
    /// `offset + bytes.len()` must not exceed the size.
    pub(super) unsafe fn read(&self, offset: usize, bytes: &mut [u8]) {
        let words = self.words();
        let head = (offset.wrapping_neg() % WORD).min(bytes.len());
        let (head, rest) = bytes.split_at_mut(head);
        let (body, tail) = rest.as_chunks_mut::<WORD>();
        // SAFETY: all offsets lie between `offset` and the end of the range; body and tail start at a whole word.
        unsafe {
            for (i, byte) in head.iter_mut().enumerate() {
                [*byte] = load::<[u8; 1]>(words, offset + i);
            }
            let mut at = offset + head.len();
            for word in body {
                *word = load::<[u8; WORD]>(words, at);
                at += WORD;
            }
            for (i, byte) in tail.iter_mut().enumerate() {
                [*byte] = load::<[u8; 1]>(words, at + i);
            }
        }
    }

    /// Copies bytes in.
    ///
    /// # Safety
    /// `offset + bytes.len()` must not exceed the size.
    pub(super) unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        let words = self.words();
        let head = (offset.wrapping_neg() % WORD).min(bytes.len());
        let (head, rest) = bytes.split_at(head);
        let (body, tail) = rest.as_chunks::<WORD>();
        // SAFETY: all offsets lie between `offset` and the end of the range; body and tail start at a whole word.
        unsafe {
            for (i, byte) in head.iter().enumerate() {
                store(words, offset + i, [*byte]);
            }
            let mut at = offset + head.len();
            for word in body {
                store(words, at, *word);
                at += WORD;
            }
            for (i, byte) in tail.iter().enumerate() {
                store(words, at + i, [*byte]);
            }
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.words.as_ptr().cast(), self.layout) }
    }
}

/// Reads a value of 1, 2 or a multiple of 4 bytes.
///
/// # Safety
/// The words from `words` on must cover `offset + size_of::<V>()` bytes; `offset` must be a multiple of the smaller of
/// the size and 4. Any bits must be a valid `V`.
#[inline(always)]
pub(super) unsafe fn load<V: Copy>(words: *const AtomicU32, offset: usize) -> V {
    let mut value = MaybeUninit::<V>::uninit();
    let out = value.as_mut_ptr();
    // SAFETY: source and destination are in bounds as promised, and every byte of the value is written.
    unsafe {
        let first = words.add(offset / WORD);
        if size_of::<V>() < WORD {
            let bytes = (!(*first).load(Relaxed)).to_ne_bytes();
            out.cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr().add(offset % WORD), size_of::<V>());
        } else {
            for i in 0..size_of::<V>() / WORD {
                out.cast::<u32>().add(i).write_unaligned(!(*first.add(i)).load(Relaxed));
            }
        }
        value.assume_init()
    }
}

/// Writes a value of 1, 2 or a multiple of 4 bytes. Of a narrower value's word the other bytes stay as they are, even
/// if other threads write them at the same time.
///
/// # Safety
/// As for [`load`]; `V` must have no padding.
#[inline(always)]
pub(super) unsafe fn store<V: Copy>(words: *const AtomicU32, offset: usize, value: V) {
    let source = &raw const value;
    // SAFETY: source and destination are in bounds as promised.
    unsafe {
        let first = words.add(offset / WORD);
        if size_of::<V>() < WORD {
            let (mut mask, mut bits) = ([0_u8; WORD], [0_u8; WORD]);
            for i in 0..size_of::<V>() {
                mask[offset % WORD + i] = u8::MAX;
                bits[offset % WORD + i] = !source.cast::<u8>().add(i).read();
            }
            let (mask, bits) = (u32::from_ne_bytes(mask), u32::from_ne_bytes(bits));
            let merge = |word: u32| Some(word & !mask | bits);
            (*first).fetch_update(Relaxed, Relaxed, merge).ok();
        } else {
            for i in 0..size_of::<V>() / WORD {
                (*first.add(i)).store(!source.cast::<u32>().add(i).read_unaligned(), Relaxed);
            }
        }
    }
}
