//! The Rust of the formulas.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::schemas::{Schema, Schemas};
use super::table::{Entry, Formula};
use super::tokens::{Piece, pieces};

/// Methods of a tensor that need none of its elements.
const OF_META: [&str; 8] = [
    ".sizes()",
    ".strides()",
    ".storage_offset()",
    ".rank()",
    ".numel()",
    ".dtype()",
    ".device()",
    ".meta()",
];

/// Something that is kept: of what, and in which way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    of: String,
    keep: &'static str,
}

pub(crate) fn write(
    schemas: &Schemas,
    entries: &[Entry],
    none: &[(String, String)],
) -> Result<String, String> {
    let mut out = String::new();
    let mut registrations = Vec::new();
    let mut explicit = BTreeSet::new();
    for entry in entries {
        if !explicit.insert(entry.name.as_str()) {
            return Err(entry.fault(entry.line, "it has formulas already"));
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries {
        let Some(schema) = schemas.get(&entry.name) else {
            return Err(entry.fault(entry.line, "there is no such operator"));
        };
        let node = match &entry.node {
            Some(node) => node.clone(),
            None => {
                let name = node_name(schema.base());
                let count = counts.entry(name.clone()).or_default();
                *count += 1;
                format!("{name}Backward{}", *count - 1)
            }
        };
        write_formula(&mut out, entry, schema, &node)?;
        if let Some(copy) = copy_of(schema, schemas).filter(|copy| !explicit.contains(copy.name.as_str())) {
            let _ = writeln!(
                out,
                "static {}: Formula = Formula {{ name: \"{node}_copy\", ..{} }};\n",
                copy.handle, schema.handle
            );
            registrations.push(registration(copy, &copy.handle, schemas));
        }
        registrations.push(registration(schema, &schema.handle, schemas));
        if schema.kind == "view" {
            registrations.push(format!(
                "    lib.impl_kernel({:?}, &IN_PLACE, handles::{}.around(InferenceView))?;\n",
                schema.name, schema.handle
            ));
        }
        // Of the same name, but with other arguments, is `pow_.Scalar`, which is `pow.Tensor_Scalar` in place.
        let is_form =
            |in_place: &&Schema| in_place.kind == "in_place" && in_place.arguments == schema.arguments;
        let in_place = schemas.get(&schema.in_place_name()).filter(is_form);
        if let Some(in_place) = in_place
            && !explicit.contains(in_place.name.as_str())
        {
            registrations.push(registration(in_place, &schema.handle, schemas));
        }
    }
    for schema in schemas.values().filter(|schema| schema.kind == "out") {
        registrations.push(format!(
            "    lib.impl_kernel({:?}, &AUTOGRAD, handles::{}.around(Out {{ name: {:?} }}))?;\n",
            schema.name,
            schema.handle,
            schema.base()
        ));
    }
    for schema in schemas.values().filter(|schema| schema.kind == "in_place") {
        registrations.push(format!(
            "    lib.impl_kernel({:?}, &IN_PLACE, handles::{}.around(InferenceCheck))?;\n",
            schema.name, schema.handle
        ));
    }
    for (name, fault) in none {
        if !schemas.contains_key(name) || explicit.contains(name.as_str()) {
            return Err(format!("{fault}: `{name}` is no operator, or has a formula"));
        }
        registrations.push(format!("    lib.impl_kernel({name:?}, &AUTOGRAD, Kernel::fallthrough())?;\n"));
    }
    write_registration(&mut out, &registrations);
    Ok(out)
}

/// The copy of a view: `split_copy.Tensor` of `split.Tensor`.
fn copy_of<'a>(view: &Schema, schemas: &'a Schemas) -> Option<&'a Schema> {
    let name = view.name.replacen(view.base(), &format!("{}_copy", view.base()), 1);
    schemas.get(&name).filter(|_| view.kind == "view")
}

/// Whether an in-place operator makes a tensor another view of its storage, as `transpose_` does. No element changes.
fn is_geometric(schema: &Schema, schemas: &Schemas) -> bool {
    let base = schema.base().trim_end_matches('_');
    schemas.values().any(|other| other.kind == "view" && other.base() == base)
}

