//! Streams that are being captured in a graph (CUDA Driver API, "Stream Management", `cuStreamBeginCapture`).
//!
//! A capture is spoilt by calls that a graph cannot hold. So what launches may need besides, on their first use, is
//! refused before the driver is asked for it.

use super::context::{Bound, check_code};
use crate::error::{Error, Result};
use cuda_driver::newer::{
    self, StreamGetCaptureInfo, StreamIsCapturing, ThreadExchangeStreamCaptureMode,
};
use cust::sys;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The driver's functions, looked up once.
static IS_CAPTURING: LazyLock<Option<StreamIsCapturing>> =
    LazyLock::new(newer::stream_is_capturing);
static CAPTURE_INFO: LazyLock<Option<StreamGetCaptureInfo>> =
    LazyLock::new(newer::stream_get_capture_info);
static EXCHANGE_MODE: LazyLock<Option<ThreadExchangeStreamCaptureMode>> =
    LazyLock::new(newer::thread_exchange_stream_capture_mode);

/// From `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` to `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`.
const REFUSALS: RangeInclusive<i32> = 900..=908;

/// Whether the driver has refused something because some stream is being captured.
pub(super) fn is_in_the_way(error: &Error) -> bool {
    matches!(error, Error::Cuda { code, .. } if REFUSALS.contains(code))
}

/// Whether a stream, which lives, is being captured.
pub(super) fn is_captured(stream: sys::CUstream, _bound: &Bound<'_>) -> Result<bool> {
    // A driver without the function has no graphs.
    let Some(is_capturing) = *IS_CAPTURING else { return Ok(false) };
    let mut status = newer::STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream lives, and the pointer is to a local.
    check_code("cuStreamIsCapturing", unsafe { is_capturing(stream.cast(), &mut status) })?;
    Ok(status != newer::STREAM_CAPTURE_STATUS_NONE)
}

/// Whether two streams, which live, are being captured in the same graph.
pub(super) fn are_together(streams: [sys::CUstream; 2], _bound: &Bound<'_>) -> Result<bool> {
    let Some(info) = *CAPTURE_INFO else { return Ok(false) };
    let id_of = |stream: sys::CUstream| {
        let (mut status, mut id) = (newer::STREAM_CAPTURE_STATUS_NONE, 0);
        // SAFETY: the stream lives, and the pointers are to locals.
        let code = unsafe { info(stream.cast(), &mut status, &mut id) };
        check_code("cuStreamGetCaptureInfo", code)?;
        Ok::<_, Error>((status != newer::STREAM_CAPTURE_STATUS_NONE).then_some(id))
    };
    let [one, other] = [id_of(streams[0])?, id_of(streams[1])?];
    Ok(one.is_some() && one == other)
}

/// An error where a stream, which lives, is being captured.
pub(super) fn refuse(
    stream: sys::CUstream,
    needed: &'static str,
    remedy: &'static str,
    bound: &Bound<'_>,
) -> Result<()> {
    if is_captured(stream, bound)? { Err(Error::Capturing { needed, remedy }) } else { Ok(()) }
}

/// While this lives, what this thread asks about streams that are not captured does not spoil the captures of others:
/// without it a question about an event does so in the global mode.
pub(super) struct Relaxed {
    /// The thread's own mode.
    before: Option<i32>,
}

impl Relaxed {
    pub fn new(_bound: &Bound<'_>) -> Relaxed {
        Relaxed { before: exchange(newer::STREAM_CAPTURE_MODE_RELAXED) }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mode) = self.before {
            exchange(mode);
        }
    }
}

/// Sets the thread's mode and gives the one before; none where the driver has no such thing.
fn exchange(mut mode: i32) -> Option<i32> {
    let exchange = (*EXCHANGE_MODE)?;
    // SAFETY: the pointer is to a local.
    let code = unsafe { exchange(&mut mode) };
    check_code("cuThreadExchangeStreamCaptureMode", code).ok().map(|()| mode)
}
