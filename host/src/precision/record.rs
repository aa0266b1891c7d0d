//! What products were computed in, for whoever asks when they are done.

use super::{Computed, Precision};
use crate::device::{Buffer, Device, Rows, Use};
use crate::error::{Error, Result};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a product's note.
pub(crate) const NOTE_BYTES: u64 = size_of::<u32>() as u64;

/// Memory in which a product of [`Precision::Auto`] that is [enqueued](crate::Gemm::enqueue) leaves what it was
/// computed in, to be asked for when it is done: [`Device::precision_record`],
/// [`Gemm::record_precision`](crate::Gemm::record_precision).
///
/// It tells of the last product that was given it: those that share it are put in order by the library. Of one in a
/// CUDA graph it tells what its last launch did, for which the caller
/// [synchronises](crate::Stream#capture-in-a-cuda-graph).
///
/// # Examples
/// ```
/// use regemm::ndarray::Array2;
/// use regemm::{Computed, Device, Gemm, Precision};
///
/// let device = Device::sim();
/// let stream = device.stream()?;
/// let a = device.upload(&Array2::from_elem((8, 64), f32::INFINITY).view())?;
/// let b = device.upload(&Array2::from_elem((64, 8), 1.0f32).view())?;
/// let mut d = device.matrix(8, 8)?;
/// let record = device.precision_record(1)?;
/// Gemm::new(&a, &b).precision(Precision::Auto).record_precision(&record).enqueue(&stream, &mut d)?;
/// // Later: this waits for the product.
/// assert_eq!(record.computed()?, Some(Computed::In(Precision::Exact)));
/// # Ok::<(), regemm::Error>(())
/// ```
pub struct PrecisionRecord {
    notes: Buffer,
    products: u32,
    state: Mutex<State>,
    /// Held while a product is put on its stream, and while the notes are read: what another thread does with them
    /// comes after that.
    users: Mutex<()>,
}

/// What is known without asking the device.
#[derive(Clone, Copy)]
enum State {
    /// Nothing was computed yet, or nobody knows what.
    Empty,
    /// So many products, all alike.
    Known { products: u32, computed: Computed },
    /// The notes say it of so many products.
    Noted { products: u32 },
}

impl PrecisionRecord {
    pub(crate) fn new(device: &Device, products: u32) -> Result<PrecisionRecord> {
        let notes = Buffer::new(device, u64::from(products) * NOTE_BYTES)?;
        let (state, users) = (Mutex::new(State::Empty), Mutex::default());
        Ok(PrecisionRecord { notes, products, state, users })
    }

    /// Products that it has room for.
    pub fn capacity(&self) -> u32 {
        self.products
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.notes.device()
    }

    /// What the last product, or the products of the last batch, were computed in; none before the first. Waits for the
    /// work.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn computed(&self) -> Result<Option<Computed>> {
        let _reading = self.hold();
        let state = *self.state();
        Ok(match state {
            State::Empty => None,
            State::Known { computed, .. } => Some(computed),
            State::Noted { products } => Some(Computed::of(self.read(products)?.into_iter())),
        })
    }

    /// What each product of the last batch was computed in; a single one is a batch of one. Waits for the work.
    ///
    /// # Errors
    /// As for [`computed`](PrecisionRecord::computed).
    pub fn of_products(&self) -> Result<Vec<Computed>> {
        let _reading = self.hold();
        let state = *self.state();
        let of_note = |exact| if exact { Precision::Exact } else { Precision::Split };
        Ok(match state {
            State::Empty => Vec::new(),
            State::Known { products, computed } => vec![computed; products as usize],
            State::Noted { products } => {
                self.read(products)?.into_iter().map(of_note).map(Computed::In).collect()
            }
        })
    }

    /// The buffer of the notes, if they have room for so many.
    pub(crate) fn notes(&self, products: u32) -> Result<&Buffer> {
        if products > self.products {
            return Err(Error::RecordTooSmall { found: self.products, needed: products });
        }
        Ok(&self.notes)
    }

    /// Nobody else uses it until this is dropped.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what was launched.
    pub(crate) fn remember(&self, products: u32, computed: Computed) {
        *self.state() = match computed {
            Computed::Undecided => State::Noted { products },
            computed => State::Known { products, computed },
        };
    }

    /// Forgets what was launched: a launch that has failed may have left some of its notes.
    pub(crate) fn forget(&self) {
        *self.state() = State::Empty;
    }

    fn read(&self, products: u32) -> Result<Vec<bool>> {
        self.notes.finish(Use::Read)?;
        read_notes(self.device(), self.notes.address(), products)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PrecisionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrecisionRecord").field("products", &self.products).finish_non_exhaustive()
    }
}

/// Whether each product was computed exactly, by the notes at an address. The caller has waited for them.
pub(crate) fn read_notes(device: &Device, address: u64, products: u32) -> Result<Vec<bool>> {
    let bytes = u64::from(products) * NOTE_BYTES;
    let mut notes = vec![0; bytes as usize];
    device.read_rows(Rows { address, row_bytes: bytes, pitch: bytes, rows: 1 }, &mut notes)?;
    Ok(notes
        .chunks_exact(NOTE_BYTES as usize)
        .map(|note| note.iter().any(|&byte| byte != 0))
        .collect())
}
