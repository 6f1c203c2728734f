//! What the build script makes of operator tables.

#[path = "../../build/mod.rs"]
mod build;

use build::{Generated, generate};

fn from_table(text: &str) -> Result<Generated, String> {
    generate(&[("ops/sample.ops".to_owned(), text.to_owned())])
}

/// The fault of a table with one line of documentation below each schema.
fn fault_of(schemas: &[&str]) -> String {
    let text: String = schemas.iter().map(|schema| format!("{schema}\n  Does it.\n")).collect();
    from_table(&text).expect_err("the table is at fault")
}

const SAMPLE: &str = r#"
# A comment.
add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  Adds.
  In two lines.
  dtypes: all
add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
  Adds in place.
add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
  Adds into `out`.
add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
  Adds a number.
empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
  Makes a tensor.
tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
  Makes indices.
where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
  Chooses.
split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
  Splits.
max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)
  Finds the greatest.
  rust: max_dim_out
histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)
  Counts.
fft_fftn(Tensor self, SymInt[1]? s=None, int[2] dim=[-2, -1], str? norm=None, str mode="x, y", int[2] padding=0, float eps=1e-05) -> Tensor
  Transforms.
index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
  Indexes.
linalg_lu(Tensor A, Tensor LU_data, Generator? generator, bool[3] output_mask) -> Tensor
  Factors.
sym_size.int(Tensor self, int dim) -> SymInt
  A size.
"#;

#[test]
fn handles_carry_the_types_of_the_schema() {
    insta::assert_snapshot!(from_table(SAMPLE).unwrap().handles);
}

#[test]
fn methods_take_required_arguments_and_options() {
    insta::assert_snapshot!(from_table(SAMPLE).unwrap().methods);
}

#[test]
fn schemas_keep_their_text() {
    let start: String = from_table(SAMPLE).unwrap().schemas.split_inclusive("},").take(2).collect();
    insta::assert_snapshot!(start);
}

#[test]
fn names_follow_the_overload() {
    let cases = [
        ("sum.dim_IntList(Tensor self, int[1]? dim) -> Tensor", "sum_dim"),
        ("prod.dim_int(Tensor self, int dim) -> Tensor", "prod_dim"),
        ("select.int(Tensor self, int dim) -> Tensor", "select"),
        ("sum.IntList_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "sum_out"),
        ("add.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)", "add_scalar_out"),
        ("eq.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)", "eq_out"),
        ("pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", "pow_tensor_scalar"),
        ("_to_copy(Tensor self) -> Tensor", "_to_copy"),
        ("__and__.Tensor(Tensor self, Tensor other) -> Tensor", "__and__"),
        ("where.self(Tensor condition) -> Tensor", "where_"),
        (
            "div_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)",
            "div_scalar_mode_",
        ),
    ];
    for (schema, method) in cases {
        let methods = from_table(&format!("{schema}\n  Does it.\n")).unwrap().methods;
        assert!(methods.contains(&format!("pub fn {method}(")), "{schema}: {methods}");
    }
}

#[test]
fn an_overload_may_have_no_method() {
    let generated = from_table("dim(Tensor self) -> int\n  Rank.\n  rust: -\n").unwrap();
    assert!(!generated.methods.contains("pub fn") && generated.handles.contains("DIM:"));
}

#[test]
fn faults_name_the_file_and_line() {
    let faults = [
        fault_of(&["add(Tensor self) -> Tensor", "add(Tensor self) -> Tensor"]),
        fault_of(&["add.Tensor(Tensor self) -> Tensor", "add.self(Tensor self) -> Tensor"]),
        fault_of(&["add(Tensor self, int x=1) -> Tensor", "add_with(Tensor self) -> Tensor"]),
        fault_of(&["add(Tensor self) Tensor"]),
        fault_of(&["add(Tensor self, float x=y) -> Tensor"]),
        fault_of(&["add(Tensor self, float x=1., int y) -> Tensor"]),
        fault_of(&["add(Tensor self, Tensor self) -> Tensor"]),
        fault_of(&["add(Tensor self, complex x) -> Tensor"]),
        fault_of(&["add(Tensor self, int[ x) -> Tensor"]),
        fault_of(&["add(Tensor self, int x=None) -> Tensor"]),
        fault_of(&["add(Tensor(a!) self) -> (Tensor(a!), Tensor)"]),
        from_table("add(Tensor self) -> Tensor\n").expect_err("no docs"),
        from_table("  Lost.\n").expect_err("no schema"),
        from_table("add(Tensor self) -> Tensor\n  Adds.\n  rust: a\n  rust: b\n").expect_err("two names"),
        from_table("add(Tensor self) -> Tensor\n  Adds.\n  dtypes:\n").expect_err("no dtypes"),
    ];
    insta::assert_snapshot!(faults.join("\n"));
}

#[test]
fn the_schemas_are_listed_for_other_build_scripts() {
    let list = from_table(SAMPLE).unwrap().list;
    let line =
        |name: &str| list.lines().find(|line| line.split('\t').nth(1) == Some(name)).unwrap().to_owned();
    assert_eq!(
        line("add_.Tensor"),
        "ADD__TENSOR\tadd_.Tensor\tin_place\tself|&'static Tensor;other|&'static Tensor;alpha|Scalar\t1"
    );
    assert_eq!(line("split.Tensor").split('\t').nth(2), Some("view"));
    assert_eq!(line("add.out").split('\t').nth(2), Some("out"));
    assert_eq!(line("add.Tensor").split('\t').nth(2), Some("functional"));
}
