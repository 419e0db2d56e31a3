//! The command `pleach`. Its code is in the library's module `program`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pleach::program::main()
}
