//! Merges a part of a configuration into a complete one.

/// A section: its header and its lines.
struct Section {
    header: String,
    lines: Vec<String>,
}

fn sections(text: &str) -> Vec<Section> {
    let mut sections = vec![Section { header: String::new(), lines: Vec::new() }];
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            let header = line.split('#').next().unwrap().trim().to_owned();
            sections.push(Section { header, lines: Vec::new() });
        } else if !line.is_empty() && !line.starts_with('#') {
            sections.last_mut().unwrap().lines.push(line.to_owned());
        }
    }
    sections
}

fn key(line: &str) -> &str {
    line.split('=').next().unwrap().trim()
}

impl Section {
    /// Whether it replaces the other section. Ports are identified by their first line.
    fn is_of(&self, other: &Self) -> bool {
        let is_port = self.header == "[[port]]";
        let first = |section: &Self| section.lines[0].split('#').next().unwrap().trim().to_owned();
        self.header == other.header && (!is_port || first(self) == first(other))
    }

    fn text(&self) -> String {
        format!("{}\n{}\n", self.header, self.lines.join("\n"))
    }
}

/// The complete configuration with the part. A section of the part replaces a section with the same first key, or is added to it, as
/// for ports. A new `[control]` replaces the peers, and removes the flow file.
pub fn overlay(whole: &str, part: &str) -> String {
    let part = sections(part);
    let is_replaced = |old: &Section, new: &Section| {
        let is_port = old.header == "[[port]]";
        !is_port
            && new.is_of(old)
            && new.lines.iter().any(|line| Some(key(line)) == old.lines.first().map(|line| key(line)))
    };
    let mut text = String::new();
    let mut whole = sections(whole);
    let old_control = whole.iter().find(|section| section.header == "[control]");
    let new_control = part.iter().find(|section| section.header == "[control]");
    if new_control.is_some_and(|new| old_control.is_none_or(|old| is_replaced(old, new))) {
        whole.retain(|old| !old.header.starts_with("[[control.") && !old.header.starts_with("[control."));
        for section in whole.iter_mut().filter(|section| section.header == "[node]") {
            section.lines.retain(|line| key(line) != "flows");
        }
    }
    let mut is_used = vec![false; part.len()];
    for old in &whole {
        match part.iter().position(|new| !new.header.is_empty() && new.is_of(old)) {
            None => text += &old.text(),
            Some(at) => {
                is_used[at] = true;
                let new = &part[at];
                text += &new.text();
                if !is_replaced(old, new) {
                    let added = |line: &&String| !new.lines.iter().any(|other| key(other) == key(line));
                    text += &old.lines.iter().filter(added).cloned().collect::<Vec<_>>().join("\n");
                    text.push('\n');
                }
            }
        }
    }
    let rest = part.iter().zip(is_used).filter(|(new, is_used)| !is_used && !new.header.is_empty());
    text + &rest.map(|(new, _)| new.text()).collect::<String>()
}

#[test]
fn a_part_adds_to_a_section_or_takes_its_place() {
    let whole = "[a]\none = 1\ntwo = 2\n[control]\nengine = 1\n[[control.peer]]\nnode = 1\n[[port]]\nrole = 1\nx = 1\n";
    let added = overlay(whole, "[a]\ntwo = 3");
    assert_eq!(added.trim(), whole.replace("one = 1\ntwo = 2", "two = 3\none = 1").trim());
    let replaced =
        overlay(whole, "[control]\nengine = 2\n[[port]]\nrole = 1 # this one\n[[port]]\nrole = 2\n");
    assert_eq!(
        replaced.trim(),
        "[a]\none = 1\ntwo = 2\n[control]\nengine = 2\n[[port]]\nrole = 1 # this one\nx = 1\n[[port]]\nrole = 2"
    );
}
