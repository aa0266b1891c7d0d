//! Stub.
/// Stub.
#[derive(Clone, Copy)]
pub struct Mbarrier(u32);
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! asm { ($t:tt, out(reg32) $o:ident, $($r:tt)*) => { { $o = 1u32; unimplemented!() } }; ($($t:tt)*) => { unimplemented!() } }
#[allow(missing_docs)]
impl Mbarrier {
    #[inline(always)]
    pub fn at(a: u32) -> Self { Self(a) }
    #[inline(always)]
    pub unsafe fn init(self, _c: u32) { unsafe { asm!("mbarrier.init.shared.b64 [{0}], {1};", in(reg32) self.0, in(reg32) _c, options(nostack)); } }
    #[inline(always)]
    pub unsafe fn arrive(self) { unsafe { asm!("{{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [{0}]; }}", in(reg32) self.0, options(nostack)); } }
    #[inline(always)]
    pub unsafe fn arrive_on_copies(self) { unsafe { asm!("cp.async.mbarrier.arrive.noinc.shared.b64 [{0}];", in(reg32) self.0, options(nostack)); } }
    #[inline(always)]
    pub unsafe fn wait(self, _parity: u32) {
        unsafe { loop { let ok: u32; asm!("{{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}", out(reg32) ok, in(reg32) self.0, in(reg32) _parity, options(nostack)); if ok != 0 { break; } } }
    }
}
