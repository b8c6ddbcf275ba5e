#!/usr/bin/env python3
"""Checks the documentation: links, pages, the generated API page, and commands.

    scripts/docs-check.py [--root FOLDER] [--book FOLDER]

- Every relative link in a tracked *.md file leads to a tracked file or folder, and every anchor to a heading.
- docs/SUMMARY.md lists every page of docs/, once.
- docs/reference/api.md is what scripts/api-page.py makes of docs/openapi*.json.
- Every `scalebricks …` command in a fenced block or a code span names a subcommand and options that exist. The program
  given by the variable SCALEBRICKS says which do; without it this part is skipped. Records of the past (CHANGELOG.md,
  docs/adr, commands of measurements) are not looked at.
- With --book, every relative link in the built site leads to a file of it, and every anchor to an element.

Exit status: 0 if nothing is wrong, 1 if something is.
"""

import argparse
import functools
import html.parser
import os
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.parse

FENCE = re.compile(r"^\s*(```+|~~~+)\s*(.*?)\s*$")
# Links: [text](target "title"), [name]: target, and in HTML.
TARGETS = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)=\"([^\"]+)\"")
EXTERNAL = re.compile(r"^([a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


class Report:
    def __init__(self):
        self.wrong = []

    def add(self, path, line, what):
        self.wrong.append(f"{path}:{line}: {what}")


class Page:
    """A file of Markdown: its lines outside fenced blocks, and its blocks."""

    def __init__(self, text):
        self.prose, self.blocks, fence = [], [], None
        for number, line in enumerate(text.splitlines(), 1):
            mark = FENCE.match(line)
            if fence is None and mark:
                fence = mark[1]
                self.blocks.append((mark[2], []))
            elif fence is not None and mark and mark[1].startswith(fence) and not mark[2]:
                fence = None
            elif fence is not None:
                self.blocks[-1][1].append((number, line))
            else:
                self.prose.append((number, line))

    def links(self):
        for number, line in self.prose:
            for groups in TARGETS.findall(re.sub(r"(`+)[^`]*?\1", lambda span: "x" * len(span[0]), line)):
                yield number, next(target for target in groups if target)

    def spans(self):
        """The code spans that begin with the program's name; a span may go over lines."""
        text = "".join(f"{line}\n" for _, line in self.prose)
        for span in re.finditer(r"(?<!`)`(scalebricks [^`]*)`(?!`)", text):
            yield self.prose[text.count("\n", 0, span.start())][0], " ".join(span[1].split())

    @functools.cached_property
    def anchors(self):
        """The anchors of headings, as GitHub and mdBook make them, and of HTML."""
        anchors, count = set(), {}
        for _, line in self.prose:
            heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
            if heading:
                text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
                slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
                times = count.get(slug, 0)
                count[slug] = times + 1
                anchors.add(f"{slug}-{times}" if times else slug)
            anchors.update(re.findall(r"(?:id|name)=\"([^\"]+)\"", line))
        return anchors


def tracked(root):
    """What git tracks, or would track: a page that is not added yet counts, a symbolic link to one does not."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listed.split("\0") if name and (root / name).is_file() and not (root / name).is_symlink())


def check_links(pages, files, report):
    folders = {str(parent) for name in files for parent in pathlib.PurePosixPath(name).parents}
    known, number_of_links = set(files), 0
    for name, page in pages.items():
        for line, target in page.links():
            if EXTERNAL.match(target):
                continue
            number_of_links += 1
            path, _, anchor = urllib.parse.unquote(target).partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if path not in known and path not in folders:
                report.add(name, line, f"{target}: no such file in the repository")
            elif anchor and (path not in pages or anchor not in pages[path].anchors):
                report.add(name, line, f"{target}: {path} has no heading '#{anchor}'")
    return number_of_links


def check_summary(pages, report):
    """Every page of docs/ is in the table of contents of the book; others would not be in the book."""
    summary = "docs/SUMMARY.md"
    if summary not in pages:
        report.add(summary, 1, "the file does not exist")
        return 0
    listed = {}
    for line, target in pages[summary].links():
        path = os.path.normpath(os.path.join("docs", target))
        if path in listed:
            report.add(summary, line, f"{target}: also in line {listed[path]}")
        listed[path] = line
    in_docs = [name for name in pages if name.startswith("docs/") and name != summary]
    for name in in_docs:
        if name not in listed:
            report.add(name, 1, "docs/SUMMARY.md does not list this page")
    return len(in_docs)


def check_api_page(root, report):
    made = subprocess.run([sys.executable, root / "scripts/api-page.py", "--check"], cwd=root, capture_output=True, text=True)
    if made.returncode != 0:
        report.add("docs/reference/api.md", 1, (made.stdout + made.stderr).strip())


class Program:
    """The subcommands and options of the program, by its own help."""

    def __init__(self, path):
        self.path, self.known = path, {}

    def help(self, command):
        """Subcommands, and options with whether each takes a value."""
        if command not in self.known:
            shown = subprocess.run([self.path, *command, "--help"], capture_output=True, text=True, check=True).stdout
            commands, options, section = set(), {}, ""
            for line in shown.splitlines():
                if re.match(r"\S.*:$", line):
                    section = line
                elif section == "Commands:" and re.match(r"  (\S+)", line):
                    commands.add(line.split()[0])
                option = re.match(r"\s+(?:(-\w), )?(--[\w-]+)(.*)|\s+(-\w)(.*)", line)
                # A description may begin with an option too; it is indented deeper.
                if option and len(line) - len(line.lstrip()) <= 6 and section not in ("Commands:", "Examples:"):
                    takes = bool(re.match(r" <", option[3] or option[5] or ""))
                    options.update({word: takes for word in (option[1], option[2], option[4]) if word})
            self.known[command] = commands, options
        return self.known[command]

    def is_hidden(self, command):
        """Whether a subcommand exists that the help does not list."""
        return subprocess.run([self.path, *command, "--help"], capture_output=True, check=False).returncode == 0

    def problem(self, words):
        """What is wrong with the words after `scalebricks`, or None."""
        command, at, is_positional = (), 0, False
        while at < len(words):
            word = words[at]
            commands, options = self.help(command)
            at += 1
            if word in ("--", "…"):
                return None
            if word.startswith("-") and word != "-" and not re.match(r"-\d", word):
                name, has_value = word.split("=")[0], "=" in word
                if not name.startswith("--") and len(name) > 2:
                    name, has_value = name[:2], True
                if name not in options:
                    return f"{' '.join(('scalebricks', *command))} has no option {name}"
                if options[name] and not has_value:
                    at += 1
            elif commands and not is_positional:
                if word in commands or self.is_hidden(command + (word,)):
                    command += (word,)
                elif len(commands) > (1 if "help" in commands else 0):
                    return f"{' '.join(('scalebricks', *command))} has no subcommand {word}"
            else:
                is_positional = True
        return None


def command_lines(block):
    """The commands in a block, each with its line number; a line that ends with a backslash goes on."""
    pending = None
    for number, line in block:
        if pending:
            pending = (pending[0], pending[1] + " " + line.strip())
        else:
            pending = (number, re.sub(r"^\$ ", "", line.strip()))
        if pending[1].endswith("\\"):
            pending = (pending[0], pending[1][:-1])
            continue
        yield pending
        pending = None


def words_after_program(line):
    """The arguments of each call of the program in a line of shell."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>()")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words = list(lexer)
    except ValueError:
        return
    part = []
    for word in [*words, ";"]:
        if not re.fullmatch(r"[|;&<>()]+", word):
            part.append(word)
            continue
        while part and (part[0] == "sudo" or re.match(r"\w+=", part[0])):
            part.pop(0)
        if part[:2] == ["cargo", "run"] and "--" in part and "scalebricks" in part[: part.index("--")]:
            part = ["scalebricks", *part[part.index("--") + 1 :]]
        if part and part[0] == "scalebricks":
            yield part[1:]
        part = []


