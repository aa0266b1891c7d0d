//! The host backend: every function is a call into the simulation that runs on this thread.

use half::f16;

macro_rules! stubs {
    ($($name:ident),*) => {$(
        pub fn $name() -> u32 { todo!() }
    )*};
}
stubs!(
    thread_idx_x,
    thread_idx_y,
    thread_idx_z,
    block_idx_x,
    block_idx_y,
    block_idx_z,
    block_dim_x,
    block_dim_y,
    block_dim_z,
    grid_dim_x,
    grid_dim_y,
    grid_dim_z,
    lane_id,
    shared_dynamic,
    shared_dynamic_bytes
);
pub unsafe fn sync_threads() {
    todo!()
}
pub unsafe fn sync_warp(_mask: u32) {
    todo!()
}
pub unsafe fn shuffle_bfly(_mask: u32, _value: u32, _operand: u32) -> u32 {
    todo!()
}
pub unsafe fn shuffle_down(_mask: u32, _value: u32, _operand: u32) -> u32 {
    todo!()
}
pub unsafe fn shuffle_up(_mask: u32, _value: u32, _operand: u32) -> u32 {
    todo!()
}
pub unsafe fn shuffle_idx(_mask: u32, _value: u32, _operand: u32) -> u32 {
    todo!()
}
pub fn shared_static(_bytes: usize) -> u32 {
    todo!()
}
pub fn fma_f32(_a: f32, _b: f32, _c: f32) -> f32 {
    todo!()
}
pub fn fma_f64(_a: f64, _b: f64, _c: f64) -> f64 {
    todo!()
}
pub fn f16_to_f32(_value: f16) -> f32 {
    todo!()
}
pub fn f32_to_f16(_value: f32) -> f16 {
    todo!()
}
pub unsafe fn global_load<V: Copy>(_address: u64) -> V {
    todo!()
}
pub unsafe fn global_load_if<V: Copy>(_address: u64, _predicate: bool) -> V {
    todo!()
}
pub unsafe fn global_store<V: Copy>(_address: u64, _value: V) {
    todo!()
}
pub unsafe fn global_store_if<V: Copy>(_address: u64, _value: V, _predicate: bool) {
    todo!()
}
pub unsafe fn shared_load<V: Copy>(_address: u32) -> V {
    todo!()
}
pub unsafe fn shared_load_if<V: Copy>(_address: u32, _predicate: bool) -> V {
    todo!()
}
pub unsafe fn shared_store<V: Copy>(_address: u32, _value: V) {
    todo!()
}
pub unsafe fn shared_store_if<V: Copy>(_address: u32, _value: V, _predicate: bool) {
    todo!()
}
