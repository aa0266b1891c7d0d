//! Tensor maps (TMA descriptors): what bulk copies must be told of A, B, C and D.
//!
//! A kernel may bring its slices and C by bulk copies ([`cuda_std::bulk_copy`]), and store D by them. It names the
//! shape of the boxes that it copies ([`GemmKernel::BOXES`](crate::kernel::GemmKernel::BOXES)). The launch makes a map
//! of each matrix as it is stored, in such boxes, and passes the maps as parameters of their own, since copies need
//! their addresses. The entry that [`gemm_kernels!`](crate::gemm_kernels) makes of a row with `factors = mapped` hands
//! those addresses on in [`GemmParams::maps`].
//!
//! Copies take rows that begin at multiples of 16 bytes. Of factors in other rows the maps are those of copies, which a
//! launch before has made ([`crate::prepare::repack`]); what lies behind the end of a row is zero to the kernel either
//! way.
//!
//! C and D need not be such that bulk copies can take: a last parameter says whether they are [mapped](Mappings), and
//! where they are not nobody looks at their maps.
//!
//! A map has three dimensions: columns, rows, and matrices of a batch. Matrices are counted from that of the launch's
//! first product, and there is a single one where all products share it.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::KernelInfo;
use crate::layout::{Layout, Layouts};
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
    /// Of A.
    pub a: BoxShape,
    /// Of B.
    pub b: BoxShape,
    /// Whether what a factor along k has besides whole boxes comes in a [box of its own](Factors).
    pub rests: bool,
    /// Of C, if the kernel brings it by bulk copies: [`addend`](crate::warpgroup::addend).
    pub c: Option<BoxShape>,
    /// Of D, if the kernel stores it by bulk copies.
    pub d: Option<BoxShape>,
}

impl Boxes {
    /// The boxes of A and B for a kernel whose tiles are as [wide](KernelInfo::width) as that. Where tiles fit and the
    /// factor across their width is stored by rows along k, it has as many rows, or what each block of a cluster brings
    /// of these.
    pub fn of_factors(&self, kernel: &KernelInfo, width: u32) -> [BoxShape; 2] {
        let with_rows = |of: BoxShape, rows| BoxShape { rows, ..of };
        let of_width = width / kernel.sharing_width();
        let fits = kernel.fits && kernel.has_width_along_k();
        let of_a = if fits && kernel.swapped { with_rows(self.a, of_width) } else { self.a };
        let of_b = if fits && !kernel.swapped { with_rows(self.b, of_width) } else { self.b };
        [of_a, of_b]
    }

    /// The same of the maps that a kernel looks at for an A of `m` rows and a B of `n` columns: those of whole boxes,
    /// and those of rests.
    pub fn of_maps(
        &self,
        kernel: &KernelInfo,
        width: u32,
        (m, n): (u32, u32),
    ) -> [[Option<BoxShape>; 2]; 2] {
        let [a, b] = self.of_factors(kernel, width);
        let Layouts { a: of_a, b: of_b } = kernel.multiplied;
        let of = |whole: BoxShape, is_along_k: bool, extent: u32| {
            if !self.rests || !is_along_k {
                return [Some(whole), None];
            }
            let rest = BoxShape { rows: extent % whole.rows, ..whole };
            [Some(whole), (rest.rows > 0).then_some(rest)]
        };
        let [whole_a, rest_a] = of(a, of_a == Layout::RowMajor, m);
        let [whole_b, rest_b] = of(b, of_b == Layout::Transposed, n);
        [[whole_a, whole_b], [rest_a, rest_b]]
    }
}

/// The maps of A and B, of which that on the left comes first where they are [swapped](crate::swapped): in whole boxes,
/// and of what they have besides these along k.
///
/// What of a box lies outside of a factor hardware fills with zeros, and takes three times as long for that as to copy
/// it: 200 rows in two boxes of 128 take 1.5 times as long as 256 for a product of 4096 columns in tiles of 128 x 64
/// (H100). So what there is behind the last whole box is copied in a smaller one, its *rest*, and nothing is where
/// there is nothing ([`unbrought`](crate::warpgroup::unbrought)).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    /// In whole boxes.
    pub wholes: [TensorMap; 2],
    /// Of the rests, as far as there are some.
    pub rests: [TensorMap; 2],
}