fn registration(schema: &Schema, formula: &str, schemas: &Schemas) -> String {
    let formula = format!("formula: &{formula}");
    let around = match schema.kind.as_str() {
        "in_place" => {
            format!("InPlace {{ {formula}, is_geometric: {} }}", is_geometric(schema, schemas))
        }
        "view" => format!("View {{ {formula}, is_multiple: {} }}", is_multiple(schema)),
        _ => format!("Functional {{ {formula} }}"),
    };
    format!(
        "    lib.impl_kernel({:?}, &AUTOGRAD, handles::{}.around({around}))?;\n",
        schema.name, schema.handle
    )
}

/// Whether a view operator gives a list.
fn is_multiple(schema: &Schema) -> bool {
    matches!(
        schema.base(),
        "split" | "split_with_sizes" | "unbind" | "chunk" | "tensor_split" | "unsafe_split"
    )
}

fn write_registration(out: &mut String, registrations: &[String]) {
    let chunks: Vec<_> = registrations.chunks(40).collect();
    for (at, chunk) in chunks.iter().enumerate() {
        let _ = writeln!(
            out,
            "fn register_{at}(lib: &mut Library<'_>) -> Result<()> {{\n{}    Ok(())\n}}\n",
            chunk.concat()
        );
    }
    out.push_str("/// Registers the kernels of all operators.\npub(crate) fn register(lib: &mut Library<'_>) -> Result<()> {\n");
    for at in 0..chunks.len() {
        let _ = writeln!(out, "    register_{at}(lib)?;");
    }
    out.push_str("    Ok(())\n}\n");
}

/// `native_layer_norm` is `NativeLayerNorm`, `max_pool2d` is `MaxPool2D`, `nll_loss_forward` is `NllLoss`.
fn node_name(base: &str) -> String {
    let mut name = String::new();
    let mut raise = true;
    for c in base.trim_end_matches('_').trim_end_matches("_forward").chars() {
        if c == '_' {
            raise = true;
            continue;
        }
        if raise && c.is_ascii_alphabetic() {
            name.push(c.to_ascii_uppercase());
        } else {
            name.push(c);
        }
        raise = c.is_ascii_digit();
    }
    name.strip_suffix("Forward").map(str::to_owned).unwrap_or(name)
}

/// What a formula of one line needs, and its text in Rust.
struct Line {
    slots: BTreeMap<String, (Slot, String)>,
    gradients: BTreeSet<usize>,
    /// It takes the gradient of the first result away.
    owns: bool,
    wants: bool,
    text: String,
}

fn write_formula(out: &mut String, entry: &Entry, schema: &Schema, node: &str) -> Result<(), String> {
    let mut targets: Vec<(usize, &str)> = Vec::new();
    for formula in &entry.formulas {
        for name in &formula.arguments {
            let at = schema.arguments.iter().position(|(argument, _)| argument == name);
            let at = at.ok_or_else(|| entry.fault(formula.line, format_args!("no argument `{name}`")))?;
            targets.push((at, &schema.arguments[at].1));
        }
    }
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.sort_by_key(|which| targets[*which].0);
    let place_of = |which: usize| order.iter().position(|other| *other == which).unwrap_or_default();

    let mut slots: Vec<(Slot, u32)> = Vec::new();
    let mut body = String::new();
    let mut before = 0;
    let any = targets.iter().any(|(_, ty)| is_tensor_list(ty));
    for formula in &entry.formulas {
        let places: Vec<usize> = (before..before + formula.arguments.len()).map(place_of).collect();
        before += formula.arguments.len();
        let line = read_line(entry, formula, schema)?;
        let users = places.iter().fold(0, |bits, place| bits | 1 << place);
        let own = is_tensor_list(&schema.arguments[argument_at(schema, &formula.arguments[0])].1);
        write_line(&mut body, &line, &places, Lists { own, any }, &mut slots, users);
    }
    let text: Vec<String> = order
        .iter()
        .map(|which| {
            let (argument, ty) = targets[*which];
            format!("Target {{ argument: {argument}, is_list: {} }}", is_tensor_list(ty))
        })
        .collect();
    let saves: Vec<String> = slots
        .iter()
        .map(|(slot, users)| {
            format!("Save {{ of: Of::{}, keep: Keep::{}, users: {users} }}", slot.of, slot.keep)
        })
        .collect();
    let without = entry.without.iter().fold(0_u32, |bits, at| bits | 1 << at);
    let handle = &schema.handle;
    let function = format!("backward_{}", handle.to_lowercase());
    let _ = writeln!(
        out,
        "pub(crate) static {handle}: Formula = Formula {{\n    name: {node:?},\n    targets: &[{}],\n    saves: &[{}],\n    \
         non_differentiable: {without},\n    fills_arguments: {},\n    has_list: {},\n    saves_tensors: {},\n    saves_results: {},\n    backward: {function},\n}};\n\nfn {function}(c: &mut Backward<'_>) -> Result<()> \
         {{\n{body}    Ok(())\n}}\n",
        text.join(", "),
        saves.join(", "),
        schema.kind == "writing",
        any,
        slots.iter().any(|(slot, _)| matches!(slot.keep, "Tensor" | "Optional" | "Tensors")),
        slots.iter().any(|(slot, _)| slot.of.starts_with("Result")),
    );
    Ok(())
}

