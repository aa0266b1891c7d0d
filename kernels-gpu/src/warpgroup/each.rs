//! Code for each of a thread's sums: registers have names and no indices, so there is a copy for every one.

/// What is to be done with each register `$i` of a thread that has those of `$n` columns by 64 rows.
macro_rules! for_each_register {
    ($n:ident, $i:ident, $body:expr) => {
        $crate::warpgroup::each::for_each_register!(@ $n, $i, $body, 0 32 64 96)
    };
    (@ $n:ident, $i:ident, $body:expr, $($first:literal)*) => {$(
        ::cuda_std::unroll!(j < 32, {
            if const { $first + j < $n / 2 } {
                const $i: usize = $first + j;
                $body;
            }
        });
    )*};
}
pub(crate) use for_each_register;
