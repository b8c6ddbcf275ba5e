//! `scalebricks elements`: lists the element classes.

use super::args::ElementsArgs;
use super::registry;
use crate::error::ProcessError;
use scalebricks_apps::click::config_only;
use scalebricks_console::{Console, output, status};
use scalebricks_elements::program_only;
use scalebricks_graph::Spec;
use scalebricks_graph::class_docs::Section;
use scalebricks_graph::spec::{Access, PortArity, PortKind, PortSpec};
use scalebricks_io::Packet;
use serde_json::{Value, json};

/// Describes one element class, or all.
///
/// # Errors
/// [`ProcessError::NoElement`].
pub fn elements(args: &ElementsArgs, console: &Console) -> Result<u8, ProcessError> {
    let registry = registry::<Packet>();
    let mut classes: Vec<&'static Spec> = registry.specs().chain(config_only::specs()).collect();
    classes.sort_by_key(|spec| spec.class);
    let mut program_only = program_only::<Packet>();
    if let Some(name) = &args.name {
        if !classes.iter().chain(&program_only).any(|spec| spec.class == name) {
            let all = classes.iter().chain(&program_only).map(|spec| spec.class);
            return Err(ProcessError::NoElement { name: name.clone(), hint: hint(name, all) });
        }
        classes.retain(|spec| spec.class == name);
        program_only.retain(|spec| spec.class == name);
    }
    let text = if args.json {
        let views = classes.iter().map(|spec| view(spec, true));
        output::json(&views.chain(program_only.iter().map(|spec| view(spec, false))).collect::<Vec<_>>())?
    } else if args.name.is_some() {
        let sections = program_only.iter().map(|spec| format!("{}\n{OF_PROGRAMS}\n", Section(spec)));
        classes.iter().map(|spec| Section(spec).to_string()).chain(sections).collect()
    } else {
        let list = |specs: &[&Spec]| specs.iter().map(|spec| line(spec)).collect::<String>();
        format!("{}\n{OF_PROGRAMS}\n\n{}", list(&classes), list(&program_only))
    };
    console.result(text.trim_end())?;
    Ok(status::SUCCESS)
}

const OF_PROGRAMS: &str = "Only programs can use these; configurations cannot name them.";

fn hint<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> String {
    match scalebricks_click::similar(name, all) {
        Some(similar) => format!("; did you mean {similar}?"),
        None => "; `scalebricks elements` lists all".to_owned(),
    }
}

/// The first sentence of a class's description.
fn line(spec: &Spec) -> String {
    let doc = spec.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let sentence = doc.split_once(". ").map_or(doc.trim_end_matches('.'), |(first, _)| first);
    format!("{:20} {sentence}\n", spec.class)
}

fn view(spec: &Spec, is_for_configurations: bool) -> Value {
    let doc = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let port = |port: &PortSpec| {
        let flow = match port.flow {
            PortKind::Push => "push",
            PortKind::Pull => "pull",
            PortKind::Agnostic => "agnostic",
        };
        let many = match port.many {
            PortArity::One => "one",
            PortArity::Optional => "optional",
            PortArity::OneOrMore => "one or more",
            PortArity::ZeroOrMore => "zero or more",
        };
        json!({ "name": port.name, "flow": flow, "many": many, "doc": port.doc })
    };
    let params = spec.params.iter().map(|param| {
        let name = param.name.to_ascii_uppercase();
        json!({ "name": name, "type": param.kind, "default": param.default, "doc": doc(param.doc) })
    });
    let handlers = spec.handlers.iter().map(|handler| {
        let access = if handler.access == Access::Read { "read" } else { "write" };
        json!({ "name": handler.name, "access": access, "doc": handler.doc })
    });
    json!({
        "class": spec.class,
        "configurable": is_for_configurations,
        "doc": doc(spec.doc),
        "inputs": spec.inputs.iter().map(port).collect::<Vec<_>>(),
        "outputs": spec.outputs.iter().map(port).collect::<Vec<_>>(),
        "parameters": params.collect::<Vec<_>>(),
        "counters": spec.counters.iter().map(|one| json!({ "name": one.name, "doc": one.doc })).collect::<Vec<_>>(),
        "drops": spec.drops.iter().map(|one| json!({ "name": one.name, "doc": one.doc })).collect::<Vec<_>>(),
        "handlers": handlers.collect::<Vec<_>>(),
    })
}
