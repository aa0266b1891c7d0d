//! Streams and events.

use super::{
    CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, CAPTURED_EVENT, ILLEGAL_ADDRESS, INVALID_VALUE,
    NOT_READY, SUCCESS, answer, call, log, new_handle, spoils_capture, state,
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut usize,
    _flags: u32,
    _priority: i32,
) -> i32 {
    unsafe { *stream = new_handle() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(_stream: usize) -> i32 {
    call("cuStreamDestroy_v2");
    answer("FAKE_CUDA_STREAM_DESTROY")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: usize) -> i32 {
    if spoils_capture() {
        return CAPTURE_UNSUPPORTED;
    }
    if with!(|state| state.is_faulty) {
        return ILLEGAL_ADDRESS;
    }
    log(format!("finish stream {stream}"));
    with!(|state| for (recorded_on, reached) in state.events.values_mut() {
        *reached |= *recorded_on == stream;
    });
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _flags: u32) -> i32 {
    let on = with!(|state| state.events[&event].0);
    log(format!("stream {stream} waits for stream {on}"));
    with!(|state| {
        match (state.is_capturing(stream), state.captured_events.contains(&event)) {
            (false, true) => state.joined.push(stream),
            (true, false) => {
                state.is_capture_lost = true;
                return CAPTURE_UNSUPPORTED;
            }
            _ => {}
        }
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut usize, _flags: u32) -> i32 {
    call("cuEventCreate");
    unsafe { *event = new_handle() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: usize) -> i32 {
    call("cuEventDestroy_v2");
    with!(|state| state.events.remove(&event));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: usize, stream: usize) -> i32 {
    call("cuEventRecord");
    if std::env::var_os("FAKE_CUDA_CAPTURE_AT_RECORD").is_some()
        && !with!(|state| std::mem::replace(&mut state.has_interfered, true))
    {
        cuStreamBeginCapture_v2(stream, 0);
    }
    // The driver allows it; but the event then belongs to the graph and tells nothing about the stream.
    if with!(|state| state.is_capturing(stream)) {
        log(format!("event captured on stream {stream}"));
        with!(|state| state.captured_events.insert(event));
    } else {
        with!(|state| state.captured_events.remove(&event));
    }
    with!(|state| state.events.insert(event, (stream, false)));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: usize) -> i32 {
    call("cuEventQuery");
    if let Some(file) = std::env::var_os("FAKE_CUDA_HOLD_QUERY")
        && !with!(|state| std::mem::replace(&mut state.has_held, true))
    {
        log("hold query".into());
        while !std::path::Path::new(&file).exists() {
            std::thread::yield_now();
        }
    }
    if with!(|state| state.captured_events.contains(&event)) {
        return CAPTURED_EVENT;
    }
    if !with!(|state| state.is_relaxed) && spoils_capture() {
        return CAPTURE_UNSUPPORTED;
    }
    if with!(|state| state.is_faulty) {
        return ILLEGAL_ADDRESS;
    }
    if with!(|state| state.events[&event].1) { SUCCESS } else { NOT_READY }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: usize) -> i32 {
    if with!(|state| state.captured_events.contains(&event)) {
        return CAPTURED_EVENT;
    }
    if with!(|state| state.is_faulty) {
        return ILLEGAL_ADDRESS;
    }
    let stream = with!(|state| {
        let (stream, reached) = state.events.get_mut(&event).unwrap();
        *reached = true;
        *stream
    });
    log(format!("wait for stream {stream}"));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: usize,
    end: usize,
) -> i32 {
    let reached = with!(|state| state.events[&start].1 && state.events[&end].1);
    if !reached {
        return NOT_READY;
    }
    unsafe { *milliseconds = 1.5 };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: usize, _mode: i32) -> i32 {
    log(format!("begin capture of stream {stream}"));
    with!(|state| (state.capturing, state.is_capture_lost) = (Some(stream), false));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> i32 {
    log(format!("end capture of stream {stream}"));
    if with!(|state| state.capturing.take() != Some(stream)) {
        return INVALID_VALUE;
    }
    with!(|state| state.joined.clear());
    if with!(|state| state.is_capture_lost) {
        unsafe { *graph = 0 };
        return CAPTURE_INVALIDATED;
    }
    unsafe { *graph = new_handle() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: usize, status: *mut i32) -> i32 {
    call("cuStreamIsCapturing");
    unsafe { *status = i32::from(with!(|state| state.is_capturing(stream))) };
    answer("FAKE_CUDA_IS_CAPTURING")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo(
    stream: usize,
    status: *mut i32,
    id: *mut u64,
) -> i32 {
    call("cuStreamGetCaptureInfo");
    with!(|state| unsafe {
        *status = i32::from(state.is_capturing(stream));
        // That of the stream where it began.
        *id = state.capturing.unwrap_or_default() as u64;
    });
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut i32) -> i32 {
    const RELAXED: i32 = 2;
    const GLOBAL: i32 = 0;
    call("cuThreadExchangeStreamCaptureMode");
    with!(|state| {
        let before = if state.is_relaxed { RELAXED } else { GLOBAL };
        unsafe {
            state.is_relaxed = *mode == RELAXED;
            *mode = before;
        }
    });
    SUCCESS
}
