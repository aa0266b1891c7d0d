//! What bulk copies must be told of A, B, C and D.
//!
//! A kernel that brings its slices by bulk copies ([`cuda_std::bulk_copy`]), and C, and stores D by them, says in boxes of which shape it does
//! so ([`GemmKernel::BOXES`](crate::kernel::GemmKernel::BOXES)). The launch makes a map of each matrix as it is stored, in such boxes,
//! and passes the maps as parameters of their own, since copies need their addresses. The entry that
//! [`gemm_kernels!`](crate::gemm_kernels) makes of a row with `factors = mapped` hands those addresses on in [`GemmParams::maps`].
//!
//! Copies take rows that begin at multiples of 16 bytes. Of factors in other rows the maps are those of copies, which a launch before
//! has made ([`crate::prepare::repack`]); what lies behind the end of a row is zero to the kernel either way.
//!
//! C and D need not be such that bulk copies can take: a last parameter says whether they are [mapped](Mappings), and where they are not nobody looks at their maps.
//!
//! A map has three dimensions: columns, rows, and matrices of a batch. Matrices are counted from that of the launch's first
//! product, and there is a single one where all products share it.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::KernelInfo;
use crate::params::GemmParams;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::device_inline;
use cuda_std::hint;
use cuda_std::swizzle::Swizzle;

/// What one bulk copy brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoxShape {
    /// Rows of what is stored.
    pub rows: u32,
    /// Columns of what is stored.
    pub cols: u32,
    /// How they lie in shared memory.
    pub swizzle: Swizzle,
}

/// The boxes of all matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Boxes {
    /// Of A, unless it has fewer rows.
    pub a: BoxShape,
    /// Whether boxes of an A that has fewer rows have as few: [`fitted`]. Such an A is stored by rows along k.
    pub fits_a: bool,
    /// Of B.
    pub b: BoxShape,
    /// Of C, if the kernel brings it by bulk copies: [`addend`](crate::warpgroup::addend).
    pub c: Option<BoxShape>,
    /// Of D, if the kernel stores it by bulk copies.
    pub d: Option<BoxShape>,
}

/// Rows of the box of a factor that has `rows`, where a box has `most` otherwise: no more than are needed to hold it, in powers of two.
///
/// What of a box lies outside of the factor hardware fills with zeros, but that takes longer than to copy it: of 16 rows in boxes of 128 a
/// product of 4096 columns takes 1.6 times as long as in boxes of 16 (H200).
#[device_inline]
pub const fn fitted(rows: u32, most: u32) -> u32 {
    const LEAST: u32 = 16;
    if rows > most / 2 {
        most
    } else if rows <= LEAST {
        LEAST
    } else {
        rows.next_power_of_two()
    }
}

impl Boxes {
    /// Rows of the box of an A of `m` rows.
    const fn rows_of_a(&self, m: u32) -> u32 {
        if self.fits_a { fitted(m, self.a.rows) } else { self.a.rows }
    }

    /// Whether an A of `m` rows is so few of them that a kernel clears the rest of its slices, while the first come.
    pub const fn clears_rows(&self, m: u32) -> bool {
        self.rows_of_a(m) < self.a.rows
    }

    /// The boxes of A and B for a kernel whose tiles are as [wide](KernelInfo::width) as that, and an A of `m` rows. Where tiles fit and the factor across their
    /// width is stored by rows along k, it has as many rows, or what each block of a cluster brings of these.
    pub fn of_factors(&self, kernel: &KernelInfo, m: u32, width: u32) -> [BoxShape; 2] {
        let with_rows = |of: BoxShape, rows| BoxShape { rows, ..of };
        let of_width = width / kernel.sharing_width();
        let fits = kernel.fits && kernel.has_width_along_k();
        let of_a = if fits && kernel.swapped { of_width } else { self.rows_of_a(m) };
        let of_a = with_rows(self.a, of_a);
        let of_b = if fits && !kernel.swapped { with_rows(self.b, of_width) } else { self.b };
        [of_a, of_b]
    }
}

/// The maps of A and B.
pub type Factors<'a> = [&'a TensorMap; 2];

/// The maps of C and D.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Results {
    /// Of C.
    pub c: TensorMap,
    /// Of D.
    pub d: TensorMap,
}

impl Results {
    /// Neither is mapped: what is passed to kernels that nobody asks to copy them.
    pub const NONE: Self = {
        let nothing = TensorMap { opaque: [0; TensorMap::WORDS] };
        Results { c: nothing, d: nothing }
    };
}

/// Which of C and D are mapped, in one word.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mappings(u32);

impl Mappings {
    const D: u32 = 1;
    const C: u32 = 2;
    const C_IS_SHARED: u32 = 4;

    /// Neither.
    pub const NONE: Self = Mappings(0);

