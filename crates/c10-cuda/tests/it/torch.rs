//! PyTorch's Python package, where there is one: the interpreter that `TORCH_PYTHON` names, else `python3`.

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a script with `input` on its standard input, and gives what it prints. `None`, and a line that says so,
/// where there is no PyTorch.
#[expect(clippy::print_stdout, reason = "says that a test was skipped")]
pub(crate) fn run(script: &str, args: &[&str], input: &[u8]) -> Option<String> {
    let python = std::env::var("TORCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_torch = Command::new(&python)
        .args(["-c", "import torch.cuda._memory_viz"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_torch {
        println!("skipped: no PyTorch in `{python}` (TORCH_PYTHON names another)");
        return None;
    }
    let mut child = Command::new(&python)
        .args(["-c", script])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}