/// A map that nobody looks at.
pub const UNUSED: TensorMap = TensorMap { opaque: [0; TensorMap::WORDS] };

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
    pub const NONE: Self = Results { c: UNUSED, d: UNUSED };
}

/// The maps of all matrices of a product. They are one parameter, since the address of each takes a register.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// Of A and B.
    pub factors: Factors,
    /// Of C and D.
    pub results: Results,
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

    /// And C, which all products share, or of which each has its own. It is there for an epilogue that [adds
    /// it](crate::epilogue::Short::of_c).
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
    /// Where the launch has put them.
    matrices: *const Matrices,
    /// Which of C and D are mapped.
    mappings: Mappings,
    /// What a launch says by [`of_products`](Self::of_products).
    products: u32,
}

impl Maps {
    /// None, for one product of a batch for each block along y.
    pub const NONE: Self = Self::of_products(1);

    /// None, for so many products, at least one, of which each block that stays goes through all, one after another:
    /// what launches pass to kernels that [can](crate::kernel::GemmKernel::WALKS_BATCHES).
    pub const fn of_products(products: u32) -> Self {
        let matrices = core::ptr::null();
        Maps { matrices, mappings: Mappings::NONE, products }
    }

    /// Those of A and B, and of C and D where these are mapped, of as many products as `launched`, which is what the
    /// launch has passed. They are used as long as the factors live.
    #[device_inline]
    pub const fn new(matrices: &Matrices, mappings: Mappings, launched: &Maps) -> Self {
        Maps { matrices: core::ptr::from_ref(matrices), mappings, products: launched.products }
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

/// One factor as bulk copies find what lies inside of it.
#[derive(Clone, Copy)]
pub struct Inside<'a> {
    /// The factor in whole boxes.
    pub whole: Mapped<'a>,
    /// In boxes of what it has besides these along k.
    pub rest: Mapped<'a>,
    /// Its rows of A or columns of B, unless whole boxes are brought whatever is outside, or nothing is.
    pub end: Option<u32>,
}

impl<'a> Inside<'a> {
    /// A factor that comes in whole boxes alone: hardware fills with zeros what lies outside of it.
    #[device_inline]
    pub const fn whole(whole: Mapped<'a>) -> Self {
        Inside { whole, rest: whole, end: None }
    }
}

impl<T: Element, E: Epilogue<D>, D: Element> GemmParams<T, E, D> {
    /// A and B of the product, which [end](Inside::end) so.
    ///
    /// # Safety
    /// As for [`mapped_factors`](Self::mapped_factors), of which the [boxes](Boxes::rests) have rests.
    #[device_inline]
    pub unsafe fn factors_inside(&self, [m, n]: [Option<u32>; 2]) -> (Inside<'_>, Inside<'_>) {
        // SAFETY: as promised by the caller; the entry refers to its own parameters, which live as long as the launch.
        let ((a, b), [rest_a, rest_b]) =
            unsafe { (self.mapped_factors(), &(*self.maps.matrices).factors.rests) };
        (
            Inside { whole: a, rest: Mapped { map: rest_a, ..a }, end: m },
            Inside { whole: b, rest: Mapped { map: rest_b, ..b }, end: n },
        )
    }

    /// A and B of the product.
    ///
    /// # Safety
    /// These are the parameters of a kernel that has maps.
    #[device_inline]
    pub unsafe fn mapped_factors(&self) -> (Mapped<'_>, Mapped<'_>) {
        // SAFETY: the entry refers to its own parameters, which live as long as the launch.
        let [a, b] = unsafe { &(*self.maps.matrices).factors.wholes };
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
        self.mapped(unsafe { &(*self.maps.matrices).results.c }, u64::from(!is_shared))
    }

    /// D of the product.
    ///
    /// # Safety
    /// It is [mapped](Self::d_is_mapped_anew).
    #[device_inline]
    pub unsafe fn mapped_d(&self) -> Mapped<'_> {
        // SAFETY: as promised by the caller; the entry refers to its own parameters, which live as long as the launch.
        self.mapped(unsafe { &(*self.maps.matrices).results.d }, self.d.stride)
    }

    /// The product's matrix of a map of those that lie `stride` elements apart.
    #[device_inline]
    fn mapped<'a>(&self, map: &'a TensorMap, stride: u64) -> Mapped<'a> {
        Mapped { map, index: if stride == 0 { 0 } else { self.epilogue.product() as i32 } }
    }
}