def check_commands(pages, program, report):
    found = 0
    for name, page in pages.items():
        if name == "CHANGELOG.md" or name.startswith("docs/adr/"):
            continue
        blocks = [block for kind, block in page.blocks if kind.split(" ")[0] in ("", "sh", "console", "text")]
        lines = [line for block in blocks for line in command_lines(block)]
        for number, line in [*lines, *page.spans()]:
            for words in words_after_program(line):
                # Measurements name the command that made them: `scalebricks bench`, now a program of its own.
                if words[:1] == ["bench"]:
                    continue
                found += 1
                problem = program.problem(words) if program else None
                if problem:
                    report.add(name, number, problem)
    return found


class Html(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.targets, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.ids.add(value)
            if key in ("href", "src") and value:
                self.targets.append((self.getpos()[0], value))


def check_book(folder, report):
    book = {path: Html(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    if folder / "index.html" not in book:
        report.add(folder, 1, "no index.html: build the book first (make book)")
    count = 0
    for path, page in book.items():
        # 404.html and toc.html are served in other places than their own.
        if path.name in ("404.html", "toc.html"):
            continue
        for line, target in page.targets:
            if EXTERNAL.match(target):
                continue
            count += 1
            file, _, anchor = urllib.parse.unquote(target).partition("#")
            file = pathlib.Path(os.path.normpath(path.parent / file)) if file else path
            if not file.is_file():
                report.add(path, line, f"{target}: no such file in the book")
            elif anchor and (file not in book or anchor not in book[file].ids):
                report.add(path, line, f"{target}: no such anchor in the book")
    print(f"book: {len(book)} pages, {count} links")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments.add_argument("--book", type=pathlib.Path, help="the built site")
    arguments = arguments.parse_args()
    root, report = arguments.root, Report()
    files = tracked(root)
    pages = {name: Page((root / name).read_text(encoding="utf-8")) for name in files if name.endswith(".md")}
    links = check_links(pages, files, report)
    in_docs = check_summary(pages, report)
    check_api_page(root, report)
    path = os.environ.get("SCALEBRICKS")
    commands = check_commands(pages, Program(os.path.abspath(path)) if path else None, report)
    if arguments.book:
        check_book(arguments.book, report)
    print(f"{len(pages)} files, {links} links, {in_docs} pages of docs/, {commands} commands")
    if not path:
        print("skipped: commands of the documentation (the program's path must be in SCALEBRICKS)")
    for wrong in report.wrong:
        print(wrong)
    sys.exit(1 if report.wrong else 0)


main()
