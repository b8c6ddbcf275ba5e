#!/usr/bin/env python3
"""Preprocessor of mdBook (docs/book.toml): makes links that leave docs/ work in the book.

Pages of SUMMARY.md outside docs/, such as ../ARCHITECTURE.md, become pages of the book, named in lower case. Links to them
are changed, and so are their own links. Other links that leave docs/ lead to `git-repository-url`; without that address
they become text, followed by the path in the repository. https://rust-lang.github.io/mdBook/for_developers/preprocessors.html
"""

import json
import os
import re
import sys

# Fenced blocks and code spans have no links. A link is [text](target) or a reference [name]: target; text may contain code
# and a picture.
FENCE = re.compile(r"^\s*(```+|~~~+)")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:`[^`]*`|!\[[^\]]*\]\([^)]*\)|\\.|[^\]\\`])*)\]\((?P<target>[^)\s]+)\)|(?P<code>`+[^`]*`+)")
REFERENCE = re.compile(r"^\[(?P<name>[^\]]+)\]:\s*(?P<target>\S+)\s*$")


def chapters(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            yield chapter
            yield from chapters(chapter["sub_items"])


def book_path(path):
    """The place of a page in the book; paths are relative to docs/."""
    return path.replace("../", "").replace("/README.md", ".md").lower() if path.startswith("../") else path


class Links:
    def __init__(self, pages, repository):
        self.pages = pages
        self.dropped = []  # names of references of the current page that lead out of the book
        self.repository = repository.rstrip("/") if repository else None

    def target(self, page, target):
        """The target in the book, and None; or None, and the path in the repository of what is not in the book."""
        if re.match(r"[a-z]+:|#|/", target):
            return target, None
        path, anchor = (target.split("#", 1) + [""])[:2]
        path = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if path in self.pages or not path.startswith(".."):
            found = os.path.relpath(book_path(path), os.path.dirname(book_path(page)) or ".")
            found = re.sub(r"(^|/)README\.md$", r"\1index.md", found)  # mdBook renames these pages, but not the links
            return found + ("#" + anchor if anchor else ""), None
        path = os.path.relpath(os.path.join("docs", path), ".")
        if self.repository:
            return f"{self.repository}/blob/HEAD/{path}", None
        return None, path

    def line(self, page, line):
        def replaced(match):
            if match["code"]:
                return match[0]
            text = match["text"]
            if "](" in text:  # a picture in a link
                text = self.line(page, text)
            target, path = self.target(page, match["target"])
            if target:
                return f"{match['image']}[{text}]({target})"
            return text if path in text else f"{text} (`{path}` in the repository)"

        reference = REFERENCE.match(line)
        if reference:
            target, path = self.target(page, reference["target"])
            if not target:
                self.dropped.append(reference["name"])
            return f"[{reference['name']}]: {target}\n" if target else ""
        return LINK.sub(replaced, line)

    def text(self, page, text):
        """Changes the links of a page, paragraph by paragraph, because a link may span lines."""
        changed, paragraph, fence = [], [], None

        def flush():
            changed.append(self.line(page, "".join(paragraph)))
            paragraph.clear()

        for line in text.splitlines(keepends=True):
            mark = FENCE.match(line)
            if fence or mark:
                flush()
                changed.append(line)
                if mark:
                    fence = mark[1] if not fence else None if mark[1].startswith(fence) else fence
            elif REFERENCE.match(line) or not line.strip():
                flush()
                changed.append(self.line(page, line))
            else:
                paragraph.append(line)
        flush()
        text = "".join(changed)
        for name in self.dropped:
            text = text.replace(f"[{name}]", name)
        self.dropped.clear()
        return text


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "supports":
        sys.exit(0 if sys.argv[2] == "html" else 1)
    context, book = json.load(sys.stdin)
    items = book.get("items", book.get("sections"))
    html = context["config"].get("output", {}).get("html", {})
    pages = {chapter["path"] for chapter in chapters(items) if chapter["path"]}
    links = Links(pages, html.get("git-repository-url"))
    for chapter in chapters(items):
        if chapter["path"]:
            chapter["content"] = links.text(chapter["path"], chapter["content"])
            chapter["path"] = book_path(chapter["path"])
    json.dump(book, sys.stdout)


main()
