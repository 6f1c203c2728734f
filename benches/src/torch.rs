//! PyTorch beside us: `torch_ops_bench` of the oracle for small operators, the Python package for large ones.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// `torch_ops_bench`, where it is built.
#[derive(Debug)]
pub struct SmallOps(PathBuf);

impl SmallOps {
    /// The program under `ORACLE_DIR` (by default `~/.cache/pytorch-oracle`), or why there is none.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn find() -> Result<Self, String> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        let folder = set("ORACLE_DIR").or_else(|| Some(cache()?.join("pytorch-oracle")));
        let program = folder.ok_or("neither ORACLE_DIR nor HOME is set")?.join("build/torch_ops_bench");
        match program.exists() {
            true => Ok(Self(program)),
            false => Err(format!("{} is not built: run xtask/oracle/build.sh", program.display())),
        }
    }

    /// Runs it once, and gives the nanoseconds of each of its cases: without a guard, and under `NoGradGuard` and
    /// `InferenceMode`, by the names of these.
    pub fn run(&self) -> HashMap<(String, String), f64> {
        let mut figures = HashMap::new();
        let Ok(run) = Command::new(&self.0).env("BENCH_REPS", "1").output() else { return figures };
        let mut section = String::new();
        for line in String::from_utf8_lossy(&run.stdout).lines() {
            if let Some(name) = line.strip_prefix("-- ") {
                name.clone_into(&mut section);
            } else if let Some((case, rest)) = line.split_once(" median ")
                && let Some(ns) = rest.split_whitespace().next().and_then(|word| word.parse().ok())
            {
                figures.insert((section.clone(), case.trim().to_owned()), ns);
            }
        }
        figures
    }
}

/// A script of this folder, as `torch_large.py`, running: it times a case when it is asked to.
#[derive(Debug)]
pub struct LargeOps {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl LargeOps {
    /// Starts it with the Python that `TORCH_PYTHON` names, or `python3`, and so many threads.
    ///
    /// # Errors
    /// Why it does not run, in words.
    pub fn start(script: &str, threads: usize) -> Result<Self, String> {
        let python = std::env::var("TORCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script);
        let mut process = Command::new(&python)
            .arg(script)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("`{python}` does not run: {error}"))?;
        let questions = process.stdin.take().ok_or("it has no input")?;
        let answers = BufReader::new(process.stdout.take().ok_or("it has no output")?);
        let mut this = Self { process, questions, answers };
        match this.answer() {
            Some(line) if line.starts_with("torch ") => Ok(this),
            _ => Err(format!("`{python}` has no torch: set TORCH_PYTHON to one that has")),
        }
    }

    /// The nanoseconds of one call of a case, over some calls; `None` if it does not know it.
    pub fn time(&mut self, case: &str) -> Option<f64> {
        writeln!(self.questions, "{case}").ok()?;
        self.questions.flush().ok()?;
        self.answer()?.parse().ok()
    }

    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        Some(line.trim().to_owned())
    }
}

impl Drop for LargeOps {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
