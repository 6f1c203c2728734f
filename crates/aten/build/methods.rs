//! `methods.rs`: a method of `Tensor` for each overload, and a second one where it has options.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::Overload;
use super::names;
use super::options::Structs;
use super::rust_types;
use super::signature::{Parameter, Signature};

pub(crate) fn write(overloads: &[Overload]) -> Result<String, String> {
    let mut writer = Writer::default();
    let mut out = String::from(USES);
    // One block a table: rustc then works on pieces of moderate size.
    for group in overloads.chunk_by(|a, b| a.group == b.group) {
        let mut methods = String::new();
        for overload in group {
            writer.overload(overload, &mut out, &mut methods)?;
        }
        let _ = write!(
            out,
            "\n/// The operators of the group `{}`.\nimpl Tensor {{{methods}}}\n",
            group[0].group
        );
    }
    Ok(out)
}

#[derive(Default)]
struct Writer {
    /// Who has each name.
    owners: HashMap<String, String>,
    structs: Structs,
}

/// One method as it is put into words.
struct Method<'a> {
    overload: &'a Overload,
    name: String,
    signature: Signature,
    /// The struct of options, if it has any.
    options: Option<String>,
}

impl Writer {
    fn overload(
        &mut self,
        overload: &Overload,
        items: &mut String,
        methods: &mut String,
    ) -> Result<(), String> {
        let Some(name) = names::method(overload) else { return Ok(()) };
        self.claim(overload, &name)?;
        let mut signature = Signature::of(overload)?;
        let mut options = None;
        if let Some(made) = self.structs.of(&name, &mut signature) {
            let (ty, text) = made.map_err(|what| overload.fault(format_args!("{what}: {ADVICE}")))?;
            self.claim(overload, &names::method_with(&name))?;
            items.push_str(&text);
            options = Some(ty);
        }
        let method = Method { overload, name, signature, options };
        methods.push_str(&method.plain()?);
        methods.push_str(&method.with_options()?);
        Ok(())
    }

    fn claim(&mut self, overload: &Overload, name: &str) -> Result<(), String> {
        let claimant = format!("{}:{}: {}", overload.path, overload.line, overload.schema.full_name());
        match self.owners.insert(name.to_owned(), claimant) {
            None => Ok(()),
            Some(owner) => {
                Err(overload.fault(format_args!("its method `{name}` is that of {owner} already: {ADVICE}")))
            }
        }
    }
}

const ADVICE: &str = "name it with an indented line `rust: NAME` below the schema";

impl Method<'_> {
    /// The method that takes what has no default.
    fn plain(&self) -> Result<String, String> {
        let mut out = self.docs();
        let body = match &self.options {
            Some(options) => {
                let ty = options.split('<').next().unwrap_or_default();
                let path = if self.signature.receiver { "self." } else { "Self::" };
                let arguments = self.passed(&format!("{ty}::default()"));
                format!("        {path}{}({arguments})\n", names::method_with(&self.name))
            }
            None => self.call(),
        };
        self.function(&mut out, &self.name, None, &body)?;
        Ok(out)
    }

    /// The method that takes options, too.
    fn with_options(&self) -> Result<String, String> {
        let Some(options) = &self.options else { return Ok(String::new()) };
        let mut out = format!("\n    /// [`{0}`](Self::{0}) with its options given.\n", self.name);
        out.push_str(ERRORS);
        self.function(&mut out, &names::method_with(&self.name), Some(options), &self.call())?;
        Ok(out)
    }

    fn docs(&self) -> String {
        let mut out = String::from("\n");
        for line in &self.overload.docs {
            let _ = writeln!(out, "    /// {line}");
        }
        let _ = writeln!(out, "    ///\n    /// `{}`", self.overload.text);
        if let Some(dtypes) = &self.overload.dtypes {
            let _ = writeln!(out, "    ///\n    /// Dtypes: {dtypes}.");
        }
        out.push_str(ERRORS);
        out
    }

    fn function(
        &self,
        out: &mut String,
        name: &str,
        options: Option<&str>,
        body: &str,
    ) -> Result<(), String> {
        let mut parameters = Vec::new();
        if self.signature.receiver {
            parameters.push("&self".to_owned());
        }
        let written = |parameter: &Parameter| format!("{}: {}", parameter.name, parameter.ty);
        parameters.extend(self.signature.required.iter().map(written));
        parameters.extend(options.map(|ty| format!("options: {ty}")));
        parameters.extend(self.signature.outs.iter().map(written));
        if self.signature.makes_tensor {
            parameters.push("tensor_options: impl Into<TensorOptions>".to_owned());
        }
        let returned = match self.overload.schema.is_in_place() {
            true => "&Self".to_owned(),
            false => rust_types::returned(&self.overload.schema).map_err(|what| self.overload.fault(what))?,
        };
        let _ = write!(
            out,
            "    pub fn {name}({}) -> Result<{returned}> {{\n{body}    }}\n",
            parameters.join(", ")
        );
        Ok(())
    }

    /// The arguments with which the plain method calls the other one.
    fn passed(&self, options: &str) -> String {
        let mut arguments: Vec<&str> = Vec::new();
        arguments.extend(self.signature.required.iter().map(|parameter| parameter.name.as_str()));
        arguments.push(options);
        arguments.extend(self.signature.outs.iter().map(|parameter| parameter.name.as_str()));
        arguments.extend(self.signature.makes_tensor.then_some("tensor_options"));
        arguments.join(", ")
    }

    /// The body that calls the handle.
    fn call(&self) -> String {
        let mut body = String::new();
        if self.signature.makes_tensor {
            body.push_str("        let tensor_options: TensorOptions = tensor_options.into();\n");
        }
        let handle = names::handle(self.overload);
        let call = format!("handles::{handle}.call({})", self.signature.call.join(", "));
        if self.overload.schema.is_in_place() {
            let _ = writeln!(body, "        {call}?;\n        Ok(self)");
        } else {
            let _ = writeln!(body, "        {call}");
        }
        body
    }
}

const ERRORS: &str = "    ///
    /// # Errors
    /// Where the arguments do not fit the operator or each other, or no kernel takes them. Nothing is written then.
";

const USES: &str = "\
#[allow(unused_imports)]
use c10_core::{Device, Layout, MemoryFormat, Scalar, ScalarType};

#[allow(unused_imports)]
use crate::error::Result;
use crate::ops::handles;
#[allow(unused_imports)]
use crate::random::Generator;
#[allow(unused_imports)]
use crate::tensor::{Tensor, TensorOptions};
";
