#!/usr/bin/env bash
# Gives this machine what compiling the kernels needs and a plain Rust installation may lack: the source of the
# standard library, beside a compiler of the same release. Run it as often as you like: where nothing is missing it does
# nothing.
set -euo pipefail
cd "$(dirname "$0")"

# As in cuda_builder (toolchain::MINIMUM_RELEASE).
readonly minimum_minor=95
readonly component_timeout=60
readonly debian_packages=(rustc-web cargo-web rust-web-src)
# Where the system's own compiler and its release are looked for: below another folder in tests.
readonly system_root=${SETUP_SYSTEM_ROOT:-}

say() { echo "setup: $*"; }

# The last lines of what a program said, without where it asked.
show_end_of() { tail -n 5 "$1" | sed -E 's#[a-z]+://[^ ]+#(mirror)#g; s/^/    /' >&2; }

# Whether the toolchain with this sysroot can compile kernels.
can_compile_kernels() {
    local sysroot=$1 version
    [[ -x $sysroot/bin/cargo && -e $sysroot/lib/rustlib/src/rust/library/core/src/lib.rs ]] || return 1
    version=$("$sysroot/bin/rustc" --version 2>/dev/null) || return 1
    [[ $version =~ ^rustc\ 1\.([0-9]+)\. ]] && ((BASH_REMATCH[1] >= minimum_minor))
}

# The sysroot of the compiler that `cargo build` uses here. rustup installs it first where it is not there yet, and says
# so.
active_sysroot() { if command -v rustc >/dev/null; then rustc --print sysroot </dev/null || true; fi; }

# Says so and ends if this toolchain can compile kernels.
finish_if_able() {
    local sysroot=$1 what=$2
    if [[ -n $sysroot ]] && can_compile_kernels "$sysroot"; then
        say "$what: $("$sysroot/bin/rustc" --version) in $sysroot has the library source"
        exit 0
    fi
}

# The same for the toolchains that cuda_builder tries first by itself.
finish_if_ready() {
    finish_if_able "$(active_sysroot)" "$1"
    finish_if_able "$system_root/usr" "$1"
}

# Where the variable names a toolchain cuda_builder takes that one or none.
check_explicit() {
    local sysroot=${CUDA_BUILDER_TOOLCHAIN:-}
    [[ -n $sysroot ]] || return 0
    finish_if_able "$sysroot" "nothing to do"
    cat >&2 <<EOF
setup: CUDA_BUILDER_TOOLCHAIN is $sysroot, which cannot compile kernels: that takes bin/rustc and bin/cargo of
Rust 1.$minimum_minor or newer, and lib/rustlib/src/rust/library. Let it name another sysroot, or unset it.
EOF
    exit 1
}

# Runs a command for so many seconds at most, where the system can end it.
within() {
    local seconds=$1
    shift
    if command -v timeout >/dev/null; then timeout "$seconds" "$@"; else "$@"; fi
}

with_rustup() {
    command -v rustup >/dev/null || return 1
    say "asking rustup for the component rust-src (at most $component_timeout s)"
    local log
    log=$(mktemp)
    if within "$component_timeout" rustup component add rust-src </dev/null >"$log" 2>&1; then
        rm -f "$log"
        finish_if_ready "done"
        say "the toolchain is not new enough with it"
    else
        say "rustup cannot add it here:"
        show_end_of "$log"
        rm -f "$log"
    fi
    return 1
}

# The version of the compiler that apt would install. The language of messages is that of the lines looked for.
apt_candidate() {
    LC_ALL=C apt-cache policy "${debian_packages[0]}" 2>/dev/null |
        awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}

# Whether a version such as 1.96.0+dfsg1-1 is that of a compiler that can do it.
is_new_enough() { [[ $1 =~ ^([0-9]+:)?1\.([0-9]+)\. ]] && ((BASH_REMATCH[2] >= minimum_minor)); }

with_apt() {
    [[ -r $system_root/etc/debian_version ]] && command -v apt-get >/dev/null || return 1
    local root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || { say "apt-get needs root, and there is no sudo"; return 1; }
        root=(sudo)
    fi
    say "installing Debian's compiler and its library source: ${debian_packages[*]}"
    local log candidate
    log=$(mktemp)
    if ! "${root[@]}" apt-get update >"$log" 2>&1 </dev/null; then
        say "apt-get update failed:"
        show_end_of "$log"
    fi
    candidate=$(apt_candidate)
    if ! is_new_enough "$candidate"; then
        rm -f "$log"
        say "nothing was installed: apt knows ${debian_packages[0]} ${candidate:-not at all}, and" \
            "1.$minimum_minor is needed; Debian's security updates have newer ones"
        return 1
    fi
    # These packages conflict with others of a compiler, which apt would remove.
    if "${root[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-remove --no-install-recommends "${debian_packages[@]}" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        finish_if_ready "done"
        say "apt-get installed $candidate, which does not compile kernels: no library source lies beside /usr/bin/rustc"
    elif grep -q "^The following packages will be REMOVED" "$log"; then
        say "apt-get would have to remove what conflicts with it, which is left to you:"
        sed -n '/^The following packages will be REMOVED/,/^[^ ]/{/^ /p}' "$log" >&2
        rm -f "$log"
    else
        say "apt-get failed:"
        show_end_of "$log"
        rm -f "$log"
    fi
    return 1
}

check_explicit
finish_if_ready "nothing to do"
with_rustup || with_apt || {
    cat >&2 <<EOF
setup: no toolchain with the source of the standard library could be installed. Do one of these by hand:
  with rustup:  rustup toolchain install, then rustup component add rust-src
  on Debian:    apt-get install ${debian_packages[*]}
  elsewhere:    your system's package of the library source, often named rust-src, beside its rustc and cargo
Rust 1.$minimum_minor or newer is needed. For a toolchain elsewhere set CUDA_BUILDER_TOOLCHAIN to its sysroot.
EOF
    exit 1
}