fn argument_at(schema: &Schema, name: &str) -> usize {
    schema.arguments.iter().position(|(argument, _)| argument == name).unwrap_or_default()
}

fn is_tensor_list(ty: &str) -> bool {
    matches!(ty, "&'static [Tensor]" | "&'static [Option<Tensor>]")
}

/// Where gradients are of lists of tensors.
#[derive(Clone, Copy)]
struct Lists {
    /// That of the formula is.
    own: bool,
    /// One of the operator's is.
    any: bool,
}

fn write_line(
    body: &mut String,
    line: &Line,
    places: &[usize],
    lists: Lists,
    slots: &mut Vec<(Slot, u32)>,
    users: u32,
) {
    // Without lists targets are edges.
    let wants = if lists.any { "wants" } else { "wants_edge" };
    let wanted: Vec<_> = places.iter().map(|place| format!("c.{wants}({place})")).collect();
    let owned = line.owns.then_some(0);
    let gradients: Vec<_> = line.gradients.iter().copied().chain(owned).map(|at| at.to_string()).collect();
    let defined = match gradients.is_empty() {
        true => String::new(),
        false => format!(" && c.any_defined(&[{}])", gradients.join(", ")),
    };
    let _ = writeln!(body, "    if ({}){defined} {{", wanted.join(" || "));
    let given: Vec<_> = match places {
        [_] => vec!["given".to_owned()],
        _ => places.iter().map(|place| format!("given{place}")).collect(),
    };
    // What the gradients are borrowed for ends before the results are given.
    let _ = writeln!(body, "        let ({}) = {{", given.join(", "));
    if line.owns {
        body.push_str("        let own_grad = c.own_gradient()?;\n");
    }
    for at in &line.gradients {
        let name = if *at == 0 { "grad".to_owned() } else { format!("grad{at}") };
        let _ =
            writeln!(body, "        let {name} = c.gradient({at})?;\n        let {name}: &Tensor = &{name};");
    }
    for (slot, binding) in line.slots.values() {
        let at = match slots.iter().position(|(other, _)| other == slot) {
            Some(at) => at,
            None => {
                slots.push((slot.clone(), 0));
                slots.len() - 1
            }
        };
        slots[at].1 |= users;
        let _ = writeln!(body, "        {}", binding.replace("{slot}", &at.to_string()));
    }
    if line.wants {
        let wants = match lists.own {
            true => format!("&c.wants_each({})[..]", places[0]),
            false => format!("[{}]", wanted.join(", ")),
        };
        let _ = writeln!(body, "        let wants = {wants};");
    }
    let _ = writeln!(body, "        let given = checked({{ {} }})?;\n        given\n        }};", line.text);
    let give = match places {
        [_] if lists.own => "give_list",
        [_] => "give_wanted",
        _ => "give",
    };
    for (place, name) in places.iter().zip(given) {
        let _ = writeln!(body, "        c.{give}({place}, {name});");
    }
    body.push_str("    }\n");
}

