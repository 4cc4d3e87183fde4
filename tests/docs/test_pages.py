"""Checks what pages refer to: options, public names, links, files. Needs no mkdocs; `make docs` builds the site and is strict too."""

import functools
import importlib.util
import re
import sys
from pathlib import Path

import pytest
import yaml
from blocks import ROOT

import ingot
import ingot.llm
import ingot.llm.hugging_face
from ingot import errors

sys.path.insert(0, str(ROOT / "tools"))
import options_page

spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / "tools/site.py")  # `site` is a module of Python's
site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)

OWN = {path.relative_to(ROOT / "docs").as_posix(): path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))}
PAGES = OWN | site.reference()
TEMPLATES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / ".github").rglob("*.md"))
FRONT = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "examples/README.md", "tests/README.md", *TEMPLATES]


def test_the_options_page_is_made_of_the_table():
    assert options_page.PAGE.read_text() == options_page.page(), "run python tools/options_page.py"


def test_the_reference_has_every_public_name():
    """Errors have a page of their own."""
    names = [name for group in site.GROUPS.values() for name in group]
    of_llm = {name.removeprefix("llm.") for name in names if re.fullmatch(r"llm\.\w+", name)}
    assert len(names) == len(set(names)) and of_llm == set(ingot.llm.__all__)
    assert {name for name in names if "." not in name} | {n for n in ingot.__all__ if hasattr(errors, n)} == set(ingot.__all__)
    text = "".join(site.reference().values())
    for name in names:
        assert f"::: ingot.{name}\n" in text and functools.reduce(getattr, name.split("."), ingot).__doc__, f"{name} has no docstring"


def test_every_error_has_a_place():
    for name in ingot.__all__:
        kind = getattr(ingot, name)
        if isinstance(kind, type) and issubclass(kind, ingot.Error) and kind is not ingot.Error:
            assert f"\n## {name}\n" in OWN["errors.md"] and f"](#{name.lower()})" in OWN["errors.md"]


def test_docstrings_become_lists():
    import prose

    text = "First.\n\n    Arguments:\n        shape: sizes, of\n            all axes.\n        low, high: ends.\n\n    Raises InputError.\n    "
    assert prose.prose(text) == "First.\n\n**Arguments**\n\n- `shape`: sizes, of\n  all axes.\n- `low`, `high`: ends.\n\nRaises InputError."


def test_the_reference_has_constructors_and_types():
    """As griffe reads the package, which it does not import."""
    import griffe
    import prose

    package = griffe.load("ingot", search_paths=[ROOT / "python"], allow_inspection=False, extensions=griffe.load_extensions(prose.Docstrings))
    for name, first in {"Launch": "grid", "Autocast": "dtype", "Input": "shape", "MutableModule": "model"}.items():
        assert [p.name for p in package[name].parameters][1] == first, name
    assert "__init__" not in package["Engine"].members and package["Engine.session"].returns.canonical_path == "ingot.engine._engine.Session"
    assert package["compile"].returns.canonical_path == "ingot.module.module.Module" and "- `kwarg_inputs`: " in package["compile"].docstring.value
    for name in (name for group in site.GROUPS.values() for name in group):
        for member in [package[name], *(m for m in package[name].all_members.values() if m.is_public)]:
            for annotation in [getattr(member, "annotation", None), getattr(member, "returns", None), *(p.annotation for p in getattr(member, "parameters", ()))]:
                assert not isinstance(annotation, str) or "'" not in annotation, f"{name}.{member.name}: {annotation} is a text, which links to nothing"


def test_each_function_of_the_headers_has_a_section():
    header, pages = (ROOT / "include/ingot/ingot.h").read_text(), site.reference()
    declared = re.findall(r"^INGOT_API [^(]*?(\w+)\(", header, re.M)
    sections = re.split(r"^### (ingot_\w+)$", pages["reference/c.md"], flags=re.M)
    assert sections[1::2] == declared and all(f"{name}(" in text for name, text in zip(sections[1::2], sections[2::2]))
    for words in ("Running a plan on [2, 16] token ids", "A state is the memory that a model writes", "typedef struct ingot_memory", "How far a file is trusted"):
        assert words in pages["reference/c.md"]
    wrapper = (ROOT / "include/ingot/ingot.hpp").read_text().split("}  // namespace detail")[1]
    assert re.findall(r"^## (\w+)$", pages["reference/cpp.md"], re.M) == ["Error", *re.findall(r"^(?:class|struct|inline .*?) (\w+)(?: \{|\()", wrapper, re.M)]
    assert "namespace detail" not in pages["reference/cpp.md"]