    /// And D.
    #[must_use]
    pub const fn with_d(self) -> Self {
        Mappings(self.0 | Self::D)
    }

    /// And C, which all products share, or of which each has its own. It is there for an epilogue that [adds it](crate::epilogue::Short::of_c).
    #[must_use]
    pub const fn with_c(self, is_shared: bool) -> Self {
        Mappings(self.0 | Self::C | if is_shared { Self::C_IS_SHARED } else { 0 })
    }

    /// The same, asked each time anew: the answer takes no register all the while, but code for each time.
    #[device_inline]
    fn anew(self) -> Self {
        Mappings(hint::opaque(self.0))
    }

    #[device_inline]
    const fn has(self, what: u32) -> bool {
        self.0 & what != 0
    }
}

/// Where the maps are, and of how many products a block goes through the matrices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    /// In the entry, which the kernel is compiled into: so that it knows them.
    factors: *const Factors<'static>,
    /// The same, of C and D.
    results: *const Results,
    /// Which of these are mapped.
    mappings: Mappings,
    /// What a launch says by [`of_products`](Self::of_products).
    products: u32,
}

impl Maps {
    /// None, for one product of a batch for each block along y.
    pub const NONE: Self = Self::of_products(1);

    /// None, for so many products, at least one, of which each block that stays goes through all, one after another: what launches pass to kernels that
    /// [can](crate::kernel::GemmKernel::WALKS_BATCHES).
    pub const fn of_products(products: u32) -> Self {
        let (factors, results) = (core::ptr::null(), core::ptr::null());
        Maps { factors, results, mappings: Mappings::NONE, products }
    }

    /// Those of A and B, and of C and D where these are mapped, of as many products as `launched`, which is what the launch has passed. They are used as long as
    /// the factors live.
    #[device_inline]
    pub const fn new(
        factors: &Factors<'_>,
        results: &Results,
        mappings: Mappings,
        launched: &Maps,
    ) -> Self {
        let factors = core::ptr::from_ref(factors).cast();
        Maps {
            factors,
            results: core::ptr::from_ref(results),
            mappings,
            products: launched.products,
        }
    }

    /// The same, with the number of products read anew.
    #[device_inline]
    pub fn anew(self) -> Self {
        Maps { products: hint::opaque(self.products), ..self }
    }

    /// Products that each block goes through.
    #[device_inline]
    pub const fn products(&self) -> u32 {
        self.products
    }
}

/// One matrix as bulk copies find it.
#[derive(Clone, Copy)]
pub struct Mapped<'a> {
    /// The map.
    pub map: &'a TensorMap,
    /// Which of its matrices is that of the product.
    pub index: i32,
}

impl<T: Element, E: Epilogue<D>, D: Element> GemmParams<T, E, D> {
    /// A and B of the product.
    ///
    /// # Safety
    /// These are the parameters of a kernel that has maps.
    #[device_inline]
    pub unsafe fn mapped_factors(&self) -> (Mapped<'_>, Mapped<'_>) {
        // SAFETY: the entry refers to its own parameters, which live as long as the launch.
        let [a, b] = unsafe { *self.maps.factors };
        (self.mapped(a, self.a_stride), self.mapped(b, self.b_stride))
    }

    /// Whether D is mapped, asked each time anew: the answer takes no register all the while, but code for each time.
    #[device_inline]
    pub fn d_is_mapped_anew(&self) -> bool {
        self.maps.mappings.anew().has(Mappings::D)
    }

    /// Whether C is mapped, asked each time anew.
    #[device_inline]
    pub fn c_is_mapped_anew(&self) -> bool {
        self.maps.mappings.anew().has(Mappings::C)
    }

    /// C of the product.
    ///
    /// # Safety
    /// It is [mapped](Self::c_is_mapped_anew).
    #[device_inline]
    pub unsafe fn mapped_c(&self) -> Mapped<'_> {
        let is_shared = self.maps.mappings.has(Mappings::C_IS_SHARED);
        // SAFETY: as promised by the caller; the entry refers to its own parameters, which live as long as the launch.
        self.mapped(unsafe { &(*self.maps.results).c }, u64::from(!is_shared))
    }

    /// D of the product.
    ///
    /// # Safety
    /// It is [mapped](Self::d_is_mapped_anew).
    #[device_inline]
    pub unsafe fn mapped_d(&self) -> Mapped<'_> {
        // SAFETY: as promised by the caller; the entry refers to its own parameters, which live as long as the launch.
        self.mapped(unsafe { &(*self.maps.results).d }, self.d.stride)
    }

    /// The product's matrix of a map of those that lie `stride` elements apart.
    #[device_inline]
    fn mapped<'a>(&self, map: &'a TensorMap, stride: u64) -> Mapped<'a> {
        Mapped { map, index: if stride == 0 { 0 } else { self.epilogue.product() as i32 } }
    }
}
