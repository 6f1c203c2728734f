mod replay {
    pub(crate) mod ops;
    pub(crate) mod oracle;
    pub(crate) mod number;
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let get = |n: &str| a.iter().position(|x| x == n).map(|i| a[i + 1].clone());
    let text = std::fs::read_to_string(get("--ops").unwrap()).unwrap();
    let ops = replay::ops::parse(&text).unwrap();
    let config = c10_cuda::Config::parse(&get("--conf").unwrap_or_default()).unwrap();
    let mem = get("--device-memory").map_or(80 << 30, |x| x.parse().unwrap());
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if let Err(e) = replay::oracle::run(&ops, config, mem, &mut out) {
        std::io::Write::flush(&mut out).unwrap();
        eprintln!("{e:?}");
        std::process::exit(2)
    }
}
