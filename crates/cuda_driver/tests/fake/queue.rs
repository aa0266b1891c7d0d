//! Streams and events.

use super::{NOT_READY, SUCCESS, call, log, new_handle, state};

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
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: usize) -> i32 {
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
    SUCCESS
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
    with!(|state| state.events.insert(event, (stream, false)));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: usize) -> i32 {
    call("cuEventQuery");
    if with!(|state| state.events[&event].1) { SUCCESS } else { NOT_READY }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: usize) -> i32 {
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
