//! Who sums what, and in which order: together they decide the bits of a result.

/// How the sums of a product are shared out among blocks, which decides a launch's grid and workspace. In which order
/// each is summed says [`Summation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// A tile of D for each block along x: `blocks(m, n)` in all. No workspace. Each element is that of one block over
    /// all of k.
    #[default]
    Tiles,
    /// As many blocks along x as there are multiprocessors, or tiles if those are fewer. In a batch the tiles are those
    /// of all products, where the kernel [can go through them](super::GemmKernel::WALKS_BATCHES)
    /// ([`crate::schedule::batches`]); else there are as many blocks as tiles for each product. Block `i` takes the
    /// tiles `i`, `i` and the number of blocks, and so on, of which [`crate::schedule::parts`] says where they are.
    /// Where blocks are in clusters it is these that are counted, and each takes as many tiles as it has blocks, one
    /// above the other or [beside it](super::GemmKernel::CLUSTER_COLS).
    ///
    /// The tiles of a last round that would keep only some of the blocks busy may be shared among them as with
    /// [`StreamK`](Schedule::StreamK), if the kernel [can](super::KernelInfo::shares_tiles): then these are the first
    /// ones, and all blocks begin with them. Without that there is no workspace, and the bits are those that `Tiles`
    /// would give.
    Persistent,
    /// A tile for each block along x, and for each along z a slice of K: slice `s` is k from `s * slice_depth` to
    /// `(s + 1) * slice_depth` or the end. Every block stores the sums of its slice to the workspace
    /// ([`crate::schedule::partials`] says where), and a second launch, of the kernel's [`Reducer`](super::Reducer),
    /// adds them up and applies the epilogue. Where there is one slice, blocks of kernels that
    /// [finish](super::GemmKernel::FINISHES) do that themselves, and there is neither workspace nor second launch.
    ///
    /// A slice is summed as a kernel of the same [`Summation`] sums all of k, of halves in two steps, and the sums of
    /// the slices are added to that of slice 0 in ascending order: for the same `slice_depth` kernels that sum alike
    /// give the same bits. The reducer has the activations of every epilogue, where warpgroups have shorter ones
    /// ([`crate::epilogue::fast_activation`]).
    SplitK,
    /// A tile for each cluster of blocks, which follow each other along x; the blocks share K equally, each a part in
    /// the order of their ranks or steps of it in turn, and add their sums up through each other's shared memory. No
    /// workspace.
    ClusterK,
    /// The last tiles of D, which are too few for all multiprocessors, are *shared*: as many blocks as there are
    /// multiprocessors take equal parts of all their slices of k, tile after tile, wherever that cuts a tile in two.
    /// After those blocks come the other tiles, one for each block ([`crate::schedule::shares`]). All blocks lie along
    /// x.
    ///
    /// A block that ends in the midst of a tile stores its sums to the workspace, `BM x BN` of them for each of its
    /// [groups](super::GemmKernel::DEPTH_GROUPS), and gives a signal, one for each of them too. The block that has the
    /// end of the tile adds them to its own sums, those of the smallest k first. All that sum over a part of k do so as
    /// [`Tiles`](Schedule::Tiles) does. So the bits depend on `BK`, the number of blocks that share and what they
    /// share, and on nothing else; where nothing is shared they are those of `Tiles`.
    StreamK,
}

/// In which order a kernel adds up the products of an element of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Summation {
    /// In ascending order of k, by fused multiply-adds into one accumulator that starts at zero: the same bits with
    /// every kernel, in all layouts, on the simulator and on every GPU. A sum of nothing but zeros and of products that
    /// are rounded to zero may have either sign: kernels with slices go on with zeros to a multiple of `BK`, after
    /// which it is positive.
    Ascending,
    /// By each of a kernel's [`DEPTH_GROUPS`](super::GemmKernel::DEPTH_GROUPS) in the same way, but only over its own
    /// part of every `BK` values of k: the first group over the first, and so on, all of the same length, as if A and B
    /// went on with zeros to a multiple of `BK`. Then the sums of the groups are added to that of the first, in order.
    /// The same bits with every kernel of as many groups and the same `BK`, in all layouts, on the simulator and on
    /// every GPU.
    InGroups,
    /// In ascending order of k by as many at a time as an instruction takes, which tensor cores add up in a way of
    /// their own: 16 of half precision and 8 of TF32 ([`cuda_std::mma`]), and of f64 ([`cuda_std::mma::double`]) 4, or
    /// 8 by kernels whose blocks [stay](Schedule::Persistent). The same bits with every such kernel of the same
    /// [`Schedule`] on one machine, but not on another.
    TensorCores,
    /// The same by instructions of whole warpgroups ([`cuda_std::wgmma`]), which need not add up as those of warps do.
    Warpgroups,
    /// As `Warpgroups` does, but only [`PROMOTED`](crate::warpgroup::promoted::PROMOTED) values of k at a time, whose
    /// sums are added up as f32 is. The same bits with every such kernel of the same [`Schedule`] on one machine.
    Promoted,
    /// Of numbers in two halves: products of high ones as `Warpgroups` or `TensorCores` does, but only
    /// [`PROMOTED`](crate::warpgroup::halves::PROMOTED) values of k at a time, or half as many, whose sums are added up
    /// as f32 is, in one step or two ([`crate::warpgroup::halves`]); then those of high ones with low ones, all as it
    /// does, are added to that. The same bits with every such kernel of the same rung and as many steps on one machine,
    /// for the same slices of K.
    Halves,
    /// Of numbers rounded to one half: as `Warpgroups` does.
    Rounded,
}
