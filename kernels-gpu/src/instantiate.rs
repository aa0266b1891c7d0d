//! The macros that make kernels of rows: PTX entries on the device, tables on the host. [`table`](crate::table) has the
//! rows of this crate; a kernel crate of a user's own has others.

/// Instantiates kernels: one PTX entry a row, and a table of all rows.
///
/// A row is `name = Kernel<..>, epilogue = E, min_blocks = n;`. Kernel crates of users call it with their own
/// epilogues.
///
/// A family of kernels, the same for all layouts or for several element types, is one row: `{L}` in a name stands for
/// layouts and `{T}` for types, `L` and `T` for the types themselves. `name{L}_{T} = Kernel<T, .., L>, epilogue = E<T>,
/// min_blocks = n, for T in [f16, bf16];` is eight rows, from `name_f16` and `name_nt_f16` to `name_tt_bf16`
/// (`kernel_families`).
///
/// A kernel of [`Schedule::SplitK`](crate::kernel::Schedule) also names its reducer, one of
/// [`reducers!`](crate::reducers) with the same epilogue: `.., min_blocks = n, reducer = name;`.
///
/// A kernel that makes bulk copies, and so has [`BOXES`](crate::kernel::GemmKernel::BOXES), takes maps of its matrices
/// besides the other parameters: `.., min_blocks = n, factors = mapped;`.
///
/// A kernel that is one of two for a product, between which the GPU [decides](crate::prepare::decision), takes what it
/// decides by as one more parameter, its last, and runs only if one of the tests there says so: `.., min_blocks = n,
/// only = unmarked;`.
///
/// A kernel that differs from that of an earlier row in the type of its results alone, and leaves all of them to its
/// reducer, is the same code: `.., min_blocks = n, reducer = name, entry = earlier;` makes no entry of its own. So is
/// one whose factors are [transposed](crate::prepare::transposed) before. Of a family one row may be that of the entry:
/// `name{L}_f32 = .., entry = name_tn_f32;`.
#[macro_export]
macro_rules! gemm_kernels {
    ($(#[$doc:meta])* $table:ident: $($rows:tt)*) => {
        $crate::families! {
            { $crate } { $crate::__gemm_kernels! } { $(#[$doc])* $table: } { $($rows)* }
        }
    };
}

/// [`gemm_kernels!`] when families are written out.
#[doc(hidden)]
#[macro_export]
macro_rules! __gemm_kernels {
    (
        $(#[$doc:meta])* $table:ident:
        $(
            $name:ident = $kernel:ty, epilogue = $epilogue:ty, min_blocks = $min_blocks:expr
            $(, reducer = $reducer:ident)? $(, factors = $mapped:ident)? $(, only = $only:ident)?
            $(, entry = $entry:ident)?;
        )*
    ) => {
        $($crate::__gemm_entry! {
            $name = $kernel, $epilogue, $min_blocks
            $(, factors = $mapped)? $(, only = $only)? $(; $entry)?
        })*

        $(#[$doc])*
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $table: &[$crate::kernel::KernelInfo] = &[$(
            $crate::kernel::KernelInfo {
                name: stringify!($name),
                rung: <$kernel as $crate::kernel::GemmKernel>::RUNG,
                dtype: <$kernel as $crate::kernel::GemmKernel>::DTYPE,
                target: <<$kernel as $crate::kernel::GemmKernel>::Target
                    as $crate::element::Element>::DTYPE,
                layouts: <$kernel as $crate::kernel::GemmKernel>::STORED,
                multiplied: <$kernel as $crate::kernel::GemmKernel>::LAYOUTS,
                summation: <$kernel as $crate::kernel::GemmKernel>::SUMMATION,
                tile: $crate::swapped::tile_of_d::<$kernel>(),
                shared_bytes: <$kernel as $crate::kernel::GemmKernel>::SHARED_BYTES,
                schedule: <$kernel as $crate::kernel::GemmKernel>::SCHEDULE,
                finishes: <$kernel as $crate::kernel::GemmKernel>::FINISHES,
                keeps_pace: <$kernel as $crate::kernel::GemmKernel>::KEEPS_PACE,
                swapped: <$kernel as $crate::kernel::GemmKernel>::SWAPPED,
                fits: <$kernel as $crate::kernel::GemmKernel>::FITS,
                walks_batches: <$kernel as $crate::kernel::GemmKernel>::WALKS_BATCHES,
                depth_groups: <$kernel as $crate::kernel::GemmKernel>::DEPTH_GROUPS,
                short_side: <$kernel as $crate::kernel::GemmKernel>::SHORT_SIDE,
                turns: <$kernel as $crate::kernel::GemmKernel>::TURNS,
                producers: <$kernel as $crate::kernel::GemmKernel>::PRODUCERS,
                cluster: <$kernel as $crate::kernel::GemmKernel>::CLUSTER,
                cluster_cols: $crate::swapped::cluster_cols_of_d::<$kernel>(),
                needs: <$kernel as $crate::kernel::GemmKernel>::NEEDS,
                boxes: $crate::swapped::boxes_of_factors::<$kernel>(),
                reducer: $crate::kernel::checked_reducer::<$kernel, $epilogue>($crate::__reducer!(
                    <<$kernel as $crate::kernel::GemmKernel>::Target as $crate::element::Element>::DTYPE
                    $(, $reducer)?
                )),
                entry: $crate::__entry!($name = $kernel, $epilogue $(, $entry)?),
            },
        )*];
    };
}

/// The PTX entry of a row.
#[doc(hidden)]
#[macro_export]
macro_rules! __gemm_entry {
    (
        $name:ident = $kernel:ty, $epilogue:ty, $min_blocks:expr
        $(, factors = $mapped:ident)? $(, only = $only:ident)?
    ) => {
        /// A row of the table: see there.
        ///
        /// # Safety
        /// As [`GemmKernel::run`]($crate::kernel::GemmKernel::run).
        #[::cuda_std::kernel(
            max_threads = $crate::kernel::threads::<$kernel>(),
            min_blocks = $min_blocks,
            cluster = <$kernel as $crate::kernel::GemmKernel>::CLUSTER,
            early_start
        )]
        pub unsafe fn $name(
            params: $crate::params::GemmParams<
                <$kernel as $crate::kernel::GemmKernel>::Element,
                $epilogue,
                <$kernel as $crate::kernel::GemmKernel>::Target,
            >,
            // Named as the row has them: the matrices that are mapped, and the test of its decision.
            $(#[grid_constant] $mapped: &$crate::maps::Matrices, mappings: $crate::maps::Mappings,)?
            $($only: $crate::prepare::decision::Decision,)?
        ) {
            const {
                assert!(
                    <$kernel as $crate::kernel::GemmKernel>::BOXES.is_some()
                        == $crate::__is_mapped!($($mapped)?),
                    "a kernel that makes bulk copies, and no other, has `factors = mapped`"
                )
            }
            if const { !<$kernel as $crate::kernel::GemmKernel>::NEEDS.met_by_target() } {
                ::cuda_std::thread::trap();
            }
            if const { !<$kernel as $crate::kernel::GemmKernel>::WAITS } {
                ::cuda_std::early_start::wait();
            }
            if !$crate::__decided!($($only)?) {
                return;
            }
            let params = $crate::params::GemmParams {
                $(maps: $crate::maps::Maps::new($mapped, mappings, &params.maps),)?
                ..params.of_block()
            };
            // SAFETY: the launcher keeps the kernel's contract.
            unsafe { <$kernel as $crate::kernel::GemmKernel>::run(params) }
        }
    };
    // The entry is that of another row.
    ($name:ident = $kernel:ty, $epilogue:ty, $min_blocks:expr $(, factors = $mapped:ident)?; $entry:ident) => {};
}

/// The entry of a row as a value: its own, or that of another one, which must take the same parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! __entry {
    ($name:ident = $kernel:ty, $epilogue:ty) => {
        $name::ENTRY
    };
    ($name:ident = $kernel:ty, $epilogue:ty, $entry:ident) => {{
        const {
            type Params = $crate::params::GemmParams<
                <$kernel as $crate::kernel::GemmKernel>::Element,
                $epilogue,
                <$kernel as $crate::kernel::GemmKernel>::Target,
            >;
            let parameter = ::cuda_std::entry::Parameter::of::<Params>();
            let first = &$entry::ENTRY.parameters[0];
            assert!(
                first.size == parameter.size && first.align == parameter.align,
                "kernels that share an entry take the same parameters"
            );
            assert!(
                !<$kernel as $crate::kernel::GemmKernel>::FINISHES,
                "a kernel that stores results has an entry of its own"
            );
        }
        $entry::ENTRY
    }};
}

/// A reducer as a value, or none.
#[doc(hidden)]
#[macro_export]
macro_rules! __reducer {
    ($dtype:expr) => {
        None
    };
    ($dtype:expr, $name:ident) => {
        Some($crate::kernel::Reducer {
            name: stringify!($name),
            dtype: $dtype,
            entry: $name::ENTRY,
        })
    };
}

/// Whether a row has `factors = mapped`.
#[doc(hidden)]
#[macro_export]
macro_rules! __is_mapped {
    () => {
        false
    };
    (mapped) => {
        true
    };
}

/// Whether a test of its decision says that a kernel runs, or there is none.
#[doc(hidden)]
#[macro_export]
macro_rules! __decided {
    () => {
        true
    };
    ($only:ident) => {
        // SAFETY: the launcher keeps the decision's contract.
        unsafe { $only.$only() }
    };
}

/// Instantiates [reducers](crate::schedule::reduce): one PTX entry a row, and a table of all rows.
///
/// A row is `name = T, epilogue = E;`. Behind a kernel of which the GPU [decides](crate::prepare::decision) whether it
/// runs, the reducer decides the same: `name = T, epilogue = E, only = unmarked;`.
#[macro_export]
macro_rules! reducers {
    (
        $(#[$doc:meta])* $table:ident:
        $($name:ident = $element:ty, epilogue = $epilogue:ty $(, only = $only:ident)?;)*
    ) => {
        $(
            /// A row of the table: see there.
            ///
            /// # Safety
            /// As [`reduce`]($crate::schedule::reduce::reduce).
            #[::cuda_std::kernel(
                max_threads = $crate::schedule::reduce::THREADS,
                min_blocks = $crate::schedule::reduce::MIN_BLOCKS,
                early_start
            )]
            pub unsafe fn $name(
                params: $crate::params::GemmParams<$element, $epilogue>,
                // Named after its test.
                $($only: $crate::prepare::decision::Decision,)?
            ) {
                ::cuda_std::early_start::wait();
                if !$crate::__decided!($($only)?) {
                    return;
                }
                // SAFETY: the launcher keeps the contract.
                unsafe { $crate::schedule::reduce::reduce(params.of_block()) }
            }
        )*

        $(#[$doc])*
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $table: &[$crate::kernel::Reducer] = &[$(
            $crate::kernel::Reducer {
                name: stringify!($name),
                dtype: <$element as $crate::element::Element>::DTYPE,
                entry: $name::ENTRY,
            },
        )*];
    };
}
