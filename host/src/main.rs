//! The command `regemm`: see `regemm --help`.

mod command;

fn main() -> std::process::ExitCode {
    command::main()
}