/// Finds what a formula names, and gives it Rust's names.
fn read_line(entry: &Entry, formula: &Formula, schema: &Schema) -> Result<Line, String> {
    let mut line = Line {
        slots: BTreeMap::new(),
        gradients: BTreeSet::new(),
        owns: false,
        wants: false,
        text: String::new(),
    };
    let pieces = pieces(&formula.text);
    let mut rest = formula.text.as_str();
    for piece in &pieces {
        let (Piece::Name(text) | Piece::Other(text)) = piece;
        rest = &rest[text.len()..];
        let Piece::Name(name) = piece else {
            line.text.push_str(text);
            continue;
        };
        if *name == "wants" {
            line.wants = true;
            line.text.push_str(name);
        } else if *name == "own_grad" {
            // Others would find it gone.
            if entry.formulas.len() > 1 || pieces.iter().any(names_gradients) {
                return Err(entry
                    .fault(formula.line, "`own_grad` is the gradient of one formula that names no other"));
            }
            line.owns = true;
            line.text.push_str(name);
        } else if let Some(at) = numbered(name, "grad") {
            line.gradients.insert(at);
            line.text.push_str(if at == 0 { "grad" } else { name });
        } else if *name == "grads" {
            line.text.push_str("c.gradients()");
        } else if *name == "result_metas" {
            line.text.push_str("c.metas_of_results()");
        } else if let Some(at) = numbered(name, "result") {
            keep(&mut line, &format!("Result({at})"), &format!("result{at}"), "&'static Tensor", rest);
        } else if let Some(at) = schema.arguments.iter().position(|(argument, _)| argument == name) {
            let ty = &schema.arguments[at].1;
            keep(&mut line, &format!("Argument({at})"), &rust_name(name), ty, rest);
        } else if *name == "self" {
            return Err(entry.fault(formula.line, "there is no `self`"));
        } else {
            line.text.push_str(name);
        }
    }
    Ok(line)
}

/// Whether it stands for gradients as they came.
fn names_gradients(piece: &Piece<'_>) -> bool {
    matches!(piece, Piece::Name(name) if *name == "grads" || numbered(name, "grad").is_some())
}

/// `grad` is the first, `grad1` the second.
fn numbered(name: &str, of: &str) -> Option<usize> {
    let digits = name.strip_prefix(of)?;
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

fn rust_name(name: &str) -> String {
    match name {
        "self" | "type" | "in" | "move" | "ref" | "mod" => format!("{name}_"),
        _ => name.to_owned(),
    }
}

/// Adds what an occurrence of a name needs, and its text.
fn keep(line: &mut Line, of: &str, name: &str, ty: &str, rest: &str) {
    let is_meta = OF_META.iter().any(|method| rest.starts_with(method));
    let is_late = rest.starts_with(".late()");
    let (keep, bound, binding) = match (ty, is_meta) {
        ("&'static Tensor" | "Option<&'static Tensor>", _) if is_late => {
            ("Tensor", format!("{name}_late"), "c.late({slot})".to_owned())
        }
        ("&'static Tensor", true) => ("Meta", format!("{name}_meta"), "c.meta({slot})?".to_owned()),
        ("&'static [Tensor]", _) => ("Metas", format!("{name}_metas"), "c.metas({slot})?".to_owned()),
        ("&'static Tensor", false) => ("Tensor", name.to_owned(), "&c.tensor({slot})?".to_owned()),
        ("Option<&'static Tensor>", _) => ("Optional", name.to_owned(), "c.optional({slot})?".to_owned()),
        ("&'static [Option<Tensor>]", _) => {
            ("Tensors", name.to_owned(), "&c.optional_tensors({slot})?[..]".to_owned())
        }
        ("Scalar", _) => ("Value", name.to_owned(), "c.number({slot})?".to_owned()),
        (ty, _) => ("Value", name.to_owned(), format!("c.kept::<{ty}>({{slot}})?")),
    };
    let binding = match keep {
        "Value" if ty == "Scalar" => format!("let {bound} = {binding};"),
        "Optional" => format!("let {bound} = {binding};\n        let {bound} = {bound}.as_ref();"),
        "Value" => format!("let {bound} = {binding};\n        let {bound} = <{ty} as Arg>::lend(&{bound});"),
        _ => format!("let {bound} = {binding};"),
    };
    line.text.push_str(&bound);
    line.slots.insert(bound, (Slot { of: of.to_owned(), keep }, binding));
}