def test_names_of_pages_become_links():
    pages = {"modules.md", "decisions/0021-weights.md"}
    assert site.linked("see docs/modules.md, docs/decisions/0021.", "tutorials/x.md", pages) == "see [docs/modules.md](../modules.md), [docs/decisions/0021](../decisions/0021-weights.md)."
    assert site.linked("`docs/modules.md` [docs/modules.md](modules.md)", "x.md", pages) == "`docs/modules.md` [docs/modules.md](modules.md)"
    with pytest.raises(SystemExit, match="docs/x.md names docs/nowhere.md"):
        site.linked("docs/nowhere.md", "x.md", pages)


def slug(heading):
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())


@pytest.mark.parametrize("page", OWN)
def test_links_lead_somewhere(page):
    site.linked(OWN[page], page, set(PAGES))
    text = re.sub(r"```.*?```", "", OWN[page], flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        assert not target.startswith("http"), f"{page}: {target} is on another site"
        file, _, anchor = target.partition("#")
        found = (ROOT / "docs" / page).parent.joinpath(file).resolve().relative_to(ROOT / "docs").as_posix() if file else page
        assert found in PAGES or file.endswith(".svg") and (ROOT / "docs" / found).is_file(), f"{page} links to {target}"
        if anchor:
            assert anchor in map(slug, re.findall(r"^#+ (.*)$", PAGES[found], re.M)), f"{page} links to {target}"


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text.replace("!!", ""))["nav"]

    pages = {page for page in OWN if page.split("/")[0] not in site.INSIDE}
    assert all(f"{folder}/index.md" in OWN for folder in site.INSIDE)
    assert site.listed(nav) <= pages and site.listed(nav) | set(site.unlisted(nav)) == pages
    assert "concepts.md" in site.unlisted([{"Home": "index.md"}]) and "index.md" not in site.unlisted([{"Home": "index.md"}])


@pytest.mark.parametrize("page", [*FRONT, *(f"docs/{name}" for name in OWN if name.split("/")[0] not in site.INSIDE)])
def test_paths_are_there(page):
    """Paths from the root in a page's text exist. Decision records and performance notes are left out: their paths were true when they were written."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.S)
    for path in re.findall(r"(?<![\w/.-])(?:src|docs|tests|tools|examples|bench|python|include|cmake)/[\w./-]*\w", text):
        found = (ROOT / path).exists() or re.fullmatch(r"docs/decisions/\d{4}", path) and list(ROOT.glob(path + "-*.md"))
        assert found or list((ROOT / path).parent.glob((ROOT / path).name + "*")), f"{page} names {path}"


@pytest.mark.parametrize("page", [*FRONT, "docs/releasing.md"])
def test_what_a_page_of_the_root_names_is_there(page):
    """Its links to files, and targets of make."""
    text = (ROOT / page).read_text()
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for words in re.findall(r"(?:`|^ +(?:.*&& )?)make ([a-z][a-z0-9 -]*[a-z0-9])", text, re.M):
        assert set(words.split()) <= targets, f"{page} names make {words}"
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_there_is_a_template_for_each_kind_of_issue():
    assert [Path(name).stem for name in TEMPLATES] == ["bug", "does_not_compile", "slow_model", "pull_request_template"]
    for name in TEMPLATES[:3]:
        _, head, text = (ROOT / name).read_text().split("---\n", 2)
        assert set(yaml.safe_load(head)) == {"name", "about", "labels"} and "ingot doctor" in text


def test_each_folder_of_tests_has_a_line():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "tests/README.md").read_text(), re.M)
    assert rows == sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__")


def test_the_number_of_overloads():
    found = int(re.search(r"more than (\d+) overloads", OWN["features.md"]).group(1))
    assert found <= len(ingot.ops()) and f"More than {found} overloads" in (ROOT / "CHANGELOG.md").read_text()


def test_each_variable_of_the_environment_has_a_line():
    """What the libraries and the package read, but not what only tests build in."""
    files = [p for folder in ("src", "python/ingot") for p in (ROOT / folder).rglob("*") if p.suffix in (".cpp", ".py") and not p.stem.endswith("_test")]
    read = {name for p in files for name in re.findall(r"(?:getenv|environment|environ\.get)\(\"(INGOT_\w+)\"\)", p.read_text())} - {"INGOT_FAULT"}
    rows = set(re.findall(r"^\| `(INGOT_\w+)=", OWN["environment.md"], re.M))
    assert read == rows
