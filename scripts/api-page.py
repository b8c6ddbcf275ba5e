#!/usr/bin/env python3
"""Writes docs/reference/api.md from the schemas docs/openapi*.json; with --check, fails if the page is not current.

Tests of the program keep the schemas current (UPDATE_OPENAPI=1). What an earlier interface on the page has as well is not
repeated.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/api.md"
INTERFACES = [
    ("node", "A gateway node", "openapi.json"),
    ("switch", "A switch", "openapi-switch.json"),
    ("router", "A node of a router", "openapi-router.json"),
    ("graph", "A graph of elements", "openapi-graph.json"),
]
HEAD = """# HTTP interfaces

<!-- scripts/api-page.py writes this page from docs/openapi*.json. Do not edit it. -->

For programs that inspect and control a running process. [admin.md](../admin.md) says how to reach the interface, who has
access, and what the calls mean; each process also serves its schema at `/openapi.json`. Fields in **bold** are always
present. Fields may be added under `/v1` at any time.
"""


def text(value):
    """A description in one line of a table."""
    return " ".join((value or "").split()).replace("|", "\\|")


def literal(value):
    return f"`{json.dumps(value, ensure_ascii=False)}`"


class Interface:
    def __init__(self, anchor, schema, earlier):
        self.anchor, self.schema, self.earlier = anchor, schema, earlier

    def schemas(self):
        return self.schema.get("components", {}).get("schemas", {})

    def whole(self, schema):
        """A part of the schema with all types that it refers to."""
        types, todo = {}, [schema]
        while todo:
            one = todo.pop()
            if isinstance(one, list):
                todo += one
            elif isinstance(one, dict):
                name = one.get("$ref", "").rsplit("/", 1)[-1]
                if name and name not in types:
                    types[name] = self.schemas()[name]
                    todo.append(types[name])
                todo += one.values()
        return schema, types

    def place_of_type(self, name):
        """The anchor of the first interface on the page that has the same type."""
        for interface in self.earlier:
            if name in interface.schemas() and interface.whole(interface.schemas()[name]) == self.whole(self.schemas()[name]):
                return f"{interface.anchor}-{name.lower()}"
        return f"{self.anchor}-{name.lower()}"

    def type(self, schema):
        """The type of a value, with its limits."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return f"[{name}](#{self.place_of_type(name)})"
        for word, joined in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
            if word in schema:
                return joined.join(dict.fromkeys(self.type(one) for one in schema[word]))
        if "enum" in schema:
            return " or ".join(literal(value) for value in schema["enum"])
        kinds = schema.get("type", "any")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        names = []
        for kind in kinds:
            if kind == "array":
                names.append(f"array of {self.type(schema.get('items', {}))}")
            elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
                names.append(f"map of {self.type(schema['additionalProperties'])}")
            else:
                names.append(kind)
        limits = [f"{word} {schema[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most"))
                  if key in schema and not (key == "minimum" and schema[key] == 0)]
        return ", ".join([" or ".join(names), *limits])

    def body(self, content):
        return ", ".join(f"`{media}`: {self.type(one['schema'])}" if "schema" in one else f"`{media}`"
                         for media, one in content.items())

    def operation(self, method, path, operation):
        lines = [f"### {method.upper()} {path}" + ("" if self.anchor == "node" else f" ({self.anchor})"), ""]
        lines += [text(operation.get("summary")), ""]
        if operation.get("description"):
            lines += [text(operation["description"]), ""]
        if operation.get("parameters"):
            lines += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
            for one in operation["parameters"]:
                name = f"**`{one['name']}`**" if one.get("required") else f"`{one['name']}`"
                lines.append(f"| {name} | {one['in']} | {self.type(one['schema'])} | {text(one.get('description'))} |")
            lines.append("")
        if "requestBody" in operation:
            lines += [f"Body: {self.body(operation['requestBody']['content'])}", ""]
        lines += ["| status | meaning | body |", "|---|---|---|"]
        for status, one in operation["responses"].items():
            lines.append(f"| {status} | {text(one.get('description'))} | {self.body(one.get('content', {}))} |")
        return [*lines, ""]

    def fields(self, schema):
        """Rows of the fields of an object."""
        rows = []
        for name, one in schema.get("properties", {}).items():
            shown = f"**`{name}`**" if name in schema.get("required", []) else f"`{name}`"
            meaning = text(one.get("description"))
            if "default" in one:
                meaning += f" Default: {literal(one['default'])}."
            rows.append(f"| {shown} | {self.type(one)} | {meaning.strip()} |")
        return rows

    def variants(self, schema):
        """The objects that a type consists of, or may be, and what else it may be."""
        for word in ("oneOf", "anyOf", "allOf"):
            for one in schema.get(word, []):
                yield word, one

    def show_type(self, name, schema):
        lines = [f'<a id="{self.anchor}-{name.lower()}"></a>', "", f"**{name}**: {text(schema.get('description'))}", ""]
        parts = [("", schema), *self.variants(schema)]
        choice = 0
        for word, part in parts:
            rows = self.fields(part)
            if word in ("oneOf", "anyOf"):
                choice += 1
                said = text(part.get("description")) or self.type(part)
                lines += [f"{choice}. {said}", ""]
            elif word == "allOf" and "$ref" in part:
                lines += [f"All fields of {self.type(part)}, and:", ""]
            if rows:
                lines += ["| field | type | meaning |", "|---|---|---|", *rows, ""]
        if "enum" in schema:
            lines += [f"Values: {self.type(schema)}", ""]
        return lines

    def page(self, title, file):
        info = self.schema["info"]
        lines = [f'<a id="{self.anchor}"></a>', "", f"## {title}", "", text(info.get("description")),
                 f"Schema: [{file}](../{file}).", ""]
        same = {}
        for path, methods in self.schema["paths"].items():
            for method, operation in methods.items():
                first = next((one for one in self.earlier if one.same(path, method, self)), None)
                if first:
                    same.setdefault(first.anchor, []).append(f"`{method.upper()} {path}`")
                else:
                    lines += self.operation(method, path, operation)
        for anchor, calls in same.items():
            lines += [f"The same as of [the {anchor}](#{anchor}): {', '.join(calls)}.", ""]
        own = [name for name in self.schemas() if self.place_of_type(name).startswith(self.anchor + "-")]
        if own:
            lines += [f"### Types of the {self.anchor}", ""]
        for name in own:
            lines += self.show_type(name, self.schemas()[name])
        return lines

    def same(self, path, method, other):
        own = self.schema["paths"].get(path, {}).get(method)
        return own is not None and self.whole(own) == other.whole(other.schema["paths"][path][method])


def page():
    lines, earlier = [HEAD], []
    for anchor, title, file in INTERFACES:
        interface = Interface(anchor, json.loads((ROOT / "docs" / file).read_text(encoding="utf-8")), list(earlier))
        lines += interface.page(title, file)
        earlier.append(interface)
    return "\n".join(lines).rstrip() + "\n"


def main():
    if set(sys.argv[1:]) - {"--check"}:
        sys.exit("usage: scripts/api-page.py [--check]")
    unlisted = {path.name for path in (ROOT / "docs").glob("openapi*.json")} - {file for _, _, file in INTERFACES}
    if unlisted:
        sys.exit(f"scripts/api-page.py does not know {', '.join(sorted(unlisted))}: add it to INTERFACES")
    made = page()
    if "--check" not in sys.argv:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        sys.exit("it is not what docs/openapi*.json make: run scripts/api-page.py")


main()
